// SPDX-License-Identifier: MIT OR Apache-2.0
#include "cases.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/relax_processor.hpp"

namespace verbatim::bench {
namespace {

// All figures are medians of slices. A slice is much shorter than a time slice of the system, so
// that most slices are not interrupted.
constexpr std::size_t slice_count(Figure figure) { return figure == Figure::latency ? 201 : 25; }

constexpr std::size_t kBatch = 32;

std::size_t slice_operations(const Case& each) {
  const bool plain = each.memory == Memory::plain;
  if (each.figure == Figure::rate) return kBatch * (plain ? 8 : 256);
  if (each.figure == Figure::bandwidth) return (16u << 20) / each.bytes;
  if (plain) return 100;
  return each.bytes <= 64 ? 1000 : 300;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Slices {
 public:
  void add(Clock::time_point start, std::size_t operations) {
    us_.push_back(seconds_since(start) * 1e6 / static_cast<double>(operations));
  }
  [[nodiscard]] double median() {
    std::ranges::nth_element(us_, us_.begin() + std::ssize(us_) / 2);
    return us_[us_.size() / 2];
  }
  [[nodiscard]] double mean() const {
    return std::accumulate(us_.begin(), us_.end(), 0.0) / static_cast<double>(us_.size());
  }

 private:
  std::vector<double> us_;
};

void put_word(std::span<std::byte> bytes, std::uint64_t value) {
  std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
}

/// Each side writes into the other's memory and watches its own, like ib_write_lat. The last word
/// is the counter; the rest is the pattern.
double write_latency(Side& side, const Case& each) {
  const std::size_t last = each.bytes - sizeof(std::uint64_t);
  const auto message = side.source().first(each.bytes);
  const auto element = side.gather(each.bytes);
  const auto remote = side.remote_bytes(each.bytes);
  const auto put = [&](std::uint64_t number) __attribute__((always_inline)) {
    put_word(message, number);
    // One request in 16 is signaled. The others need no completion, and a real program would not
    // request one.
    const bool signaled = number % 16 == 0;
    need(unsafe::post(side.queue_pair, Write{element, remote}, WrId{number},
                      signaled ? unsafe::Signal::completion : unsafe::Signal::none));
    if (signaled) side.finish(side.sends, 1);
  };
  const auto await = [&](std::uint64_t number) {
    while (side.target.load_acquire<std::uint64_t>(last) != number) finish_look();
  };
  Slices slices;
  // The left side is one ahead: so both do the same in the loop, and what they do is inlined there.
  const std::uint64_t lead = side.role == Role::left ? 1 : 0;
  std::uint64_t number = 0;
  if (lead != 0) put(lead);
  for (std::size_t slice = 0; slice < slice_count(each.figure); ++slice) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < slice_operations(each); ++i) {
      await(++number);
      put(number + lead);
    }
    slices.add(start, 2 * slice_operations(each));
  }
  side.meet();
  verify(side.target.quiescent_bytes().first(last),
         side.role == Role::left ? Role::right : Role::left);
  return slices.median();
}

/// A read needs no work of the other process, which only waits for the end.
double read_latency(Side& side, const Case& each) {
  fill(side.target.quiescent_bytes(), side.role);
  side.meet();
  Slices slices;
  if (side.role == Role::left) {
    const auto bytes = side.source().first(each.bytes);
    const auto remote = side.remote_bytes(each.bytes);
    for (std::size_t slice = 0; slice < slice_count(each.figure); ++slice) {
      const auto start = Clock::now();
      for (std::size_t i = 0; i < slice_operations(each); ++i) {
        const Read read{side.source_region().scatter(bytes), remote};
        need(unsafe::post(side.queue_pair, read, WrId{i}));
        side.finish(side.sends, 1);
      }
      slices.add(start, slice_operations(each));
    }
    verify(bytes, Role::right);
  }
  side.meet();
  return side.role == Role::left ? slices.median() : 0;
}

void post_receives(Side& side, const Case& each, std::size_t count) {
  const auto into = side.target.quiescent_bytes().first(each.bytes);
  unsafe::ReceiveBatch<kBatch, 1> batch;
  for (std::size_t i = 0; i < count; ++i) {
    need(batch.add(Receive{side.target.region().scatter(into)}, WrId{i}));
    if (batch.size() < kBatch && i + 1 < count) continue;
    const auto posted = batch.post(side.queue_pair);
    if (!posted) die(*posted.error);
  }
}

double send_latency(Side& side, const Case& each) {
  post_receives(side, each, kBatch);
  side.meet();
  const auto element = side.gather(each.bytes);
  const auto into = side.target.quiescent_bytes().first(each.bytes);
  const auto put = [&](std::uint64_t number) {
    need(unsafe::post(side.queue_pair, Send{element}, WrId{number}));
  };
  // Work that is not urgent comes after the answer has been posted.
  const auto await = [&] { side.finish(side.receives, 1); };
  const auto give_back = [&](std::uint64_t number) {
    need(unsafe::post(side.queue_pair, Receive{side.target.region().scatter(into)}, WrId{number}));
  };
  const auto tidy = [&](std::uint64_t number) {
    give_back(number);
    side.finish(side.sends, 1);
  };
  std::vector<Clock::time_point> times(slice_operations(each));
  const auto exchange_as_perftest = [&](std::size_t i) {
    if (side.role == Role::right) {
      await();
      give_back(i);
    }
    times[i] = Clock::now();
    put(i);
    side.finish(side.sends, 1);
    if (side.role == Role::left) {
      await();
      give_back(i);
    }
  };
  Slices slices;
  for (std::size_t slice = 0; slice < slice_count(each.figure); ++slice) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < slice_operations(each); ++i) {
      if (each.manner == Manner::perftest) {
        exchange_as_perftest(i);
      } else if (side.role == Role::left) {
        put(i);
        tidy(i);
        await();
      } else {
        await();
        put(i);
        tidy(i);
      }
    }
    slices.add(start, 2 * slice_operations(each));
  }
  side.meet();
  verify(side.target.quiescent_bytes().first(each.bytes),
         side.role == Role::left ? Role::right : Role::left);
  return slices.median();
}

/// Posts requests in lists of kBatch, or one by one if they are large. One request in each list is
/// signaled.
template <class Work>
void stream(Side& side, const Case& each, const Work& work, auto&& before_list) {
  const std::size_t list = each.figure == Figure::rate ? kBatch : 1;
  unsafe::SendBatch<kBatch, 1> batch{side.queue_pair};
  std::size_t lists_out = 0;
  for (std::size_t done = 0; done < slice_operations(each); done += list) {
    before_list(list);
    for (std::size_t i = 0; i + 1 < list; ++i) {
      need(batch.add(work, WrId{i}, unsafe::Signal::none));
    }
    need(batch.add(work, WrId{done}));
    const auto posted = batch.post();
    if (!posted) [[unlikely]]
      die(*posted.error);
    if (++lists_out < kDepth / kBatch - 1) continue;
    side.finish(side.sends, 1);
    --lists_out;
  }
  side.finish(side.sends, lists_out);
}

/// The median over slices, each a call of `once`, in M/s or MiB/s. perftest reports the mean.
double timed_stream(const Case& each, auto&& once) {
  once();  // Warms up pages and caches.
  Slices slices;
  for (std::size_t slice = 0; slice < slice_count(each.figure); ++slice) {
    const auto start = Clock::now();
    once();
    slices.add(start, slice_operations(each));
  }
  const double rate = 1 / (each.manner == Manner::perftest ? slices.mean() : slices.median());
  return each.figure == Figure::rate ? rate
                                     : rate * 1e6 * static_cast<double>(each.bytes) / (1 << 20);
}

double stream_one_sided(Side& side, const Case& each) {
  const bool reads = each.verb == Verb::read;
  if (reads) fill(side.target.quiescent_bytes(), side.role);
  side.meet();
  double figure = 0;
  if (side.role == Role::left) {
    const auto remote = side.remote_bytes(each.bytes);
    const auto bytes = side.source().first(each.bytes);
    const auto once = [&] {
      const auto nothing = [](std::size_t) {};
      if (reads) {
        const MemoryRegion& region = side.source_region();
        stream(side, each, Read{region.scatter(bytes), remote}, nothing);
      } else {
        const auto from = side.source_region().gather(bytes);
        stream(side, each, Write{from, remote}, nothing);
      }
    };
    figure = timed_stream(each, once);
    if (reads) verify(bytes, Role::right);
  }
  side.meet();
  if (side.role == Role::right && !reads)
    verify(side.target.quiescent_bytes().first(each.bytes), Role::left);
  return figure;
}

/// How many messages may be under way. perftest has no such limit: it runs out of receives, and the
/// device waits for the next one.
constexpr std::size_t credits(const Case& each) {
  return each.manner == Manner::perftest ? SIZE_MAX / 2 : kDepth / 2;
}

/// The receiver posts receives again, and reports how many messages it has received.
void take_stream(Side& side, const Case& each, std::size_t total) {
  const auto count = side.source().first(sizeof(std::uint64_t));
  const auto element = side.gather(sizeof(std::uint64_t));
  const auto remote = side.remote_bytes(sizeof(std::uint64_t));
  for (std::size_t had = 0; had < total;) {
    const std::size_t some = std::min(kBatch, total - had);
    side.finish(side.receives, some);
    had += some;
    post_receives(side, each, some);
    put_word(count, had);
    need(unsafe::post(side.queue_pair, Write{element, remote}, WrId{had}));
    side.finish(side.sends, 1);
  }
}

double stream_sends(Side& side, const Case& each) {
  const std::size_t total = slice_operations(each) * (slice_count(each.figure) + 1);
  if (side.role == Role::right) post_receives(side, each, kDepth);
  side.meet();
  double figure = 0;
  if (side.role == Role::right) {
    take_stream(side, each, total);
    verify(side.target.quiescent_bytes().first(each.bytes), Role::left);
  } else {
    const auto from = side.gather(each.bytes);
    const auto taken = [&] { return side.target.load_acquire<std::uint64_t>(0); };
    std::uint64_t sent = 0;
    figure = timed_stream(each, [&] {
      stream(side, each, Send{from}, [&](std::size_t more) {
        sent += more;
        while (sent > taken() + credits(each)) finish_look();
      });
    });
    while (taken() < total) finish_look();
  }
  side.meet();
  return figure;
}

}  // namespace

double run(const Case& each, Role role, int socket) {
  Side side =
      set_up(role, each.memory, std::max<std::size_t>(each.bytes, 4096) + Side::kSkew, socket);
  fill(side.source(), role);
  side.meet();
  if (each.figure == Figure::latency) {
    if (each.verb == Verb::write) return write_latency(side, each);
    if (each.verb == Verb::read) return read_latency(side, each);
    return send_latency(side, each);
  }
  return each.verb == Verb::send ? stream_sends(side, each) : stream_one_sided(side, each);
}

}  // namespace verbatim::bench
