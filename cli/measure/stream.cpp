// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include "measure/interrupt.hpp"

namespace verbatim::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kWarmUpSeconds = 0.02;
constexpr std::uint64_t kSampled = 256;  // One message in this many is compared as a whole.
constexpr std::size_t kCreditsOut = 16;
constexpr unsigned kLooks = 16;  // Rounds from one look at the clock to the next.
constexpr auto kSlice = std::chrono::microseconds{250};  // Far shorter than a system's time slice.
constexpr std::uint64_t kUnsignaled = 16;                // Requests for one completion, at most.
constexpr std::uint64_t kUnsignaledBytes = 64 << 10;
constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << 48) - 1;

/// The requests of one queue pair, in the order in which they are posted.
struct Lane {
  explicit Lane(QueuePair& queue_pair) : batch(queue_pair) {}
  unsafe::SendBatch<kMostBatch, 1> batch;
  std::uint64_t sent = 0;
  std::uint64_t over = 0;      ///< Requests complete in order: all up to this one.
  std::uint64_t signaled = 0;  ///< The last request that asks for a completion.
  std::uint64_t taken = 0;     ///< As the receiver said when we last had to know.
  std::uint32_t slot = 0;      ///< Of the next request.
};

/// A completion says which request it is of, and by that how many are over.
WrId id_of(std::uint32_t lane, std::uint64_t number) {
  return WrId{(std::uint64_t{lane} << 48) | (number & kNumberMask)};
}

/// A program asks for few completions: one for some requests, as long as that is little data.
std::uint64_t signal_period(const Case& what) {
  const std::uint64_t by_bytes = std::max<std::uint64_t>(1, kUnsignaledBytes / what.bytes);
  return std::min({kUnsignaled, by_bytes, std::max<std::uint64_t>(1, what.depth / 4)});
}

class Stream {
 public:
  explicit Stream(Side& side)
      : side_(side),
        verb_(side.what().verb),
        batch_(side.what().batch),
        period_(signal_period(side.what())) {
    for (std::uint32_t at = 0; at < side.what().queue_pairs; ++at) {
      lanes_.emplace_back(side.queue_pair(at));
      for (std::uint32_t slot = 0; slot < side.slots(); ++slot) add_place({at, slot});
    }
  }

  /// Until `effort` is made and all of it is over.
  Volume run(const Effort& effort, const Observer& observer) {
    Volume volume;
    const std::uint64_t before = sent_;
    const auto start = Clock::now();
    auto look_at = start + observer.every;
    Slice slice{start, over_};
    bool is_enough = false;
    side_.watch().begin();
    for (unsigned round = 1; !is_enough || over_ < sent_; ++round) {
      const bool has_posted = is_enough ? post_last() : post_all();
      const bool has_reaped = reap();
      if (has_posted || has_reaped)
        side_.watch().begin();
      else if (!side_.watch().go_on())
        side_.complain();
      const std::uint64_t sent = sent_ - before;
      if (effort.count != 0) is_enough = is_enough || sent >= effort.count;
      if (round % kLooks != 0) continue;
      const auto now = Clock::now();
      const double spent = std::chrono::duration<double>(now - start).count();
      if (effort.count == 0) is_enough = is_enough || spent >= effort.seconds;
      if (is_interrupted()) is_enough = true;
      if (now - slice.start >= kSlice && over_ > slice.over && !is_enough) {
        slice.end(now, over_, volume.pace);
        slice = {now, over_};
      }
      if (now < look_at || !observer.look) continue;
      look_at = now + observer.every;
      observer.look(effort.count != 0 ? std::min(1.0, static_cast<double>(sent) /
                                                          static_cast<double>(effort.count))
                                      : std::min(1.0, spent / effort.seconds),
                    0);
    }
    const auto end = Clock::now();
    if (volume.pace.count() == 0) slice.end(end, over_, volume.pace);
    volume.messages = sent_ - before;
    volume.seconds = std::chrono::duration<double>(end - start).count();
    return volume;
  }

  [[nodiscard]] std::vector<std::uint64_t> sent() const {
    std::vector<std::uint64_t> all;
    for (const Lane& lane : lanes_) all.push_back(lane.sent);
    return all;
  }

 private:
  /// From one look at the clock to another.
  struct Slice {
    Clock::time_point start;
    std::uint64_t over;
    void end(Clock::time_point now, std::uint64_t over_now, Histogram& pace) const {
      if (over_now == over) return;
      const double picoseconds = std::chrono::duration<double, std::pico>(now - start).count() /
                                 static_cast<double>(over_now - over);
      pace.add(static_cast<std::uint64_t>(picoseconds), over_now - over);
    }
  };

  void add_place(Place place) {
    if (verb_ == Verb::send || verb_ == Verb::write)
      gathers_.push_back(side_.gather(place));
    else
      targets_.push_back(side_.source(place));
    if (verb_ == Verb::atomic)
      words_.push_back(need(RemoteAtomic::at(side_.remote({place.queue_pair, 0}))));
    else
      remotes_.push_back(side_.remote(place));
  }

  [[nodiscard]] bool has_room(std::uint32_t at) {
    Lane& lane = lanes_[at];
    if (lane.sent - lane.over + batch_ > side_.what().depth) return false;
    if (verb_ != Verb::send) return true;
    const auto is_free = [&] { return lane.sent + batch_ <= lane.taken + side_.receive_depth(); };
    if (is_free()) return true;
    lane.taken = side_.target().load_acquire<std::uint64_t>(side_.credit_offset(at));
    return is_free();
  }

  bool post_all() {
    bool has_posted = false;
    for (std::uint32_t at = 0; at < lanes_.size(); ++at)
      for (; has_room(at); has_posted = true) post(at, false);
    return has_posted;
  }
  /// If the last request asked for no completion, one more request does.
  bool post_last() {
    bool has_posted = false;
    for (std::uint32_t at = 0; at < lanes_.size(); ++at) {
      if (lanes_[at].signaled == lanes_[at].sent || !has_room(at)) continue;
      post(at, true);
      has_posted = true;
    }
    return has_posted;
  }
  void post(std::uint32_t at, bool is_last) {
    Lane& lane = lanes_[at];
    const std::uint64_t end = lane.sent + batch_;
    const bool is_signaled = is_last || end - lane.signaled >= period_;
    while (lane.sent < end) {
      const std::size_t place = at * side_.slots() + lane.slot;
      lane.slot = lane.slot + 1 < side_.slots() ? lane.slot + 1 : 0;
      ++lane.sent;
      add(lane.batch, place, id_of(at, lane.sent),
          is_signaled && lane.sent == end ? unsafe::Signal::completion : unsafe::Signal::none);
    }
    sent_ += batch_;
    if (is_signaled) lane.signaled = end;
    if (const auto posted = lane.batch.post(); !posted) [[unlikely]]
      throw Failure{explain(*posted.error)};
  }
  void add(unsafe::SendBatch<kMostBatch, 1>& batch, std::size_t at, WrId id,
           unsafe::Signal signal) {
    const SendOptions options{.inlined = side_.is_inlined()};
    switch (verb_) {
      case Verb::send: return need(batch.add(Send{gathers_[at], options}, id, signal));
      case Verb::write:
        return need(batch.add(Write{gathers_[at], remotes_[at], options}, id, signal));
      case Verb::read:
        return need(
            batch.add(Read{side_.region().scatter(targets_[at]), remotes_[at]}, id, signal));
      case Verb::atomic:
        return need(
            batch.add(FetchAdd{side_.region().scatter(targets_[at]), words_[at], 1}, id, signal));
    }
  }
  bool reap() {
    std::array<Completion, 32> done;
    const std::size_t got = need(side_.sends().poll(done));
    for (std::size_t i = 0; i < got; ++i) {
      if (!done[i].ok()) [[unlikely]]
        throw Failure{to_string(done[i].error())};
      const std::uint64_t id = std::to_underlying(done[i].id());
      Lane& lane = lanes_[id >> 48];
      const std::uint64_t newly = (id - lane.over) & kNumberMask;
      lane.over += newly;
      over_ += newly;
    }
    return got > 0;
  }

  Side& side_;
  Verb verb_;
  std::uint32_t batch_;
  std::uint64_t period_;
  std::uint64_t sent_ = 0;  ///< Over all queue pairs.
  std::uint64_t over_ = 0;
  std::deque<Lane> lanes_;  // They do not move.
  // Of each slot of each queue pair, as far as the verb needs it.
  std::vector<GatherElement> gathers_;
  std::vector<std::span<std::byte>> targets_;
  std::vector<RemoteMemoryRegion> remotes_;
  std::vector<RemoteAtomic> words_;
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
    const Place sent{place.queue_pair, static_cast<std::uint32_t>(number % side_.slots())};
    if (number < side_.slots() || number % kSampled == 0)
      side_.verify(side_.landing(place), Role::client, sent);
  }
  void give_credit(std::uint32_t at) {
    if (credits_out_ == kCreditsOut) finish();
    const auto word = side_.credit_source(at);
    put_count(word, had_[at]);
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
    const std::uint64_t used = std::min(messages[at], side.slots());
    for (std::uint32_t slot = 0; slot < used; ++slot) {
      const Place place{at, slot};
      if (side.what().verb == Verb::write && side.role() == Role::server)
        side.verify(side.landing(place), Role::client, place);
      if (side.what().verb == Verb::read && side.role() == Role::client)
        side.verify(side.source(place), Role::server, place);
    }
    if (side.what().verb != Verb::atomic || side.role() == Role::client) continue;
    if (const auto made = count_in(side.landing({at, 0})); made != messages[at])
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
