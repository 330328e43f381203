// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that writes garbage into the segment of another may cost it connections, but not
//       its life.
// Method: two processes with traffic between them; this one writes random bytes over the segment of
//         the first (or of both) wherever it is backed by memory. Both must live, and end on order.
//         200 seeds. Also single entries, carefully forged.
// Covers: soft/shared_ring.cpp
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <thread>

#include "soft/completer/shared_ring.hpp"
#include "soft/requester/queue_pair.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/spin.hpp"
#include "support/seed.hpp"
#include "survival/conversation.hpp"
#include "survival/process.hpp"

namespace verbatim::test {

/// Arguments: the seed. Link: to the partner. Sends: r. Receives: g, q.
int play_victim(const std::vector<std::string>& role) {
  const std::uint64_t seed = std::stoull(role.at(1));
  const Control control{kControlFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  {
    Link link{kFirstLinkFd};
    Conversation talk{domain, link, seed, Conversation::Checks::none};
    control.say('r');
    if (control.hear() != 'g') return 1;
    // Errors are fine, including those of posting; a crash or a hang is not.
    for (;;) {
      try {
        talk.step();
      } catch (const SetupFailed&) {
      }
      std::this_thread::yield();
      if (const auto word = control.overhear(); word == 'q') break;
    }
  }
  return 0;
}

namespace {

/// A segment file of another process, and the parts of it that are backed by memory.
class Target {
 public:
  explicit Target(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) give_up("no segment " + path, Where::current());
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, engine::kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    off_t from = 0;
    while ((from = lseek(fd, from, SEEK_DATA)) >= 0) {
      const off_t to = lseek(fd, from, SEEK_HOLE);
      if (to < 0) break;
      parts_.push_back({static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)});
      from = to;
    }
    ::close(fd);
    if (memory_ == MAP_FAILED || parts_.empty()) give_up("no segment", Where::current());
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target() { munmap(memory_, engine::kSegmentBytes); }

  /// The same memory under another address, so that writes here look like those of another process.
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) const {
    return *reinterpret_cast<T*>(memory_ + offset);
  }

  /// Random bytes, or small numbers, zeros and ones, which get further than noise.
  void scribble(Random& random) {
    const auto& [start, size] = parts_[random.up_to(parts_.size() - 1)];
    // The tables before the rings matter most. All parts together get as much as a big one.
    const std::size_t at = start + random.up_to(size - 8) / 4 * 4;
    const std::uint64_t kind = random.up_to(3);
    std::uint64_t value = random.next();
    if (kind == 1) value = random.up_to(20);
    if (kind == 2) value = 0;
    if (kind == 3) value = ~std::uint64_t{0};
    std::memcpy(memory_ + at, &value, random.up_to(1) == 0 ? 4 : 8);
  }

 private:
  struct Part {
    std::size_t start;
    std::size_t size;
  };
  std::byte* memory_;
  std::vector<Part> parts_;
};

TEST(Scribbled, SegmentKillsNobody) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  for (std::uint64_t round = 0; round < 200 * stress_factor(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Random random{start + round};
    const auto [a, b] = socket_pair();
    Process first = Process::start({"victim", std::to_string(start + round)}, {a});
    Process second = Process::start({"victim", std::to_string(~(start + round))}, {b});
    ASSERT_EQ(first.control().hear(), 'r');
    ASSERT_EQ(second.control().hear(), 'r');
    Target one{directory.path() + "/p0-0"};
    Target other{directory.path() + "/p1-0"};
    first.control().say('g');
    second.control().say('g');
    const bool both = random.up_to(1) == 1;
    const std::uint64_t count = std::uint64_t{1} << random.up_to(14);
    for (std::uint64_t i = 0; i < count; ++i) {
      one.scribble(random);
      if (both) other.scribble(random);
      if (i % 64 == 0) std::this_thread::yield();
    }
    first.control().say('q');
    second.control().say('q');
    ASSERT_EQ(first.wait_for_end(), 0);
    ASSERT_EQ(second.wait_for_end(), 0);
    // Only the owner decides about names: even a process with a damaged segment cleans up.
    ASSERT_TRUE(directory.is_gone());
  }
}

/// A receive of this process, and entries in its completion queue that no honest peer would write.
class Forged : public testing::Test {
 protected:
  static constexpr std::uint32_t kBytes = 16;

  void post_receive(std::size_t bytes) {
    pair.local.post(Receive{sink.scatter(0, bytes)}, posted++);
  }
  /// An entry that completes the last receive.
  [[nodiscard]] engine::RemoteCompletion entry(std::uint32_t bytes, engine::Payload payload) const {
    return {.head = {.opcode = IBV_WC_RECV,
                     .flags = 0,
                     .payload = payload,
                     .status = IBV_WC_SUCCESS,
                     .queue_pair = queue_pair.index,
                     .receive = posted - 1,
                     .byte_count = bytes,
                     .immediate = 0,
                     .source = 0,
                     .source_lid = 0},
            .solicited = false,
            .data = &pieces};
  }
  [[nodiscard]] engine::Pushed try_push(const engine::RemoteCompletion& forged) {
    engine::QueueView view;
    return engine::push_remote(engine, engine.self(), queue.index, view, forged);
  }
  void push(const engine::RemoteCompletion& forged) {
    if (try_push(forged) != engine::Pushed::yes) give_up("no room for an entry", Where::current());
  }
  [[nodiscard]] std::optional<Completion> poll() {
    std::array<Completion, 1> found;
    return require(pair.local.receives.poll(found)) == 1 ? std::optional{found[0]} : std::nullopt;
  }

  SoftDirectory directory;
  ConnectedPair pair;
  Buffer sink = require(pair.domain.allocate(8192));
  engine::QueuePair& queue_pair = engine::QueuePair::of(unsafe::native(pair.local.queue_pair));
  engine::CompletionQueue& queue = engine::CompletionQueue::of(unsafe::native(pair.local.receives));
  engine::Engine& engine = *queue.engine;
  std::array<std::byte, engine::kEntryPayload> data{};
  engine::Pieces pieces{.all = {{data.data(), kBytes}}, .count = 1, .total = kBytes};
  std::uint32_t posted = 0;
};

TEST_F(Forged, LengthsBeyondTheReceiveAreRefused) {
  using engine::Payload;
  struct Row {
    std::uint32_t receive;
    std::uint32_t claimed;
    Payload payload;
  };
  for (const Row& row :
       {Row{kBytes, kBytes + 1, Payload::placed}, Row{kBytes, ~0u, Payload::placed},
        Row{kBytes, kBytes + 1, Payload::in_entry}, Row{kBytes, kBytes + 1, Payload::in_arena},
        // They fit the receive, but not the place in which they came.
        Row{8192, engine::kEntryPayload + 1, Payload::in_entry},
        Row{kBytes, 1, static_cast<Payload>(9)}}) {
    post_receive(row.receive);
    push(entry(row.claimed, row.payload));
    EXPECT_FALSE(poll()) << row.claimed << " in " << static_cast<int>(row.payload);
    push(entry(kBytes, Payload::placed));
    const auto honest = poll();
    ASSERT_TRUE(honest) << "the receive is still there for an honest peer";
    EXPECT_EQ(honest->byte_count(), kBytes);
  }
}

TEST_F(Forged, PayloadBeyondTheArenaIsRefused) {
  for (const std::uint32_t position :
       {queue.arena_bytes - kBytes + 1, queue.arena_bytes - 1, ~0u}) {
    post_receive(kBytes);
    const std::uint32_t at = engine::current_line(*queue.shared).tail.load();
    push(entry(kBytes, engine::Payload::in_arena));
    std::memcpy(queue.entries.load()[at & (queue.capacity - 1)].data, &position, sizeof position);
    EXPECT_FALSE(poll()) << position;
    push(entry(kBytes, engine::Payload::placed));
    ASSERT_TRUE(poll()) << "the receive is still there for an honest peer";
  }
}

// An atomic across two cache lines is not atomic, or raises a signal. The lowest bits name the line
// of producers.
TEST_F(Forged, RingAtAnOddPlaceIsRefused) {
  post_receive(kBytes);
  for (const std::uint64_t shift : {engine::kProducerLines, 8u, 32u}) {
    queue.shared->ring += shift;
    const engine::Pushed pushed = try_push(entry(kBytes, engine::Payload::placed));
    queue.shared->ring -= shift;
    EXPECT_NE(pushed, engine::Pushed::yes) << shift;
  }
  push(entry(kBytes, engine::Payload::placed));
  EXPECT_TRUE(poll());
}

TEST_F(Forged, OpcodesThatCompleteNoReceiveAreRefused) {
  post_receive(kBytes);
  for (const int opcode : {int{IBV_WC_SEND}, int{IBV_WC_RDMA_READ}, 77, 255}) {
    engine::RemoteCompletion forged = entry(kBytes, engine::Payload::placed);
    forged.head.opcode = static_cast<std::uint8_t>(opcode);
    push(forged);
    EXPECT_FALSE(poll()) << opcode;
  }
}

// The length says how much was written elsewhere.
TEST_F(Forged, LengthOfAWriteIsNotBoundedByTheReceive) {
  post_receive(kBytes);
  engine::RemoteCompletion honest = entry(1u << 20, engine::Payload::placed);
  honest.head.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  push(honest);
  const auto found = poll();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->byte_count(), 1u << 20);
}

TEST_F(Forged, LengthThatChangesAfterItWasCheckedIsNotBelieved) {
  const Target self{directory.path() + "/p" + std::to_string(engine.own().slot()) + "-0"};
  std::atomic<bool> stop{false};
  std::thread scribbler{[&] {
    unsigned turn = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint32_t next = queue.shared_head.load() & (queue.capacity - 1);  // To be polled.
      auto& count = self.at<std::uint32_t>(
          queue.ring_offset + next * sizeof(engine::CompletionEntry) +
          offsetof(engine::CompletionEntry, head) + offsetof(engine::EntryHead, byte_count));
      __atomic_store_n(&count, 1u << 30, __ATOMIC_RELAXED);
      for (unsigned spin = 0; spin < (turn & 63); ++spin) relax_processor();
      __atomic_store_n(&count, kBytes, __ATOMIC_RELAXED);
      for (unsigned spin = 0; spin < (turn++ >> 6 & 63); ++spin) relax_processor();
    }
  }};
  unsigned taken = 0;
  unsigned wrong = 0;
  post_receive(kBytes);
  for (unsigned round = 0; round < 400'000; ++round) {
    push(entry(kBytes, engine::Payload::in_entry));
    const auto found = poll();
    if (!found) continue;
    ++taken;
    if (found->byte_count() > kBytes) ++wrong;
    post_receive(kBytes);
  }
  stop = true;
  scribbler.join();
  EXPECT_GT(taken, 0u);
  EXPECT_EQ(wrong, 0u) << "of " << taken;
}

}  // namespace
}  // namespace verbatim::test
