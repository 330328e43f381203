// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an explanation starts with the error and names the cause that this machine shows.
// Method: machines made of a few files, one per cause.
#include "verbatim/base/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/system_state.hpp"
#include "support/fake_root.hpp"

namespace verbatim {
namespace {

using detail::explain_on;
using detail::System;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kMiB = 1u << 20;

class Explain : public testing::Test {
 protected:
  [[nodiscard]] std::string explain_here(const Error& error) const {
    return explain_on({.root = root.path(), .memlock_bytes = memlock, .max_descriptors = 1024},
                      error);
  }

  test::FakeRoot root;
  std::uint64_t memlock = 8 * kMiB;
};

Error registration(int os_error, std::uint64_t length) {
  Error error = os_failure("ibv_reg_mr", os_error);
  error.field = "length";
  error.value = length;
  return error;
}

TEST_F(Explain, StartsWithTheErrorAndGivesEachCodeACause) {
  for (unsigned code = 0; code <= std::to_underlying(Errc::driver); ++code) {
    const Error error{.code = static_cast<Errc>(code), .operation = "op", .field = "f"};
    std::istringstream lines{explain_here(error)};
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(line, to_string(error));
    unsigned causes = 0;
    for (; std::getline(lines, line); ++causes) EXPECT_THAT(line, testing::StartsWith("  - "));
    EXPECT_GE(causes, 1u) << to_string(error.code);
  }
}

TEST_F(Explain, TellsTheMemlockLimitAndTheNeed) {
  EXPECT_THAT(explain_here(registration(ENOMEM, 64 * kMiB)),
              HasSubstr("\n  - memlock limit is 8 MiB; this region needs 64 MiB: raise it with "
                        "`ulimit -l` or in limits.conf"));
}

TEST_F(Explain, TellsWhatIsPinnedWhereTheRegionAloneWouldFit) {
  root.write("proc/self/status", "VmPin:\t    7168 kB\nCapEff:\t0000000000000000\n");
  EXPECT_THAT(explain_here(registration(ENOMEM, 2 * kMiB)),
              HasSubstr("memlock limit is 8 MiB for all regions and queues together, of which "
                        "7 MiB are used"));
}

TEST_F(Explain, BlamesTheDeviceWhereMemlockDoesNotBind) {
  memlock = detail::kUnlimited;
  EXPECT_THAT(explain_here(registration(ENOMEM, 64 * kMiB)), HasSubstr("translation entries"));
  memlock = 8 * kMiB;
  root.write("proc/self/status", "CapEff:\t0000003fffffffff\n");
  EXPECT_THAT(explain_here(registration(ENOMEM, 64 * kMiB)), HasSubstr("translation entries"));
}

TEST_F(Explain, DoesNotTakeADepthForBytes) {
  Error error = os_failure("ibv_create_cq", ENOMEM);
  error.field = "depth";
  error.value = 64 * kMiB;
  EXPECT_THAT(explain_here(error), Not(HasSubstr("this region needs")));
}

TEST_F(Explain, TellsThatMemoryIsShort) {
  root.write("proc/meminfo", "MemAvailable:    1024 kB\n");
  Error error = os_failure("mmap", ENOMEM);
  error.field = "length";
  error.value = 2 * kMiB;
  EXPECT_THAT(explain_here(error), HasSubstr("only 1 MiB of memory are available"));
  error.value = kMiB;
  EXPECT_THAT(explain_here(error), Not(HasSubstr("available on this machine")));
}

TEST_F(Explain, CountsHugePages) {
  root.write("proc/meminfo",
             "HugePages_Total:       4\nHugePages_Free:        1\nHugepagesize:     2048 kB\n");
  Error error = os_failure("mmap", ENOMEM);
  error.field = "huge pages";
  error.value = 6 * kMiB;
  EXPECT_THAT(explain_here(error),
              HasSubstr("1 of 4 reserved huge pages of 2 MiB are free; this needs 3: raise it with "
                        "`sysctl vm.nr_hugepages`"));
}

TEST_F(Explain, CountsDescriptors) {
  root.write("proc/self/fd/0", "");
  root.write("proc/self/fd/1", "");
  EXPECT_THAT(
      explain_here(os_failure("ibv_open_device", EMFILE)),
      HasSubstr("2 file descriptors are open, the limit is 1024: raise it with `ulimit -n`"));
}

TEST_F(Explain, FindsTheHoleUnderARegion) {
  root.write("proc/self/maps", "100000-200000 rw-p 0 00:00 0\n300000-400000 r--p 0 00:00 0\n");
  EXPECT_THAT(explain_here(registration(EFAULT, 2 * kMiB).with_text("0x100000")),
              HasSubstr("nothing readable is mapped at 0x200000, 1 MiB into the region"));
  EXPECT_THAT(explain_here(registration(EFAULT, kMiB).with_text("0x300000")),
              HasSubstr("the memory at 0x300000 is read-only"));
}

TEST_F(Explain, FaultWithoutAnAddressStillHasACause) {
  EXPECT_THAT(explain_here(registration(EFAULT, kMiB)), HasSubstr("not (or no longer) mapped"));
  EXPECT_THAT(explain_here(registration(EFAULT, kMiB).with_text("zebra")),
              HasSubstr("not (or no longer) mapped"));
}

TEST_F(Explain, ListsTheDevicesThereAre) {
  const Error error =
      Error{.code = Errc::not_found, .operation = "open_device"}.with_text("mlx5_9");
  EXPECT_THAT(explain_here(error), HasSubstr("no RDMA module is loaded"));
  root.make_directory("sys/class/infiniband");
  EXPECT_THAT(explain_here(error), HasSubstr("rdma link add rxe0 type rxe netdev"));
  root.make_directory("sys/class/infiniband/mlx5_0");
  root.make_directory("sys/class/infiniband/rxe0");
  EXPECT_THAT(explain_here(error), HasSubstr("no device has this name: there is mlx5_0, rxe0"));
  EXPECT_THAT(explain_here(error), HasSubstr("there is no /dev/infiniband/uverbs*"));
  EXPECT_THAT(explain_here(error.with_text("")), HasSubstr("no device has an ACTIVE port"));
  EXPECT_THAT(explain_here(error.with_text("rxe0")), HasSubstr("provider library is missing"));
}

TEST_F(Explain, TellsHowToGetTheLibrary) {
  const Error error{.code = Errc::not_found, .operation = "dlopen"};
  EXPECT_THAT(explain_here(error), HasSubstr("install rdma-core"));
  EXPECT_THAT(explain_here(error), Not(HasSubstr("VERBATIM_LIBIBVERBS")));
  setenv("VERBATIM_LIBIBVERBS", "/no/such/file.so", 1);
  EXPECT_THAT(explain_here(error), HasSubstr("VERBATIM_LIBIBVERBS names /no/such/file.so"));
  unsetenv("VERBATIM_LIBIBVERBS");
}

TEST_F(Explain, TellsTheModeOfAClosedDeviceNode) {
  const Error error = os_failure("ibv_open_device", EACCES);
  EXPECT_THAT(explain_here(error), HasSubstr("--device=/dev/infiniband"));
  root.write("dev/infiniband/uverbs0", "", 0400);
  const bool is_superuser = geteuid() == 0;  // May open everything.
  EXPECT_THAT(explain_here(error), HasSubstr("/dev/infiniband/uverbs0 has mode 0400"));
  EXPECT_THAT(explain_here(error), HasSubstr(is_superuser ? "device cgroup" : "udev rule"));
  root.write("dev/infiniband/uverbs0", "", 0600);
  EXPECT_THAT(explain_here(error), HasSubstr("device cgroup"));
}

TEST_F(Explain, BlamesNoDeviceNodeForAMissingRight) {
  const Error error{.code = Errc::permission_denied, .operation = "remote", .field = "access"};
  EXPECT_THAT(explain_here(error), HasSubstr("made without that right"));
  EXPECT_THAT(explain_here(error), Not(HasSubstr("/dev/infiniband")));
  EXPECT_THAT(explain_here(os_failure("ibv_reg_mr", EACCES)), HasSubstr("register_read_only()"));
}

TEST_F(Explain, TellsWhyAPortIsNotActive) {
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "2: INIT\n");
  const Error error{.code = Errc::not_ready, .operation = "ibv_query_port", .field = "port"};
  EXPECT_THAT(explain_here(error.with_text("DOWN")), HasSubstr("no cable"));
  EXPECT_THAT(explain_here(error.with_text("INIT")), HasSubstr("opensm"));
  EXPECT_THAT(explain_here(error.with_text("ARMED")), HasSubstr("try again"));
  EXPECT_THAT(explain_here(error), HasSubstr("mlx5_0 port 1 is now in state 2: INIT"));
}

TEST_F(Explain, TellsBothNumbersOfALimit) {
  const Error error{
      .code = Errc::limit_exceeded, .operation = "reserve", .field = "d", .value = 9, .limit = 4};
  EXPECT_THAT(explain_here(error), HasSubstr("d is 9, and 4 is the most there can be"));
}

TEST_F(Explain, KnowsEveryFieldTwoEndpointsCanDifferIn) {
  for (const char* field : {"type", "transport", "fabric_id", "link_layer", "partition_key", "gid",
                            "lid", "mtu", "nonce"}) {
    const Error error{.code = Errc::incompatible, .operation = "negotiate", .field = field};
    EXPECT_THAT(explain_here(error), Not(HasSubstr("cannot be connected as they are"))) << field;
  }
}

TEST_F(Explain, PutsTheSpecialCauseInPlaceOfTheGeneralOne) {
  const Error error{.code = Errc::malformed, .operation = "decode_endpoint", .field = "version"};
  EXPECT_THAT(explain_here(error), HasSubstr("run the same on both sides"));
  EXPECT_THAT(explain_here(error), Not(HasSubstr("damaged on the way")));
}

TEST(ExplainOnThisMachine, ReadsTheRealState) {
  const std::string text = explain(registration(ENOMEM, ~std::uint64_t{0}));
  EXPECT_THAT(text, HasSubstr("\n  - "));
}

}  // namespace
}  // namespace verbatim
