// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory is registered with exactly the requested rights; what cannot be registered is
//       refused with the numbers, before or after the device was called.
// Method: the null provider, with the registration verb recorded or made to fail.
#include "verbatim/verbs/protection_domain.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

/// What the device had to register.
struct Noted {
  const void* address = nullptr;
  std::size_t length = 0;
  unsigned access = ~0u;
};

class ProtectionDomainTest : public NullDevice {
 protected:
  /// The table records what it has to register, and fails if `refusal` is set.
  ProtectionDomain noting_domain() {
    noted = {};
    refusal = 0;
    table.reg_mr = [](ibv_pd* domain, void* address, std::size_t length, unsigned access) {
      noted = {address, length, access};
      if (refusal == 0) return verbatim_null_provider()->reg_mr(domain, address, length, access);
      errno = refusal;
      return static_cast<ibv_mr*>(nullptr);
    };
    return require(open().allocate_domain());
  }
  static inline Noted noted;
  static inline int refusal = 0;
  std::array<std::byte, 256> memory{};
};

TEST_F(ProtectionDomainTest, KnowsItsContext) {
  const Context context = open();
  const ProtectionDomain domain = require(context.allocate_domain());
  EXPECT_EQ(unsafe::native(domain.context()), unsafe::native(context));
}

TEST_F(ProtectionDomainTest, EqualsItsCopiesAndNoOther) {
  const Context context = open();
  const ProtectionDomain domain = require(context.allocate_domain());
  const ProtectionDomain copy = domain;
  EXPECT_EQ(copy, domain);
  EXPECT_EQ(unsafe::native(copy), unsafe::native(domain));
  EXPECT_NE(require(context.allocate_domain()), domain);
}

// ---- Rights

TEST_F(ProtectionDomainTest, LocalMemoryMayBeWrittenHereOnly) {
  const ProtectionDomain domain = noting_domain();
  const auto region = require(domain.register_local(memory));
  EXPECT_EQ(noted.access, unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(noted.address, memory.data());
  EXPECT_EQ(noted.length, memory.size());
  EXPECT_EQ(region.access(), AccessFlags{Access::local_write});
}

TEST_F(ProtectionDomainTest, LengthIsInBytesWhateverTheElements) {
  const ProtectionDomain domain = noting_domain();
  std::vector<std::uint64_t> words(10);
  const auto region = require(domain.register_local(words));
  EXPECT_EQ(noted.length, 80u);
  const auto part = require(domain.register_local(std::span{words}.subspan(2, 3)));
  EXPECT_EQ(noted.length, 24u);
  EXPECT_EQ(noted.address, &words[2]);
}

TEST_F(ProtectionDomainTest, ReadOnlyMemoryGivesNoRightAtAll) {
  const ProtectionDomain domain = noting_domain();
  const std::vector<int> constant{1, 2, 3};
  const auto region = require(domain.register_read_only(constant));
  EXPECT_EQ(noted.access, 0u);
  EXPECT_EQ(noted.address, constant.data());
  const auto viewed = require(domain.register_read_only(std::span{constant}.first(2)));
  EXPECT_EQ(noted.access, 0u);
  EXPECT_EQ(noted.length, 2 * sizeof(int));
}

TEST_F(ProtectionDomainTest, SharedMemoryMayBeReadAndWrittenUnlessToldOtherwise) {
  const ProtectionDomain domain = noting_domain();
  const auto shared = require(domain.register_shared(memory));
  EXPECT_EQ(noted.access, unsigned{IBV_ACCESS_LOCAL_WRITE} | unsigned{IBV_ACCESS_REMOTE_READ} |
                              unsigned{IBV_ACCESS_REMOTE_WRITE});
  const auto readable = require(domain.register_shared(std::span{memory}, Access::remote_read));
  EXPECT_EQ(noted.access, unsigned{IBV_ACCESS_LOCAL_WRITE} | unsigned{IBV_ACCESS_REMOTE_READ});
}

TEST_F(ProtectionDomainTest, CustomRightsReachTheDeviceAsTheyAre) {
  const ProtectionDomain domain = noting_domain();
  for (const AccessFlags access :
       {AccessFlags{}, AccessFlags{Access::remote_read}, Access::local_write | Access::huge_pages,
        Access::local_write | Access::remote_atomic | Access::relaxed_ordering}) {
    const auto region = require(domain.register_custom(memory, access));
    EXPECT_EQ(noted.access, access.bits);
    EXPECT_EQ(region.access(), access);
  }
}

TEST_F(ProtectionDomainTest, OwnedMemoryGetsTheRightsOfItsKind) {
  const ProtectionDomain domain = noting_domain();
  const Buffer buffer = require(domain.allocate(100));
  EXPECT_EQ(noted.access, unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(noted.length, 100u);
  const auto shared = require(domain.allocate_shared(200, Access::remote_write));
  EXPECT_EQ(noted.access, unsigned{IBV_ACCESS_LOCAL_WRITE} | unsigned{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(noted.length, 200u);
}

// ---- Refused before the device is asked

TEST_F(ProtectionDomainTest, RefusesToRegisterNothing) {
  const ProtectionDomain domain = noting_domain();
  std::vector<std::byte> empty;
  EXPECT_TRUE(fails_naming(domain.register_local(empty), Errc::invalid_argument, "length"));
  EXPECT_TRUE(fails_naming(domain.register_read_only(empty), Errc::invalid_argument, "length"));
  EXPECT_TRUE(fails_naming(domain.register_shared(empty), Errc::invalid_argument, "length"));
  EXPECT_TRUE(fails_naming(domain.register_custom(empty, {}), Errc::invalid_argument, "length"));
  EXPECT_TRUE(fails_naming(domain.register_dmabuf({.fd = 0, .length = 0}), Errc::invalid_argument,
                           "length"));
  EXPECT_TRUE(fails_naming(domain.allocate(0), Errc::invalid_argument, "length"));
  EXPECT_TRUE(fails_naming(domain.allocate_shared(0, Access::remote_read), Errc::invalid_argument,
                           "length"));
  EXPECT_EQ(noted.length, 0u);
}

TEST_F(ProtectionDomainTest, RefusesMoreThanARegionCanBe) {
  knobs.device.max_mr_size = 100;
  const ProtectionDomain domain = noting_domain();
  const Numbers numbers{.value = 256, .limit = 100};
  EXPECT_TRUE(fails_naming(domain.register_local(memory), Errc::limit_exceeded, "length", numbers));
  EXPECT_TRUE(fails_naming(domain.allocate(256), Errc::limit_exceeded, "length", numbers));
  EXPECT_EQ(noted.length, 0u);
  EXPECT_TRUE(succeeds(domain.allocate(100)));
}

TEST_F(ProtectionDomainTest, RefusesRemoteWritesWithoutLocalOnes) {
  const ProtectionDomain domain = noting_domain();
  for (const Access access : {Access::remote_write, Access::remote_atomic}) {
    EXPECT_TRUE(fails_naming(domain.register_custom(memory, access), Errc::invalid_argument,
                             "local_write", {.value = std::to_underlying(access)}));
  }
  EXPECT_EQ(noted.length, 0u);
}

TEST_F(ProtectionDomainTest, RefusesPagingOnDemandWhereThereIsNone) {
  const ProtectionDomain domain = noting_domain();
  EXPECT_TRUE(fails_naming(domain.register_custom(memory, Access::on_demand), Errc::unsupported,
                           "on-demand"));
  EXPECT_EQ(noted.length, 0u);
}

// ---- Refused by the device

TEST_F(ProtectionDomainTest, LockedMemoryThatIsTooMuchSaysHowMuchThereMayBe) {
  const ProtectionDomain domain = noting_domain();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  refusal = ENOMEM;
  const auto region = domain.register_local(memory);
  const std::uint64_t expected = limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur;
  EXPECT_TRUE(
      fails_naming(region, Errc::out_of_resources, "length", {.value = 256, .limit = expected}));
  EXPECT_EQ(region.error().os_error, ENOMEM);
}

TEST_F(ProtectionDomainTest, MemoryThatIsNotThereSaysWhere) {
  const ProtectionDomain domain = noting_domain();
  refusal = EFAULT;
  auto* const nowhere = reinterpret_cast<std::byte*>(0xdeadbeef000);
  const auto region = domain.register_local(std::span{nowhere, 4096});
  EXPECT_TRUE(fails_naming(region, Errc::invalid_argument, "length", {.value = 4096}));
  EXPECT_EQ(region.error().os_error, EFAULT);
  EXPECT_EQ(region.error().text_view(), "0xdeadbeef000");
}

TEST_F(ProtectionDomainTest, AnyOtherRefusalKeepsTheErrno) {
  const ProtectionDomain domain = noting_domain();
  refusal = EPERM;
  const auto region = domain.register_local(memory);
  ASSERT_TRUE(fails_with(region, Errc::permission_denied));
  EXPECT_EQ(region.error().os_error, EPERM);
  EXPECT_STREQ(region.error().operation, "ibv_reg_mr");
}

TEST_F(ProtectionDomainTest, MemoryThatCannotBeRegisteredIsGivenBack) {
  const ProtectionDomain domain = noting_domain();
  const int before = live();
  refusal = ENOMEM;
  EXPECT_TRUE(fails_with(domain.allocate(1000), Errc::out_of_resources));
  EXPECT_TRUE(
      fails_with(domain.allocate_shared(1000, Access::remote_read), Errc::out_of_resources));
  EXPECT_EQ(live(), before);
}

// ---- Memory from the provider

TEST_F(ProtectionDomainTest, MemoryThatCannotBeHadSaysHowMuch) {
  table.alloc_memory = [](ibv_context*, std::size_t, HugePages) -> void* {
    errno = ENOMEM;
    return nullptr;
  };
  const auto buffer = require(open().allocate_domain()).allocate(12345);
  EXPECT_TRUE(fails_naming(buffer, Errc::out_of_resources, "length", {.value = 12345}));
  EXPECT_EQ(buffer.error().os_error, ENOMEM);
}

std::size_t huge_page_bytes() {
  std::ifstream info{"/proc/meminfo"};
  std::string word;
  std::size_t kibibytes = 0;
  while (info >> word)
    if (word == "Hugepagesize:" && info >> kibibytes) return kibibytes * 1024;
  return std::size_t{2} << 20;
}

std::size_t allocated = 0;
HugePages allocated_as = HugePages::off;

TEST_F(ProtectionDomainTest, ReservedPagesComeWhole) {
  table.alloc_memory = [](ibv_context* context, std::size_t bytes, HugePages kind) {
    allocated = bytes;
    allocated_as = kind;
    return verbatim_null_provider()->alloc_memory(context, bytes, HugePages::off);
  };
  const ProtectionDomain domain = require(open().allocate_domain());
  const std::size_t page = huge_page_bytes();
  Buffer buffer = require(domain.allocate(page + 1, {.huge_pages = HugePages::reserved}));
  EXPECT_EQ(allocated, 2 * page);
  EXPECT_EQ(allocated_as, HugePages::reserved);
  EXPECT_EQ(buffer.size(), page + 1);  // What the caller asked for, and no more.
  EXPECT_EQ(buffer.region().length(), page + 1);

  const auto shared = require(
      domain.allocate_shared(5, Access::remote_read, {.huge_pages = HugePages::transparent}));
  EXPECT_EQ(allocated, 5u);
  EXPECT_EQ(allocated_as, HugePages::transparent);
}

TEST_F(ProtectionDomainTest, ReservedPagesThatAreNotThereAreAClearError) {
  table.alloc_memory = [](ibv_context*, std::size_t, HugePages) -> void* {
    errno = ENOMEM;
    return nullptr;
  };
  const auto buffer =
      require(open().allocate_domain()).allocate(1, {.huge_pages = HugePages::reserved});
  EXPECT_TRUE(
      fails_naming(buffer, Errc::out_of_resources, "huge pages", {.value = huge_page_bytes()}));
  EXPECT_NE(explain(buffer.error()).find("huge page"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::test
