// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that writes nonsense into another's segment costs it connections, not its life.
// Method: two processes with traffic between them; this one writes random bytes over the segment
//         of the first (or of both) wherever it is backed by memory. Both must live, and end when
//         told. 200 seeds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "soft/layout.hpp"
#include "support/seed.hpp"
#include "survival/conversation.hpp"
#include "survival/process.hpp"

namespace verbatim::test {

/// Arguments: the seed. Link: to the partner. Said: r. Heard: g, q.
int play_victim(const std::vector<std::string>& role) {
  const std::uint64_t seed = std::stoull(role.at(1));
  const Control control{kControlFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  {
    Link link{kFirstLinkFd};
    Conversation talk{domain, link, seed, Conversation::Checks::none};
    control.say('r');
    if (control.hear() != 'g') return 1;
    // Errors are fine, those of posting too; a crash or a hang is not.
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
    close(fd);
    if (memory_ == MAP_FAILED || parts_.empty()) give_up("no segment", Where::current());
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target() { munmap(memory_, engine::kSegmentBytes); }

  /// Random bytes, or small numbers, zeros and ones, which get further than noise.
  void scribble(Random& random) {
    const auto& [start, size] = parts_[random.up_to(parts_.size() - 1)];
    // The tables before the rings matter most, and all parts as much as a big one.
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
    // Names are the owner's own business: even a scribbled process cleans up after itself.
    ASSERT_TRUE(directory.is_gone());
  }
}

}  // namespace
}  // namespace verbatim::test
