// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "measure/interrupt.hpp"

namespace verbatim::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kWarmUpSeconds = 0.02;
constexpr std::uint64_t kSampled = 256;  // One message in so many is looked at as a whole.
constexpr std::size_t kCreditsOut = 16;
constexpr unsigned kLooks = 16;  // Rounds from one look at the clock to the next.

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Stream {
 public:
  explicit Stream(Side& side)
      : side_(side), batch_(side.what().batch), sent_(side.what().queue_pairs), over_(sent_) {
    for (std::uint32_t each = 0; each < side.what().queue_pairs; ++each)
      batches_.emplace_back(side.queue_pair(each));
  }

  /// Until `effort` is made and all of it is over.
  Volume run(const Effort& effort, const Observer& observer) {
    const std::uint64_t before = total();
    const auto start = Clock::now();
    auto look_at = start + observer.every;
    bool is_enough = false;
    side_.watch().begin();
    for (unsigned round = 1; !is_enough || in_flight() > 0; ++round) {
      const bool has_posted = !is_enough && post_all();
      const bool has_reaped = reap();
      if (has_posted || has_reaped)
        side_.watch().begin();
      else if (!side_.watch().go_on())
        side_.complain();
      const std::uint64_t sent = total() - before;
      if (effort.count != 0) is_enough = sent >= effort.count;
      if (round % kLooks != 0) continue;
      const auto now = Clock::now();
      const double spent = std::chrono::duration<double>(now - start).count();
      if (effort.count == 0) is_enough = spent >= effort.seconds;
      if (is_interrupted()) is_enough = true;
      if (now < look_at || !observer.look) continue;
      look_at = now + observer.every;
      observer.look(effort.count != 0 ? std::min(1.0, static_cast<double>(sent) /
                                                          static_cast<double>(effort.count))
                                      : std::min(1.0, spent / effort.seconds),
                    0);
    }
    return {total() - before, seconds_since(start)};
  }

  [[nodiscard]] const std::vector<std::uint64_t>& sent() const noexcept { return sent_; }

 private:
  [[nodiscard]] std::uint64_t total() const {
    return std::accumulate(sent_.begin(), sent_.end(), std::uint64_t{0});
  }
  [[nodiscard]] std::uint64_t in_flight() const {
    return total() - std::accumulate(over_.begin(), over_.end(), std::uint64_t{0});
  }
  [[nodiscard]] bool has_room(std::uint32_t at) {
    if (sent_[at] - over_[at] + batch_ > side_.what().depth) return false;
    if (side_.what().verb != Verb::send) return true;
    const auto taken = side_.target().load_acquire<std::uint64_t>(side_.credit_offset(at));
    return sent_[at] + batch_ <= taken + side_.receive_depth();
  }

  bool post_all() {
    bool has_posted = false;
    for (std::uint32_t at = 0; at < sent_.size(); ++at)
      for (; has_room(at); has_posted = true) post(at);
    return has_posted;
  }
  void post(std::uint32_t at) {
    auto& batch = batches_[at];
    for (std::uint32_t i = 0; i < batch_; ++i) {
      const Place place{at, static_cast<std::uint32_t>(sent_[at]++ % side_.what().slots())};
      add(batch, place, i + 1 == batch_ ? unsafe::Signal::completion : unsafe::Signal::none);
    }
    if (const auto posted = batch.post(); !posted) [[unlikely]]
      throw Failure{explain(*posted.error)};
  }
  using Batch = unsafe::SendBatch<kMostBatch, 1>;
  void add(Batch& batch, Place place, unsafe::Signal signal) {
    const SendOptions options{.inlined = side_.is_inlined()};
    switch (side_.what().verb) {
      case Verb::send:
        return need(batch.add(Send{side_.gather(place), options}, place.id(), signal));
      case Verb::write:
        return need(batch.add(Write{side_.gather(place), side_.remote(place), options}, place.id(),
                              signal));
      case Verb::read:
        return need(batch.add(Read{side_.scatter(place), side_.remote(place)}, place.id(), signal));
      case Verb::atomic: {
        const auto word = need(RemoteAtomic::at(side_.remote({place.queue_pair, 0})));
        return need(batch.add(FetchAdd{side_.scatter(place), word, 1}, place.id(), signal));
      }
    }
  }
  bool reap() {
    std::array<Completion, 32> done;
    const std::size_t got = need(side_.sends().poll(done));
    for (std::size_t i = 0; i < got; ++i) {
      if (!done[i].ok()) [[unlikely]]
        throw Failure{to_string(done[i].error())};
      over_[Place::of(done[i]).queue_pair] += batch_;
    }
    return got > 0;
  }

  Side& side_;
  std::uint32_t batch_;
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> over_;
  std::deque<Batch> batches_;  // They do not move.
};

/// The receiver of sends.
class Taker {
 public:
  explicit Taker(Side& side) : side_(side), had_(side.what().queue_pairs), told_(had_) {}

  [[nodiscard]] bool has(const std::vector<std::uint64_t>& all) const { return had_ == all; }
  void take(std::span<const Place> places) {
    for (const Place place : places) look_at(place);
    side_.post_receives(places);
    for (std::uint32_t at = 0; at < had_.size(); ++at)
      if (had_[at] - told_[at] >= std::max(1u, side_.what().depth / 2)) give_credit(at);
  }
  void finish() {
    side_.finish(side_.sends(), credits_out_);
    credits_out_ = 0;
  }

 private:
  void look_at(Place place) {
    const std::uint64_t number = had_[place.queue_pair]++;
    // The sender's slots take turns. Messages that share a place here have the same slot there.
    const Place sent{place.queue_pair, static_cast<std::uint32_t>(number % side_.what().slots())};
    if (number < side_.what().slots() || number % kSampled == 0)
      side_.verify(side_.landing(place), Role::client, sent);
  }
  void give_credit(std::uint32_t at) {
    if (credits_out_ == kCreditsOut) finish();
    const auto word = side_.credit_source(at);
    put_last_word(word, had_[at]);
    told_[at] = had_[at];
    need(unsafe::post(side_.queue_pair(at),
                      Write{side_.region().gather(word), side_.credit_remote(at)}, WrId{at}));
    ++credits_out_;
  }
  Side& side_;
  std::vector<std::uint64_t> had_;
  std::vector<std::uint64_t> told_;  ///< To the sender.
  std::size_t credits_out_ = 0;
};

}  // namespace

std::vector<std::uint64_t> measure_stream(Side& side, const Effort& effort,
                                          const Observer& observer, Volume& volume) {
  Stream stream{side};
  Effort warm{.seconds = kWarmUpSeconds};
  if (effort.count != 0) warm.count = side.what().depth;
  static_cast<void>(stream.run(warm, {}));
  volume = stream.run(effort, observer);
  return stream.sent();
}

std::vector<std::uint64_t> take_stream(Side& side, std::chrono::nanoseconds limit) {
  const std::uint32_t queue_pairs = side.what().queue_pairs;
  if (side.what().verb != Verb::send)
    return counts_from(side.control().receive(limit), queue_pairs);
  Taker taker{side};
  std::optional<std::vector<std::uint64_t>> all;
  while (!all || !taker.has(*all)) {
    if (const auto places = side.next_messages(); !places.empty())
      taker.take(places);
    else if (!all)
      all = counts_from(side.control().receive(side.manners().patience), queue_pairs);
    else
      throw Failure{"the client says more than it should"};
  }
  taker.finish();
  return *all;
}

void verify_stream(Side& side, const std::vector<std::uint64_t>& messages) {
  for (std::uint32_t at = 0; at < side.what().queue_pairs; ++at) {
    const std::uint64_t used = std::min(messages[at], side.what().slots());
    for (std::uint32_t slot = 0; slot < used; ++slot) {
      const Place place{at, slot};
      if (side.what().verb == Verb::write && side.role() == Role::server)
        side.verify(side.landing(place), Role::client, place);
      if (side.what().verb == Verb::read && side.role() == Role::client)
        side.verify(side.source(place), Role::server, place);
    }
    if (side.what().verb != Verb::atomic || side.role() == Role::client) continue;
    if (const auto made = last_word(side.landing({at, 0})); made != messages[at])
      throw Failure{fmt::format("WRONG DATA: {} atomic adds made {}", messages[at], made)};
  }
}

std::vector<std::uint64_t> counts_from(const nlohmann::json& record, std::uint32_t queue_pairs) {
  const auto done = record.find("done");
  if (done == record.end() || !done->is_array() || done->size() != queue_pairs ||
      !std::ranges::all_of(*done, [](const auto& each) { return each.is_number_unsigned(); }))
    throw Failure{"the client does not say how many messages there were"};
  return done->get<std::vector<std::uint64_t>>();
}

}  // namespace verbatim::cli
