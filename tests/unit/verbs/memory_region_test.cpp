// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no element names a byte outside its region, whatever the arithmetic; and peers can use what
//       a region publishes.
// Method: tables of ranges at and beyond each end, in the three ways to create an element.
#include "verbatim/verbs/memory_region.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <string>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

template <class Element>
ibv_sge raw(const Element& element) {
  return std::bit_cast<ibv_sge>(element);  // An element holds nothing else.
}

class MemoryRegionTest : public NullDevice {
 protected:
  static constexpr std::size_t kSize = 100;

  MemoryRegion writable() { return require(domain.register_local(part)); }
  MemoryRegion read_only() { return require(domain.register_read_only(part)); }
  std::span<std::byte> at(std::ptrdiff_t offset, std::size_t size) {
    return {part.data() + offset, size};
  }
  std::uint64_t base() const { return reinterpret_cast<std::uintptr_t>(part.data()); }
  void TearDown() override {
    domain_.reset();
    NullDevice::TearDown();
  }

  std::array<std::byte, 300> memory{};
  std::span<std::byte> part = std::span{memory}.subspan(100, kSize);  // With room around it.

 private:
  std::optional<ProtectionDomain> domain_{require(open().allocate_domain())};

 protected:
  const ProtectionDomain& domain = *domain_;
};

TEST_F(MemoryRegionTest, TellsWhatWasRegistered) {
  const MemoryRegion region = writable();
  EXPECT_EQ(region.address(), base());
  EXPECT_EQ(region.length(), kSize);
  EXPECT_EQ(region.access(), AccessFlags{Access::local_write});
  EXPECT_EQ(unsafe::lkey(region), LocalKey{unsafe::native(region)->lkey});
}

struct Record {
  std::uint64_t number;
  std::array<char, 12> name;
};

TEST_F(MemoryRegionTest, OneObjectIsItsBytes) {
  Record record{};
  const auto address = reinterpret_cast<std::uintptr_t>(&record);
  const MemoryRegion region = require(domain.register_local(record));
  EXPECT_EQ(region.address(), address);
  EXPECT_EQ(region.length(), sizeof record);
  EXPECT_EQ(region.access(), AccessFlags{Access::local_write});
  const ibv_sge whole = raw(region.gather(record));
  EXPECT_EQ(whole.addr, address);
  EXPECT_EQ(whole.length, sizeof record);
  const ibv_sge number = raw(region.scatter(record.number));
  EXPECT_EQ(number.addr, address);
  EXPECT_EQ(number.length, 8u);
  const ibv_sge name = raw(region.gather(record.name));  // A container means its elements.
  EXPECT_EQ(name.addr, address + 8);
  EXPECT_EQ(name.length, 12u);
  EXPECT_EQ(raw(require(region.try_gather(record.number))).length, 8u);
  EXPECT_EQ(raw(require(region.try_scatter(record))).length, sizeof record);
}

TEST_F(MemoryRegionTest, ConstObjectIsRead) {
  const std::uint64_t constant = 7;
  const MemoryRegion region = require(domain.register_read_only(constant));
  EXPECT_EQ(region.access(), AccessFlags{});
  EXPECT_EQ(raw(region.gather(constant)).length, 8u);
}

TEST_F(MemoryRegionTest, ObjectOutsideIsFound) {
  const ThrowingContracts contracts;
  Record inside{};
  Record other{};
  const MemoryRegion region = require(domain.register_local(inside));
  EXPECT_THROW(static_cast<void>(region.gather(other)), ContractViolation);
  EXPECT_THROW(static_cast<void>(region.scatter(other.number)), ContractViolation);
  EXPECT_TRUE(fails_with(region.try_gather(other), Errc::invalid_argument));
  const MemoryRegion part_of_it = require(domain.register_local(inside.number));
  EXPECT_THROW(static_cast<void>(part_of_it.gather(inside)), ContractViolation);
}

TEST_F(MemoryRegionTest, OneObjectCanBeShared) {
  std::uint64_t counter = 0;
  const SharedRegion shared = require(domain.register_shared(counter));
  EXPECT_EQ(shared.size(), 8u);
  EXPECT_EQ(shared.remote().address, reinterpret_cast<std::uintptr_t>(&counter));
}

TEST_F(MemoryRegionTest, EnclosesExactlyItsBytes) {
  const MemoryRegion region = writable();
  struct Row {
    std::ptrdiff_t offset;
    std::size_t size;
    bool inside;
  };
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  for (const auto& [offset, size, inside] : {
           Row{0, kSize, true},
           Row{0, 1, true},
           Row{kSize - 1, 1, true},
           Row{10, 90, true},
           Row{10, 91, false},
           Row{0, kSize + 1, false},
           Row{-1, 1, false},
           Row{-1, kSize, false},
           Row{-100, 300, false},
           Row{kSize, 1, false},
           Row{0, kHuge, false},        // The end wraps around.
           Row{50, kHuge - 49, false},  // ... to exactly the start.
           Row{-1, kHuge, false},
           Row{0, 0, true},  // Nothing, at a place inside.
           Row{kSize, 0, true},
           Row{kSize + 1, 0, false},  // Nothing, but somewhere else.
           Row{-1, 0, false},
       }) {
    EXPECT_EQ(region.encloses(part.data() + offset, size), inside) << offset << ' ' << size;
  }
  EXPECT_FALSE(region.encloses(nullptr, 0));
  EXPECT_FALSE(region.encloses(nullptr, kHuge));
}

TEST_F(MemoryRegionTest, ElementNamesAddressLengthAndKey) {
  const MemoryRegion region = writable();
  const ibv_sge gathered = raw(region.gather(at(10, 20)));
  EXPECT_EQ(gathered.addr, base() + 10);
  EXPECT_EQ(gathered.length, 20u);
  EXPECT_EQ(gathered.lkey, unsafe::native(region)->lkey);
  const ibv_sge scattered = raw(region.scatter(at(30, 40)));
  EXPECT_EQ(scattered.addr, base() + 30);
  EXPECT_EQ(scattered.length, 40u);
  EXPECT_EQ(scattered.lkey, unsafe::native(region)->lkey);
  EXPECT_EQ(region.gather(at(0, kSize)).size_bytes(), kSize);
}

TEST_F(MemoryRegionTest, ElementOfAContainerCountsBytes) {
  std::vector<std::uint32_t> words(8);
  const std::vector<std::uint32_t> constant(8);
  const MemoryRegion region = require(domain.register_local(words));
  EXPECT_EQ(region.gather(words).size_bytes(), 32u);
  EXPECT_EQ(region.scatter(words).size_bytes(), 32u);
  const MemoryRegion of_constant = require(domain.register_read_only(constant));
  EXPECT_EQ(raw(of_constant.gather(constant)).addr,
            reinterpret_cast<std::uintptr_t>(constant.data()));
}

TEST_F(MemoryRegionTest, OutsideIsAViolationWithTheNumbers) {
  const ThrowingContracts throwing;
  const MemoryRegion region = writable();
  EXPECT_THROW(static_cast<void>(region.gather(at(-1, 10))), ContractViolation);
  EXPECT_THROW(static_cast<void>(region.scatter(at(-1, 10))), ContractViolation);
  EXPECT_THROW(static_cast<void>(region.scatter(at(kSize, 1))), ContractViolation);
  const unsigned line = __LINE__ + 2;
  try {
    static_cast<void>(region.gather(at(91, 10)));
    FAIL() << "gather() returned";
  } catch (const ContractViolation& violation) {
    EXPECT_NE(std::string{violation.what}.find("gather()"), std::string::npos);
    EXPECT_EQ(violation.value, 10u);
    EXPECT_EQ(violation.limit, kSize);
    EXPECT_EQ(violation.where.line(), line);  // The place of the caller, not the library.
  }
}

TEST_F(MemoryRegionTest, OutsideIsAnErrorOfTheTryingForms) {
  const MemoryRegion region = writable();
  EXPECT_TRUE(succeeds(region.try_gather(at(0, kSize))));
  EXPECT_TRUE(succeeds(region.try_scatter(at(0, kSize))));
  const Numbers numbers{.value = 10, .limit = kSize};
  const auto gathered = region.try_gather(at(91, 10));
  EXPECT_TRUE(fails_naming(gathered, Errc::invalid_argument, "outside", numbers));
  std::array<char, 24> expected{};
  std::snprintf(expected.data(), expected.size(), "0x%llx",
                static_cast<unsigned long long>(base() + 91));
  EXPECT_EQ(gathered.error().text_view(), expected.data());
  EXPECT_TRUE(
      fails_naming(region.try_scatter(at(-1, 10)), Errc::invalid_argument, "outside", numbers));
  std::vector<std::byte> elsewhere(10);
  EXPECT_TRUE(
      fails_naming(region.try_gather(elsewhere), Errc::invalid_argument, "outside", numbers));
}

TEST_F(MemoryRegionTest, UncheckedFormsTakeTheCallersWord) {
  const MemoryRegion region = writable();
  EXPECT_EQ(raw(region.gather_unchecked(at(-5, 10))).addr, base() - 5);
  EXPECT_EQ(raw(region.scatter_unchecked(at(95, 10))).length, 10u);
}

TEST_F(MemoryRegionTest, ReadOnlyIsGatheredButNotScattered) {
  const ThrowingContracts throwing;
  const MemoryRegion region = read_only();
  EXPECT_EQ(region.gather(at(0, 10)).size_bytes(), 10u);
  EXPECT_THROW(static_cast<void>(region.scatter(at(0, 10))), ContractViolation);
  EXPECT_TRUE(fails_naming(region.try_scatter(at(0, 10)), Errc::permission_denied, "local_write",
                           {.value = 10}));
  EXPECT_TRUE(fails_with(region.scatter_at(0, 10), Errc::permission_denied));
  EXPECT_TRUE(succeeds(region.gather_at(0, 10)));
}

TEST_F(MemoryRegionTest, ByOffsetStaysInside) {
  const MemoryRegion region = writable();
  EXPECT_EQ(raw(require(region.gather_at(10, 20))).addr, base() + 10);
  EXPECT_EQ(raw(require(region.scatter_at(99, 1))).addr, base() + 99);
  EXPECT_TRUE(succeeds(region.gather_at(kSize, 0)));
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(fails_naming(region.gather_at(kSize, 1), Errc::invalid_argument, "outside",
                           {.value = 1, .limit = kSize}));
  EXPECT_TRUE(fails_with(region.gather_at(kHuge, 1), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(region.gather_at(kHuge - base() + 1, 1), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(region.scatter_at(50, 51), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(region.scatter_at(0, kHuge), Errc::limit_exceeded));
}

// An element has a length of 32 bits: a longer range must not be truncated.
TEST_F(MemoryRegionTest, MoreThanAnElementCanNameIsRefused) {
  constexpr std::size_t kBytes = (std::size_t{1} << 32) + 10;
  void* const address =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(address, MAP_FAILED);
  const std::span all{static_cast<std::byte*>(address), kBytes};
  {
    const ThrowingContracts throwing;
    const MemoryRegion region = require(domain.register_local(all));
    constexpr std::uint64_t kLongest = std::numeric_limits<std::uint32_t>::max();
    EXPECT_TRUE(region.encloses(all.data(), all.size()));
    EXPECT_THROW(static_cast<void>(region.gather(all)), ContractViolation);
    EXPECT_THROW(static_cast<void>(region.scatter(all)), ContractViolation);
    EXPECT_THROW(static_cast<void>(region.gather(all.first(kLongest + 1))), ContractViolation);
    const Numbers numbers{.value = kBytes, .limit = kLongest};
    EXPECT_TRUE(fails_naming(region.try_gather(all), Errc::limit_exceeded, "length", numbers));
    EXPECT_TRUE(fails_naming(region.try_scatter(all), Errc::limit_exceeded, "length", numbers));
    EXPECT_TRUE(fails_naming(region.gather_at(0, kBytes), Errc::limit_exceeded, "length", numbers));
    EXPECT_EQ(region.gather(all.first(kLongest)).size_bytes(), kLongest);
  }
  munmap(address, kBytes);
}

// ---- What peers are told

TEST_F(MemoryRegionTest, RemoteNamesAddressLengthAndRemoteKey) {
  const MemoryRegion region =
      require(domain.register_custom(part, Access::local_write | Access::remote_write));
  const RemoteMemoryRegion remote = require(region.remote());
  EXPECT_EQ(remote.address, base());
  EXPECT_EQ(remote.length, kSize);
  EXPECT_EQ(remote.key, RemoteKey{unsafe::native(region)->rkey});
  EXPECT_NE(unsafe::native(region)->rkey, unsafe::native(region)->lkey);
}

TEST_F(MemoryRegionTest, RemoteNeedsARemoteRight) {
  EXPECT_TRUE(fails_naming(writable().remote(), Errc::permission_denied, "access",
                           {.value = IBV_ACCESS_LOCAL_WRITE, .limit = kRemoteAccess.bits}));
  EXPECT_TRUE(fails_with(read_only().remote(), Errc::permission_denied));
  for (const Access right : {Access::remote_read, Access::remote_write, Access::remote_atomic})
    EXPECT_TRUE(
        succeeds(require(domain.register_custom(part, Access::local_write | right)).remote()));
}

TEST_F(MemoryRegionTest, ZeroBasedStartsAtZero) {
  const MemoryRegion region = require(
      domain.register_custom(part, Access::local_write | Access::remote_read | Access::zero_based));
  EXPECT_EQ(region.address(), 0u);
  EXPECT_EQ(require(region.remote()).address, 0u);
  EXPECT_EQ(raw(require(region.gather_at(7, 3))).addr, 7u);
  EXPECT_FALSE(region.encloses(part.data(), 1));
}

// ---- Memory of another device

constexpr std::uint64_t kIova = 0x7000'0000'0000;

DmabufOptions dmabuf() {
  return {.fd = 0,
          .offset = 4096,
          .length = 8192,
          .iova = kIova,
          .access = Access::local_write | Access::remote_read};
}

// The raw object holds `offset` in the place of the address.
TEST_F(MemoryRegionTest, OfADmabufIsNamedByItsIova) {
  const MemoryRegion region = require(domain.register_dmabuf(dmabuf()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(unsafe::native(region)->addr), 4096u);
  EXPECT_EQ(region.address(), kIova);
  EXPECT_EQ(region.length(), 8192u);
  EXPECT_EQ(require(region.remote()).address, kIova);
  EXPECT_EQ(require(region.remote()).length, 8192u);
  EXPECT_EQ(raw(require(region.gather_at(16, 32))).addr, kIova + 16);
  EXPECT_EQ(raw(require(region.scatter_at(8191, 1))).addr, kIova + 8191);
  EXPECT_TRUE(fails_with(region.gather_at(8192, 1), Errc::invalid_argument));
  EXPECT_TRUE(region.encloses(reinterpret_cast<const void*>(kIova), 8192));
  EXPECT_FALSE(region.encloses(reinterpret_cast<const void*>(4096), 8192));
}

struct DmabufCall {
  std::uint64_t offset, length, iova;
  int fd, access;
} dmabuf_call{};

TEST_F(MemoryRegionTest, OfADmabufReachesTheDeviceAsItIs) {
  table.reg_dmabuf_mr = [](ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                           int fd, int access) {
    dmabuf_call = {offset, length, iova, fd, access};
    return verbatim_null_provider()->reg_dmabuf_mr(pd, offset, length, iova, fd, access);
  };
  const ProtectionDomain other = require(open().allocate_domain());
  const auto region = require(other.register_dmabuf(dmabuf()));
  EXPECT_EQ(dmabuf_call.offset, 4096u);
  EXPECT_EQ(dmabuf_call.length, 8192u);
  EXPECT_EQ(dmabuf_call.iova, kIova);
  EXPECT_EQ(dmabuf_call.fd, 0);
  EXPECT_EQ(dmabuf_call.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

TEST_F(MemoryRegionTest, OfADmabufThatIsNoneNamesTheDescriptor) {
  DmabufOptions options = dmabuf();
  options.fd = -1;
  const auto region = domain.register_dmabuf(options);
  EXPECT_TRUE(fails_naming(region, Errc::driver, "fd", {.value = static_cast<std::uint64_t>(-1)}));
  EXPECT_EQ(region.error().os_error, EBADF);
}

TEST_F(MemoryRegionTest, OfADmabufThatDoesNotFitNamesTheLength) {
  table.reg_dmabuf_mr = [](ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int,
                           int) -> ibv_mr* {
    errno = EINVAL;
    return nullptr;
  };
  const auto region = require(open().allocate_domain()).register_dmabuf(dmabuf());
  EXPECT_TRUE(fails_naming(region, Errc::invalid_argument, "length", {.value = 8192}));
}

// ---- Ownership

TEST_F(MemoryRegionTest, MovesAndIsDeregisteredOnce) {
  const int before = live();
  {
    MemoryRegion first = writable();
    MemoryRegion second = std::move(first);
    EXPECT_EQ(live(), before + 1);
    EXPECT_EQ(second.gather(at(0, 1)).size_bytes(), 1u);
    second = read_only();  // The former one goes.
    EXPECT_EQ(live(), before + 1);
    EXPECT_EQ(second.access(), AccessFlags{});
  }
  EXPECT_EQ(live(), before);
}

TEST_F(MemoryRegionTest, KeepsItsDomainAlive) {
  const int before = live();
  {
    std::optional<ProtectionDomain> own = require(open().allocate_domain());
    const MemoryRegion region = require(own->register_local(part));
    own.reset();
    EXPECT_EQ(live(), before + 4);  // List, context, domain and region.
    EXPECT_EQ(region.gather(at(0, 1)).size_bytes(), 1u);
  }
  EXPECT_EQ(live(), before);
}

// ---- Other rights for the same memory

TEST_F(MemoryRegionTest, ReregistrationChangesKeysAndRights) {
  MemoryRegion region = read_only();
  const LocalKey former = unsafe::lkey(region);
  EXPECT_TRUE(fails_with(region.try_scatter(part), Errc::permission_denied));
  require(region.reregister(Access::local_write | Access::remote_read));
  EXPECT_NE(unsafe::lkey(region), former);
  EXPECT_EQ(unsafe::lkey(region), LocalKey{unsafe::native(region)->lkey});
  EXPECT_EQ(raw(region.gather(part)).lkey, unsafe::native(region)->lkey);
  EXPECT_TRUE(succeeds(region.try_scatter(part)));
  EXPECT_EQ(require(region.remote()).key, RemoteKey{unsafe::native(region)->rkey});
  EXPECT_EQ(region.access(), Access::local_write | Access::remote_read);
  require(region.reregister({}));
  EXPECT_TRUE(fails_with(region.try_scatter(part), Errc::permission_denied));
  EXPECT_TRUE(fails_with(region.remote(), Errc::permission_denied));
}

TEST_F(MemoryRegionTest, ReregistrationIsForRightsThatMakeSense) {
  MemoryRegion region = writable();
  const LocalKey former = unsafe::lkey(region);
  for (const AccessFlags wrong :
       {AccessFlags{Access::remote_write}, AccessFlags{Access::remote_atomic}})
    EXPECT_TRUE(
        fails_naming(region.reregister(wrong), Errc::invalid_argument, "local_write",
                     {.value = wrong.bits, .limit = AccessFlags{Access::local_write}.bits}));
  for (const Access how : {Access::zero_based, Access::on_demand, Access::huge_pages,
                           Access::memory_window_bind, Access::relaxed_ordering}) {
    const AccessFlags wrong = how | Access::local_write;
    EXPECT_TRUE(
        fails_naming(region.reregister(wrong), Errc::invalid_argument, "more than rights",
                     {.value = wrong.bits, .limit = AccessFlags{Access::local_write}.bits}));
  }
  EXPECT_EQ(unsafe::lkey(region), former);
}

int rereg_answer = 0;
int rereg_errno = 0;

class ReregistrationTest : public NullDevice {
 protected:
  ReregistrationTest() {
    table.rereg_mr = [](ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
      errno = rereg_errno;
      return rereg_answer;
    };
  }
  std::array<std::byte, 64> memory{};
};

TEST_F(ReregistrationTest, FailureIsReportedAndChangesNothing) {
  const auto domain = require(open().allocate_domain());
  MemoryRegion region = require(domain.register_local(memory));
  struct Row {
    int answer;
    int os_error;
    Errc expected;
  };
  for (const Row& row : {Row{IBV_REREG_MR_ERR_CMD, EOPNOTSUPP, Errc::unsupported},
                         Row{IBV_REREG_MR_ERR_INPUT, EBUSY, Errc::busy},
                         Row{IBV_REREG_MR_ERR_CMD, ENOMEM, Errc::out_of_resources},
                         Row{IBV_REREG_MR_ERR_DONT_FORK_NEW, EINVAL, Errc::invalid_argument}}) {
    rereg_answer = row.answer;
    rereg_errno = row.os_error;
    const auto result = region.reregister(Access::local_write | Access::remote_read);
    EXPECT_TRUE(fails_with(result, row.expected));
    EXPECT_EQ(result.error().os_error, row.os_error);
    EXPECT_STREQ(result.error().operation, "ibv_rereg_mr");
    EXPECT_EQ(region.access(), AccessFlags{Access::local_write});
  }
}

TEST_F(ReregistrationTest, OnlyTheFormerPagesStayOutOfAFork) {
  const auto domain = require(open().allocate_domain());
  MemoryRegion region = require(domain.register_local(memory));
  rereg_answer = IBV_REREG_MR_ERR_DO_FORK_OLD;  // "New MR is valid".
  rereg_errno = EINVAL;
  require(region.reregister({}));
  EXPECT_EQ(region.access(), AccessFlags{});
}

TEST_F(ReregistrationTest, DeviceWithoutItSaysUnsupported) {
  table.rereg_mr = detail::kMissing;
  const auto domain = require(open().allocate_domain());
  MemoryRegion region = require(domain.register_local(memory));
  EXPECT_TRUE(fails_with(region.reregister({}), Errc::unsupported));
}

}  // namespace
}  // namespace verbatim::test
