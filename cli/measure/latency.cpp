// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/latency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "measure/interrupt.hpp"

namespace verbatim::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kWarmUp = 1000;
constexpr auto kWarmUpTime = std::chrono::milliseconds{100};
/// The others need no completion, and a program asks for none.
constexpr std::uint64_t kSignaled = 16;

std::uint64_t nanoseconds(Clock::duration time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds{time}.count());
}

/// The queue pairs take turns; each counts its own messages from 1.
class Turns {
 public:
  explicit Turns(std::uint32_t count) : numbers_(count) {}
  std::uint32_t next() noexcept {
    at_ = at_ + 1 < numbers_.size() ? at_ + 1 : 0;
    ++numbers_[at_];
    return at_;
  }
  [[nodiscard]] std::uint64_t number() const noexcept { return numbers_[at_]; }
  [[nodiscard]] const std::vector<std::uint64_t>& numbers() const noexcept { return numbers_; }

 private:
  std::vector<std::uint64_t> numbers_;
  std::uint32_t at_ = 0;
};

/// Writes a message that says its number. Each end writes and watches its own memory, as
/// ib_write_lat does.
class Writer {
 public:
  explicit Writer(Side& side) : side_(side), options_{.inlined = side.is_inlined()} {
    for (std::uint32_t each = 0; each < side.what().queue_pairs; ++each) {
      messages_.push_back(side.source({each, 0}));
      elements_.push_back(side.gather({each, 0}));
      remotes_.push_back(side.remote({each, 0}));
    }
  }
  void put(std::uint32_t at, std::uint64_t number) {
    put_count(messages_[at], number);
    const bool signaled = number % kSignaled == 0;
    need(unsafe::post(side_.queue_pair(at), Write{elements_[at], remotes_[at], options_},
                      WrId{number}, signaled ? unsafe::Signal::completion : unsafe::Signal::none));
    if (signaled) side_.finish(side_.sends(), 1);
  }
  [[nodiscard]] bool await(std::uint32_t at, std::uint64_t number) {
    return side_.arrives({at, 0}, number);
  }

 private:
  Side& side_;
  WriteOptions options_;
  std::vector<std::span<std::byte>> messages_;
  std::vector<GatherElement> elements_;
  std::vector<RemoteMemoryRegion> remotes_;
};

/// The same with sends. What is not urgent comes after the message is on its way.
class Sender {
 public:
  explicit Sender(Side& side) : side_(side), options_{.inlined = side.is_inlined()} {}
  void put(std::uint32_t at, std::uint64_t number) {
    put_count(side_.source({at, 0}), number);
    need(unsafe::post(side_.queue_pair(at), Send{side_.gather({at, 0}), options_}, WrId{number}));
    if (taken_) side_.post_receive(*taken_);
    taken_.reset();
    side_.finish(side_.sends(), 1);
  }
  [[nodiscard]] bool await(std::uint32_t at, std::uint64_t number) {
    const auto taken = side_.next_messages(1);
    if (taken.empty()) return false;
    taken_ = taken[0];
    if (taken_->queue_pair != at ||
        count_in(side_.landing(*taken_)) != side_.what().count_of(number)) [[unlikely]]
      throw Failure{"WRONG DATA: a message is not the one that was expected"};
    if (number == 1) check_taken();
    return true;
  }
  /// The landing place of the last message; its receive is posted again.
  void finish() {
    if (!taken_) return;
    check_taken();
    side_.post_receive(*taken_);
  }

 private:
  void check_taken() const {
    const auto all = side_.landing(*taken_);
    side_.verify(all.first(all.size() - side_.what().count_bytes()), other(side_.role()),
                 {taken_->queue_pair, 0});
  }
  Side& side_;
  SendOptions options_;
  std::optional<Place> taken_{};
};

/// Calls `once` with the queue pair and the number of its message, until the effort is made.
template <class Once>
std::vector<std::uint64_t> repeat(const Side& side, const Effort& effort, const Observer& observer,
                                  Histogram& times, Once&& once) {
  Turns turns{side.what().queue_pairs};
  const auto exchange = [&] {
    const std::uint32_t at = turns.next();
    once(at, turns.number());
  };
  auto last = Clock::now();
  const auto warm = last + kWarmUpTime;
  for (std::uint64_t i = 0; i < kWarmUp && last < warm && !side.what().sleeps; ++i) {
    exchange();
    last = Clock::now();
  }
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(effort.seconds);
  auto look_at = start + observer.every;
  last = start;
  for (std::uint64_t i = 0; effort.count != 0 ? i < effort.count : last < end;) {
    exchange();
    const auto now = Clock::now();
    times.add(nanoseconds(now - last));
    ++i;
    last = now;
    if (is_interrupted()) [[unlikely]]
      throw Interrupted{};
    if (now < look_at || !observer.look) continue;
    const double part = effort.count != 0
                            ? static_cast<double>(i) / static_cast<double>(effort.count)
                            : std::chrono::duration<double>(now - start).count() / effort.seconds;
    observer.look(std::min(part, 1.0), times.last());
    last = Clock::now();
    look_at = last + observer.every;
  }
  return turns.numbers();
}

template <class Messenger>
std::vector<std::uint64_t> ask(Side& side, const Effort& effort, const Observer& observer,
                               Histogram& times, Messenger& messenger) {
  return repeat(side, effort, observer, times, [&](std::uint32_t at, std::uint64_t number) {
    messenger.put(at, number);
    if (!messenger.await(at, number)) [[unlikely]]
      side.complain();
  });
}

template <class Messenger>
void answer(const Side& side, Messenger& messenger) {
  Turns turns{side.what().queue_pairs};
  for (;;) {
    const std::uint32_t at = turns.next();
    if (!messenger.await(at, turns.number())) return;
    messenger.put(at, turns.number());
  }
}

void read_once(Side& side, std::uint32_t at) {
  const Place place{at, 0};
  need(unsafe::post(side.queue_pair(at), Read{side.scatter(place), side.remote(place)}, WrId{at}));
  side.finish(side.sends(), 1);
}

void add_once(Side& side, std::uint32_t at, std::uint64_t number) {
  const Place place{at, 0};
  const auto word = need(RemoteAtomic::at(side.remote(place)));
  need(unsafe::post(side.queue_pair(at), FetchAdd{side.scatter(place), word, 1}, WrId{at}));
  side.finish(side.sends(), 1);
  if (count_in(side.source(place)) != number - 1) [[unlikely]]
    throw Failure{fmt::format("WRONG DATA: atomic add number {} found {}", number,
                              count_in(side.source(place)))};
}

}  // namespace

std::vector<std::uint64_t> measure_latency(Side& side, const Effort& effort,
                                           const Observer& observer, Histogram& times) {
  switch (side.what().verb) {
    case Verb::write: {
      Writer writer{side};
      return ask(side, effort, observer, times, writer);
    }
    case Verb::send: {
      Sender sender{side};
      auto numbers = ask(side, effort, observer, times, sender);
      sender.finish();
      return numbers;
    }
    case Verb::read:
      return repeat(side, effort, observer, times,
                    [&](std::uint32_t at, std::uint64_t) { read_once(side, at); });
    case Verb::atomic:
      return repeat(side, effort, observer, times,
                    [&](std::uint32_t at, std::uint64_t number) { add_once(side, at, number); });
  }
  return {};
}

void answer_latency(Side& side) {
  if (side.what().verb == Verb::write) {
    Writer writer{side};
    answer(side, writer);
  } else if (side.what().verb == Verb::send) {
    Sender sender{side};
    answer(side, sender);
  }
}

void verify_latency(Side& side, const std::vector<std::uint64_t>& exchanges) {
  const Role peer = other(side.role());
  for (std::uint32_t at = 0; at < side.what().queue_pairs; ++at) {
    const Place place{at, 0};
    const std::size_t rest = side.what().bytes - side.what().count_bytes();
    if (exchanges[at] == 0) continue;
    // The end of a write was checked at each exchange: it is what the other waits for.
    if (side.what().verb == Verb::write) side.verify(side.landing(place).first(rest), peer, place);
    if (side.what().verb == Verb::read && side.role() == Role::client)
      side.verify(side.source(place), peer, place);
    if (side.what().verb == Verb::atomic && side.role() == Role::server &&
        count_in(side.landing(place)) != exchanges[at])
      throw Failure{fmt::format("WRONG DATA: {} atomic adds made {}", exchanges[at],
                                count_in(side.landing(place)))};
  }
}

}  // namespace verbatim::cli
