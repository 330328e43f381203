// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "measure/interrupt.hpp"

namespace verbatim::cli {
namespace {

constexpr std::uint32_t kRoomForUnsignaled =
    32;                                       // Room for sends that wait for the next signaled one.
constexpr std::uint32_t kLeastReceives = 32;  // For latency, where one is on its way at a time.

std::uint32_t receives_for(const Case& each) {
  if (each.verb != Verb::send) return 1;
  // A multiple of the slots: receives take turns over the same number of places as the sender does.
  // Else two messages with different data are under way to one place, and the later one is there
  // when a slow receiver looks at the earlier.
  const auto slots = static_cast<std::uint32_t>(each.slots());
  const std::uint32_t least = std::max(2 * each.depth, kLeastReceives);
  return (least + slots - 1) / slots * slots;
}
std::uint32_t sends_for(const Case& each) { return each.depth + kRoomForUnsignaled; }

CompletionQueue make_queue(const Context& context, std::uint32_t depth, bool sleeps) {
  CompletionQueueOptions options{.depth = depth};
  if (sleeps) options.channel = need(context.create_completion_channel());
  return need(context.create_completion_queue(options));
}

AccessFlags rights(const Case& each) {
  AccessFlags all = Access::remote_read | Access::remote_write;
  if (each.verb == Verb::atomic) all = all | Access::remote_atomic;
  return all;
}

ProtectionDomain domain_of(const Context& context, const Case& each) {
  if (each.verb == Verb::atomic && !context.capabilities().atomics)
    throw Failure{fmt::format("{} has no atomics", context.name())};
  return need(context.allocate_domain());
}

std::uint64_t pattern(Role writer, Place place, std::uint64_t word) noexcept {
  const std::uint64_t seed = (std::uint64_t{place.queue_pair} << 40) |
                             (std::uint64_t{place.slot} << 8) | (writer == Role::client ? 1 : 2);
  // Odd, as no byte is that stood there before.
  return ((word + 1) * 0x9e37'79b9'7f4a'7c15 ^ seed * 0xbf58'476d'1ce4'e5b9) | 1;
}

void fill(std::span<std::byte> bytes, Role writer, Place place) noexcept {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern(writer, place, at / 8);
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
}

bool has_word(std::span<const std::byte> message) { return message.size() % 8 == 0; }

}  // namespace

void put_count(std::span<std::byte> message, std::uint64_t number) noexcept {
  if (has_word(message))
    std::memcpy(message.data() + message.size() - sizeof number, &number, sizeof number);
  else
    message.back() = static_cast<std::byte>(number);
}

std::uint64_t count_in(std::span<const std::byte> message) noexcept {
  if (!has_word(message)) return std::to_integer<std::uint64_t>(message.back());
  std::uint64_t number = 0;
  std::memcpy(&number, message.data() + message.size() - sizeof number, sizeof number);
  return number;
}

Side::Side(Role role, const Case& each, const Context& context, Control& control,
           const Manners& manners)
    : role_(role),
      case_(each),
      slots_(each.slots()),
      control_(control),
      manners_(manners),
      watch_(control, manners.yields, manners.patience),
      receive_depth_(receives_for(each)),
      domain_(domain_of(context, each)),
      sends_(make_queue(context, each.queue_pairs * sends_for(each), false)),
      receives_(make_queue(context, each.queue_pairs * receive_depth_, each.sleeps)),
      source_(need(domain_.allocate(kSkew + credit_offset(each.queue_pairs)))),
      target_(need(domain_.allocate_shared(credit_offset(each.queue_pairs), rights(each)))) {
  prepared_.reserve(each.queue_pairs);
  for (std::uint32_t number = 0; number < each.queue_pairs; ++number)
    prepared_.push_back(need(QueuePair::prepare({.domain = domain_,
                                                 .send_completions = sends_,
                                                 .receive_completions = receives_,
                                                 .access = rights(each),
                                                 .max_send_requests = sends_for(each),
                                                 .max_receive_requests = receive_depth_})));
}

std::vector<std::string> Side::endpoints() const {
  std::vector<std::string> result;
  result.reserve(prepared_.size());
  for (const PreparedQueuePair& each : prepared_) result.push_back(to_json(each.endpoint()));
  return result;
}

void Side::connect(const std::vector<std::string>& endpoints) {
  if (endpoints.size() != prepared_.size())
    throw Failure{
        fmt::format("{} endpoints for {} queue pairs", endpoints.size(), prepared_.size())};
  queue_pairs_.reserve(prepared_.size());
  for (std::size_t number = 0; number < endpoints.size(); ++number) {
    const Endpoint peer = need(endpoint_from_json(endpoints[number]));
    queue_pairs_.push_back(need(std::move(prepared_[number]).connect(peer)));
  }
  prepared_.clear();
  inlined_ = case_.inlined && case_.bytes <= queue_pairs_[0].limits().max_inline_bytes &&
             (case_.verb == Verb::send || case_.verb == Verb::write);
  if (case_.verb != Verb::send) return;
  for (std::uint32_t number = 0; number < case_.queue_pairs; ++number)
    for (std::uint32_t each = 0; each < receive_depth_; ++each)
      post_receive({number, static_cast<std::uint32_t>(each % slots_)});
}

void Side::reach(const std::string& memory) {
  remote_ = need(remote_memory_from_json(memory));
  if (remote_.length < credit_offset(case_.queue_pairs))
    throw Failure{"the other end offers less memory than the case needs"};
}

void Side::begin_phase() {
  std::memset(target_.quiescent_bytes().data(), 0, target_.size());
  for (std::uint32_t number = 0; number < case_.queue_pairs; ++number)
    for (std::uint32_t slot = 0; slot < slots_; ++slot) {
      const Place place{number, slot};
      const bool is_filled = role_ == Role::client && case_.verb == Verb::read;
      if (is_filled)
        std::ranges::fill(source(place), std::byte{0xee});
      else
        fill(source(place), role_, place);
      // A peer reads the pattern from our target. The counter of atomics starts at 0.
      if (case_.verb == Verb::read) fill(landing(place), role_, place);
    }
}

std::span<std::byte> Side::source(Place place) {
  return source_.bytes().subspan(kSkew + offset_of(place), case_.bytes);
}
std::span<std::byte> Side::landing(Place place) {
  return target_.quiescent_bytes().subspan(offset_of(place), case_.bytes);
}
RemoteMemoryRegion Side::remote(Place place) const {
  return *remote_.sub_region(offset_of(place), case_.bytes);
}
std::span<std::byte> Side::credit_source(std::uint32_t queue_pair) {
  return source_.bytes().subspan(kSkew + credit_offset(queue_pair), sizeof(std::uint64_t));
}
RemoteMemoryRegion Side::credit_remote(std::uint32_t queue_pair) const {
  return *remote_.sub_region(credit_offset(queue_pair), sizeof(std::uint64_t));
}

void Side::post_receives(std::span<const Place> places) {
  unsafe::ReceiveBatch<kMostTaken, 1> batch;
  for (std::size_t at = 0; at < places.size(); ++at) {
    const Place place = places[at];
    need(batch.add(Receive{target_.region().scatter(landing(place))}, place.id()));
    if (at + 1 < places.size() && places[at + 1].queue_pair == place.queue_pair) continue;
    if (const auto posted = batch.post(queue_pairs_[place.queue_pair]); !posted) [[unlikely]]
      throw Failure{explain(*posted.error)};
  }
}

void Side::finish(CompletionQueue& queue, std::size_t count) {
  std::array<Completion, 32> done;
  watch_.begin();
  while (count > 0) {
    const std::size_t got = need(queue.poll(std::span{done}.first(std::min(count, done.size()))));
    for (std::size_t i = 0; i < got; ++i)
      if (!done[i].ok()) [[unlikely]]
        throw Failure{to_string(done[i].error())};
    count -= got;
    // What the peer says has time until our own requests are over.
    if (got == 0) static_cast<void>(watch_.go_on());
  }
}

std::span<const Place> Side::next_messages(std::size_t most) {
  std::array<Completion, kMostTaken> done;
  const std::span<Completion> room = std::span{done}.first(most);
  std::size_t got = 0;
  watch_.begin();
  if (case_.sleeps)
    got = sleep_for(room);
  else
    while ((got = need(receives_.poll(room))) == 0 && watch_.go_on()) {
    }
  for (std::size_t i = 0; i < got; ++i) {
    if (!done[i].ok()) [[unlikely]]
      throw Failure{to_string(done[i].error())};
    taken_[i] = Place::of(done[i]);
  }
  return std::span{taken_}.first(got);
}

std::size_t Side::sleep_for(std::span<Completion> room) {
  constexpr auto kNap = std::chrono::milliseconds{20};
  // Counts naps and reads no clock: time in which this process was stopped is not the peer's.
  for (auto waited = manners_.patience.zero();; waited += kNap) {
    const auto got = receives_.wait(room, kNap);
    if (got) return *got;
    if (got.error().code != Errc::timed_out) throw Failure{explain(got.error())};
    if (is_interrupted()) throw Interrupted{};
    if (control_.is_readable()) return 0;
    // A server waits for as long as the client is there.
    if (role_ == Role::client && waited > manners_.patience)
      throw Failure{fmt::format("the other end has not answered for {:g} s",
                                std::chrono::duration<double>(manners_.patience).count())};
  }
}

bool Side::arrives(Place place, std::uint64_t number) {
  const std::size_t end = offset_of(place) + case_.bytes;
  watch_.begin();
  if (case_.count_bytes() == 1) {
    const auto count = static_cast<std::uint8_t>(number);
    while (target_.load_acquire<std::uint8_t>(end - 1) != count)
      if (!watch_.go_on()) return false;
  } else {
    while (target_.load_acquire<std::uint64_t>(end - sizeof number) != number)
      if (!watch_.go_on()) return false;
  }
  return true;
}

void Side::complain() {
  static_cast<void>(
      control_.receive(manners_.patience));  // Throws what it says, or that it is gone.
  throw Failure{"the other end stopped in the middle of the measurement"};
}

void Side::verify(std::span<const std::byte> bytes, Role writer, Place place) const {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern(writer, place, at / 8);
    const std::size_t size = std::min(sizeof word, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &word, size) != 0) [[unlikely]]
      throw Failure{
          fmt::format("WRONG DATA: bytes {} to {} of a {} of {} bytes are not what was sent", at,
                      at + size - 1, to_string(case_.verb), case_.bytes)};
  }
}

}  // namespace verbatim::cli
