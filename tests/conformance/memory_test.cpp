// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory is registered with the requested rights, or refused with a clear error, and can be
//       released in any order.
// Method: register valid and invalid ranges; destroy handles in seeded random orders and read the
//         log, where destructors report what they could not tear down.
// Covers: soft/domain.cpp, soft/registration.cpp
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/child_process.hpp"
#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::test {
namespace {

ProtectionDomain new_domain() { return require(open_context().allocate_domain()); }

/// Pages of this process with a protection that the test chooses; unmapped with the object.
class Mapping {
 public:
  Mapping(std::size_t bytes, int protection)
      : bytes_(bytes),
        address_(mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (address_ == MAP_FAILED) give_up("mmap failed", Where::current());
  }
  ~Mapping() { munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(address_), bytes_};
  }

 private:
  std::size_t bytes_;
  void* address_;
};

std::string hexadecimal(const void* address) {
  std::array<char, 24> text{'0', 'x'};
  std::to_chars(text.data() + 2, text.data() + text.size(),
                reinterpret_cast<std::uintptr_t>(address), 16);
  return text.data();
}

TEST(Buffer, IsAlignedZeroedAndRegistered) {
  const ProtectionDomain domain = new_domain();
  for (const std::size_t bytes : {1u, 63u, 4096u, 4097u, 1u << 20}) {
    Buffer buffer = require(domain.allocate(bytes));
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 64, 0u);
    EXPECT_TRUE(all_equal(buffer.bytes(), std::byte{0}));
    EXPECT_TRUE(buffer.region().encloses(buffer.bytes().data(), bytes));
    EXPECT_TRUE(fails_with(buffer.region().remote(), Errc::permission_denied));
  }
}

TEST(Buffer, IsElsewhereAfterAMove) {
  Buffer from = require(new_domain().allocate(100));
  const std::byte* const address = from.bytes().data();
  Buffer to = std::move(from);
  EXPECT_FALSE(from);
  EXPECT_EQ(to.bytes().data(), address);
}

TEST(Region, OfZeroLengthIsRefused) {
  const ProtectionDomain domain = new_domain();
  std::vector<std::byte> empty;
  EXPECT_TRUE(fails_with(domain.allocate(0), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(domain.allocate_shared(0, Access::remote_read), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(domain.register_local(empty), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(domain.register_read_only(empty), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(domain.register_shared(empty), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(domain.register_custom({}, Access::local_write), Errc::invalid_argument));
}

TEST(Region, OverUnmappedMemoryIsRefusedWithAddressAndLength) {
  const ProtectionDomain domain = new_domain();
  const auto page = static_cast<std::size_t>(getpagesize());
  const Mapping mapping{3 * page, PROT_READ | PROT_WRITE};
  // A hole inside our own range, so that no other thread can fill it meanwhile.
  ASSERT_EQ(munmap(mapping.bytes().data() + page, page), 0);
  const auto result = domain.register_local(mapping.bytes());
  ASSERT_TRUE(fails_with(result, Errc::invalid_argument));
  EXPECT_STREQ(result.error().field, "length");
  EXPECT_EQ(result.error().value, 3 * page);
  EXPECT_EQ(result.error().text_view(), hexadecimal(mapping.bytes().data()));
}

TEST(Region, ForWritingOverAReadOnlyMappingIsRefused) {
  const Mapping mapping{4096, PROT_READ};
  EXPECT_TRUE(fails_with(new_domain().register_local(mapping.bytes()), Errc::invalid_argument));
}

TEST(Region, ForReadingOverAReadOnlyMappingCanBeSentFrom) {
  ConnectedPair pair;
  const Mapping mapping{4096, PROT_READ | PROT_WRITE};
  fill(mapping.bytes(), test_seed());
  ASSERT_EQ(mprotect(mapping.bytes().data(), 4096, PROT_READ), 0);
  const MemoryRegion source = require(pair.domain.register_read_only(mapping.bytes()));
  Buffer sink = require(pair.domain.allocate(4096));
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Send{source.gather(mapping.bytes())}, 2);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(succeeded(poll_one(pair.remote.receives)));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

TEST(Region, ForReadingGivesNoScatterElement) {
  std::vector<std::byte> memory(100);
  const MemoryRegion region = require(new_domain().register_read_only(memory));
  EXPECT_TRUE(succeeds(region.try_gather(memory)));
  EXPECT_TRUE(fails_with(region.try_scatter(memory), Errc::permission_denied));
}

TEST(Region, OfBorrowedMemoryKnowsItsBounds) {
  std::vector<std::uint32_t> memory(100);
  const MemoryRegion region = require(new_domain().register_local(memory));
  EXPECT_EQ(region.length(), 400u);
  EXPECT_EQ(region.address(), reinterpret_cast<std::uintptr_t>(memory.data()));
  EXPECT_TRUE(succeeds(region.try_scatter(memory)));
  const std::span beyond{memory.data() + 99, 2};
  EXPECT_TRUE(fails_with(region.try_gather(beyond), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(region.gather_at(400, 1), Errc::invalid_argument));
  EXPECT_TRUE(succeeds(region.gather_at(400, 0)));
}

TEST(Region, WithCustomRightsHasExactlyThose) {
  std::vector<std::byte> memory(100);
  const ProtectionDomain domain = new_domain();
  const AccessFlags rights = Access::local_write | Access::remote_read;
  const MemoryRegion region = require(domain.register_custom(memory, rights));
  EXPECT_EQ(region.access(), rights);
  const RemoteMemoryRegion remote = require(region.remote());
  EXPECT_EQ(remote.address, region.address());
  EXPECT_EQ(remote.length, 100u);
}

TEST(Region, ReregisteredHasOtherKeysAndRights) {
  ConnectedPair pair;
  std::vector<std::byte> memory(1000);
  const AccessFlags all = Access::local_write | Access::remote_write | Access::remote_read;
  MemoryRegion region = require(pair.domain.register_custom(memory, all));
  Buffer source = require(pair.domain.allocate(memory.size()));
  fill(source.bytes(), test_seed());
  const RemoteMemoryRegion former = require(region.remote());
  const auto changed = region.reregister(Access::local_write | Access::remote_read);
  if (!changed && changed.error() == Errc::unsupported)
    GTEST_SKIP() << "the device cannot: " << to_string(changed.error());
  ASSERT_TRUE(succeeds(changed));
  const RemoteMemoryRegion readable = require(region.remote());
  fill(memory, test_seed() + 1);
  pair.local.post(Read{source.scatter(), readable}, 1);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(holds(source.bytes(), test_seed() + 1));

  // The right to write is back, again under another key.
  ASSERT_TRUE(succeeds(region.reregister(all)));
  fill(source.bytes(), test_seed());
  pair.local.post(Write{source.gather(), require(region.remote())}, 2);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(holds(memory, test_seed()));

  ASSERT_TRUE(succeeds(region.reregister(Access::local_write | Access::remote_read)));
  pair.local.post(Write{source.gather(), require(region.remote())}, 3);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_access) << "no right to write";
  if (former.key == require(region.remote()).key) return;  // Devices may keep the key.
  ConnectedPair another{pair.domain, {}};
  another.local.post(Read{source.scatter(), former}, 4);
  EXPECT_EQ(poll_one(another.local.sends).status(), WorkStatus::remote_access) << "a dead key";
}

TEST(Region, ForRemoteWritingWithoutLocalWritingIsRefused) {
  std::vector<std::byte> memory(100);
  const ProtectionDomain domain = new_domain();
  EXPECT_TRUE(
      fails_with(domain.register_custom(memory, Access::remote_write), Errc::invalid_argument));
  EXPECT_TRUE(
      fails_with(domain.register_custom(memory, Access::remote_atomic), Errc::invalid_argument));
}

TEST(Region, SharedTellsThePeerAddressLengthAndKey) {
  std::vector<std::uint64_t> memory(16);
  const ProtectionDomain domain = new_domain();
  const SharedRegion borrowed = require(domain.register_shared(memory));
  EXPECT_EQ(borrowed.remote().length, 128u);
  EXPECT_EQ(borrowed.remote().address, reinterpret_cast<std::uintptr_t>(memory.data()));
  const SharedRegion owned = require(domain.allocate_shared(128, Access::remote_read));
  EXPECT_EQ(owned.size(), 128u);
  EXPECT_NE(owned.remote().key, borrowed.remote().key);
}

TEST(Region, SharedWithoutAnyRemoteRightIsRefused) {
  EXPECT_TRUE(fails_with(new_domain().allocate_shared(64, {}), Errc::invalid_argument));
}

TEST(Region, AboveTheMemlockLimitIsRefusedWithTheLimit) {
  const ChildResult child = run_to_end(start_child({"memlock"}));
  if (child.status == kChildCannot) GTEST_SKIP() << child.output;
  EXPECT_EQ(child.status, 0) << child.output;
}

std::atomic<int> complaints;

void count_complaints(LogLevel level, std::string_view) noexcept {
  if (level >= LogLevel::warning) ++complaints;
}

TEST(Handles, MayBeDroppedInAnyOrder) {
  complaints = 0;
  const LogSink before = set_log_sink(&count_complaints);
  Random random{test_seed()};
  for (int round = 0; round < 20; ++round) {
    auto pair = std::make_shared<ConnectedPair>(PairOptions{.channels = true});
    std::vector<std::shared_ptr<void>> handles{
        std::make_shared<Context>(pair->context),
        std::make_shared<ProtectionDomain>(pair->domain),
        std::make_shared<Buffer>(require(pair->domain.allocate(100))),
        std::make_shared<SharedRegion>(
            require(pair->domain.allocate_shared(100, Access::remote_read))),
        std::make_shared<CompletionQueue>(pair->local.sends),
        std::make_shared<CompletionQueue>(pair->remote.receives),
        std::make_shared<QueuePair>(std::move(pair->local.queue_pair)),
        std::make_shared<QueuePair>(std::move(pair->remote.queue_pair)),
    };
    pair.reset();
    while (!handles.empty()) {
      const auto which =
          handles.begin() + static_cast<std::ptrdiff_t>(random.up_to(handles.size() - 1));
      handles.erase(which);
    }
  }
  set_log_sink(before);
  EXPECT_EQ(complaints, 0) << "destructors complained";
}

TEST(Handles, OfContextAndDomainAreNotNeededToTransfer) {
  auto pair = std::make_unique<ConnectedPair>();
  Buffer source = require(pair->domain.allocate(100));
  Buffer sink = require(pair->domain.allocate(100));
  Side local = std::move(pair->local);
  Side remote = std::move(pair->remote);
  pair.reset();
  fill(source.bytes(), test_seed());
  remote.post(Receive{sink.scatter()}, 1);
  local.post(Send{source.gather()}, 2);
  EXPECT_TRUE(succeeded(poll_one(local.sends)));
  EXPECT_TRUE(succeeded(poll_one(remote.receives)));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

}  // namespace
}  // namespace verbatim::test
