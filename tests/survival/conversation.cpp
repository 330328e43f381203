// SPDX-License-Identifier: MIT OR Apache-2.0
#include "survival/conversation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace verbatim::test {
namespace {

constexpr std::uint64_t kStanding = 0x5eed;  // The pattern of what peers read.

/// All receives may complete at once.
std::uint32_t receive_depth(const SharedSink* sink) {
  return std::max(64u, sink != nullptr ? static_cast<std::uint32_t>(sink->places()) : 0);
}

}  // namespace

LocalMemory::LocalMemory(const ProtectionDomain& domain, std::size_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::buffer) {
    buffer_ = require(domain.allocate(bytes));
  } else {
    plain_.resize(bytes);
    region_ = require(domain.register_local(plain_));
  }
}

std::span<std::byte> LocalMemory::bytes() { return buffer_ ? buffer_->bytes() : std::span{plain_}; }

GatherElement LocalMemory::gather(std::size_t offset, std::size_t size) {
  return buffer_ ? buffer_->gather(offset, size) : region_->gather(bytes().subspan(offset, size));
}

ScatterElement LocalMemory::scatter(std::size_t offset, std::size_t size) {
  return buffer_ ? buffer_->scatter(offset, size) : region_->scatter(bytes().subspan(offset, size));
}

SharedSink::SharedSink(const ProtectionDomain& domain, std::size_t places, std::size_t place_bytes,
                       MemoryKind kind)
    : places_(places),
      place_bytes_(place_bytes),
      memory_(domain, places * place_bytes, kind),
      queue_(require(domain.create_shared_receive_queue(
          {.max_requests = static_cast<std::uint32_t>(places)}))) {
  if (places > Conversation::kMostReceives) give_up("too many receives", Where::current());
  for (std::size_t place = 0; place < places; ++place) post(place);
}

void SharedSink::post(std::size_t place) {
  require(unsafe::post(queue_, Receive{memory_.scatter(place * place_bytes_, place_bytes_)},
                       WrId{place}));
}

std::span<std::byte> SharedSink::bytes(std::size_t place) {
  return memory_.bytes().subspan(place * place_bytes_, place_bytes_);
}

Conversation::Conversation(const ProtectionDomain& domain, std::uint64_t seed, Checks checks,
                           SharedSink* sink, MemoryKind kind, const CompletionQueue& sends,
                           const CompletionQueue& receives)
    : random_(seed),
      checks_(checks),
      sends_(sends),
      receives_(receives),
      source_(domain, kWindow * kBytes, kind),
      sink_(domain, kReceives * kBytes, kind),
      read_sink_(domain, kWindow * kBytes, kind),
      plain_(kind == MemoryKind::plain ? kCounterAt + 8 : 0),
      exposed_(require(kind == MemoryKind::plain
                           ? domain.register_shared(plain_, kRemoteAccess)
                           : domain.allocate_shared(kCounterAt + 8, kRemoteAccess))),
      shared_sink_(sink) {}

Conversation::Conversation(const ProtectionDomain& domain, Link& link, std::uint64_t seed,
                           Checks checks, SharedSink* sink, MemoryKind kind)
    : Conversation(domain, seed, checks, sink, kind, completion_queue(domain.context(), 64),
                   completion_queue(domain.context(), receive_depth(sink))) {
  fill(exposed_.quiescent_bytes().subspan(kStandingAt, kBytes), kStanding);
  QueuePairOptions options = queue_pair_options(domain, sends_, receives_);
  // A peer that lives may stand still, even in a lock that we need. One that dies is noticed
  // without the timers.
  be_patient(options);
  if (sink != nullptr) {
    options.shared_receive_queue = sink->queue();
    options.max_receive_requests = options.max_receive_elements = {};
  }
  auto prepared = require(QueuePair::prepare(options));
  link.send(encode(prepared.endpoint()));
  const Endpoint peer = require(decode_endpoint(link.receive()));
  link.send(encode(exposed_.remote()));
  peer_memory_ = require(decode_remote_memory(link.receive()));
  queue_pair_ = require(std::move(prepared).connect(peer));
  for (std::size_t place = 0; sink == nullptr && place < kReceives; ++place) post_receive(place);
  link.barrier();  // From here on both can receive.
}

void Conversation::require_that(const testing::AssertionResult& result) const {
  if (checks_ == Checks::all && !result) give_up(result.message(), Where::current());
}

void Conversation::post_receive(std::size_t place) {
  if (shared_sink_ != nullptr) return shared_sink_->post(place);
  require(unsafe::post(*queue_pair_, Receive{sink_.scatter(place * kBytes, kBytes)}, WrId{place}));
  ++receives_out_;
}

void Conversation::post_request() {
  const std::size_t place = requests_ % kWindow;
  const std::size_t bytes = random_.up_to(kBytes);
  const auto kind = static_cast<Kind>(random_.up_to(3));
  kinds_[place] = kind;
  const WrId id{requests_++};
  if (kind == Kind::read) {
    const auto from = peer_memory_.sub_region(kStandingAt, kBytes).value();
    require(unsafe::post(*queue_pair_, Read{read_sink_.scatter(place * kBytes, kBytes), from}, id));
  } else if (kind == Kind::add) {
    const auto at = require(RemoteAtomic::at(peer_memory_.sub_region(kCounterAt, 8).value()));
    require(unsafe::post(*queue_pair_, FetchAdd{read_sink_.scatter(place * kBytes, 8), at, 1}, id));
  } else {
    const std::uint64_t number = messages_++;
    fill(source_.bytes().subspan(place * kBytes, bytes), number);
    const auto from = source_.gather(place * kBytes, bytes);
    const auto slot = peer_memory_.sub_region(number % kSlots * kBytes, kBytes).value();
    const SendOptions options{.immediate = static_cast<std::uint32_t>(number)};
    require(kind == Kind::send ? unsafe::post(*queue_pair_, Send{from, options}, id)
                               : unsafe::post(*queue_pair_, Write{from, slot, options}, id));
  }
  ++sends_out_;
}

void Conversation::take_sent(const Completion& done) {
  --sends_out_;
  if (!done.ok()) {
    if (!broken_) broken_ = done.status();
    return;
  }
  const std::size_t place = std::to_underlying(done.id()) % kWindow;
  const auto result = read_sink_.bytes().subspan(place * kBytes, kBytes);
  if (kinds_[place] == Kind::read) require_that(holds(result, kStanding));
  if (kinds_[place] != Kind::add) return;
  std::uint64_t old = 0;
  std::memcpy(&old, result.data(), sizeof old);
  if (const std::uint64_t before = added_++; checks_ == Checks::all && old != before)
    give_up("an addition was lost or came twice", Where::current());
}

void Conversation::take_received(const Completion& done) {
  if (shared_sink_ == nullptr) --receives_out_;
  const std::size_t places = shared_sink_ != nullptr ? shared_sink_->places() : kReceives;
  const std::size_t place = std::to_underlying(done.id()) % places;
  if (!done.ok()) {
    if (!broken_) broken_ = done.status();
    if (shared_sink_ != nullptr) post_receive(place);
    return;
  }
  const std::uint64_t number = received_++;
  if (checks_ == Checks::all) {
    const std::size_t bytes = done.byte_count().value();
    if (done.immediate() != static_cast<std::uint32_t>(number))
      give_up("a message is missing or came twice", Where::current());
    const auto all = done.opcode() == Opcode::receive_immediate
                         ? exposed_.quiescent_bytes().subspan(number % kSlots * kBytes, kBytes)
                     : shared_sink_ != nullptr ? shared_sink_->bytes(place)
                                               : sink_.bytes().subspan(place * kBytes, kBytes);
    require_that(holds(all.first(bytes), number));
  }
  if (!broken_ || shared_sink_ != nullptr) post_receive(place);
}

std::size_t Conversation::step() {
  std::array<Completion, 16> found;
  const std::size_t sent = require(sends_.poll(found));
  for (std::size_t i = 0; i < sent; ++i) take_sent(found[i]);
  const std::size_t came = require(receives_.poll(found));
  for (std::size_t i = 0; i < came; ++i) take_received(found[i]);
  while (!broken_ && !stopped_ && sends_out_ < kWindow) post_request();
  return sent + came;
}

}  // namespace verbatim::test
