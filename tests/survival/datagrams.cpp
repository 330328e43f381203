// SPDX-License-Identifier: MIT OR Apache-2.0
#include "survival/datagrams.hpp"

#include <array>

namespace verbatim::test {

DatagramTalk::DatagramTalk(const ProtectionDomain& domain, std::uint64_t seed,
                           const CompletionQueue& sends, const CompletionQueue& receives)
    : random_(seed),
      sends_(sends),
      receives_(receives),
      source_(require(domain.allocate(kWindow * kBytes))),
      sink_(require(domain.allocate(kReceives * kPlace))) {}

DatagramTalk::DatagramTalk(const ProtectionDomain& domain, Link& link, std::uint64_t seed)
    : DatagramTalk(domain, seed, completion_queue(domain.context(), 64),
                   completion_queue(domain.context(), 64)) {
  QueuePairOptions options = queue_pair_options(domain, sends_, receives_);
  options.type = QueuePairType::unreliable_datagram;
  auto prepared = require(QueuePair::prepare(options));
  link.send(encode(prepared.endpoint()));
  const Endpoint peer = require(decode_endpoint(link.receive()));
  queue_pair_ = require(std::move(prepared).activate());
  to_ = require(queue_pair_->address_handle(peer));
  peer_ = peer.queue_pair;
  key_ = peer.queue_key;
  for (std::size_t place = 0; place < kReceives; ++place) post_receive(place);
  link.barrier();  // From here on both can receive.
}

void DatagramTalk::post_receive(std::size_t place) {
  require(unsafe::post(*queue_pair_, Receive{sink_.scatter(place * kPlace, kPlace)}, WrId{place}));
}

void DatagramTalk::send_next() {
  const std::size_t place = sent_ % kWindow;
  const std::size_t bytes = random_.up_to(kBytes);
  fill(source_.bytes().subspan(place * kBytes, bytes), sent_);
  const SendOptions options{.immediate = static_cast<std::uint32_t>(sent_)};
  require(unsafe::post(*queue_pair_,
                       Datagram{source_.gather(place * kBytes, bytes), *to_, peer_, key_, options},
                       WrId{sent_}));
  ++sent_;
  ++out_;
}

void DatagramTalk::take(const Completion& done) {
  if (!done.ok()) give_up("a datagram's receive failed", Where::current());
  const std::size_t place = std::to_underlying(done.id()) % kReceives;
  const std::size_t bytes = done.byte_count().value() - kHeader;
  const auto came = sink_.bytes().subspan(place * kPlace + kHeader, bytes);
  if (const auto right = holds(came, done.immediate().value()); !right)
    give_up(right.message(), Where::current());
  ++received_;
  post_receive(place);
}

void DatagramTalk::step() {
  std::array<Completion, 16> found;
  const std::size_t sent = require(sends_.poll(found));
  for (std::size_t i = 0; i < sent; ++i)
    if (!found[i].ok()) give_up("a datagram could not be sent", Where::current());
  out_ -= sent;
  const std::size_t came = require(receives_.poll(found));
  for (std::size_t i = 0; i < came; ++i) take(found[i]);
  while (out_ < kWindow) send_next();
}

}  // namespace verbatim::test
