// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an explanation starts with the error and names the cause that this machine shows.
// Method: machines made of a few files, one per cause; a table of all pairs of code and errno.
// Covers: base/advice.cpp
#include "verbatim/base/explain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/system_state.hpp"
#include "support/fake_root.hpp"
#include "verbatim/base/error_guide.hpp"

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
    return explain_on({.root = root.path(),
                       .memlock_bytes = memlock,
                       .max_descriptors = 1024,
                       .soft_directory = "/shm"},
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
    const std::string text = explain_here(error);
    EXPECT_THAT(text, testing::StartsWith(to_string(error) + '\n'));
    EXPECT_THAT(text, HasSubstr("\n  - ")) << to_string(error.code);
  }
}

/// Every errno that leads to a decision, and each that one of our calls maps to another code, with
/// the text that tells its cause from the others.
struct Pair {
  Errc code;
  int os_error;
  const char* operation;
  const char* field;
  const char* cause;
};
constexpr Pair kPairs[] = {
    {Errc::invalid_argument, EINVAL, "ibv_create_cq", "", "the driver refuses an argument"},
    {Errc::invalid_argument, EINVAL, "ibv_modify_qp", "", "do not fit the change of state"},
    {Errc::invalid_argument, EFAULT, "ibv_reg_mr", "length", "not (or no longer) mapped"},
    {Errc::invalid_argument, ENAMETOOLONG, "mkdir", "soft directory", "the path is too long"},
    {Errc::out_of_resources, ENOMEM, "ibv_reg_mr", "length", "memlock limit is 8 MiB"},
    {Errc::out_of_resources, ENOMEM, "mmap", "huge pages", "HugePages::transparent"},
    {Errc::out_of_resources, EMFILE, "eventfd", "", "no file descriptor left, the limit is 1024"},
    {Errc::out_of_resources, ENFILE, "eventfd", "", "sysctl fs.file-max"},
    {Errc::out_of_resources, ENOSPC, "fallocate", "shared memory bytes", "--shm-size"},
    {Errc::out_of_resources, ENOSPC, "ibv_create_qp", "", "an adapter answers the same"},
    {Errc::out_of_resources, EDQUOT, "open", "soft directory", "quota"},
    {Errc::out_of_resources, EFBIG, "ftruncate", "file size", "ulimit -f"},
    {Errc::out_of_resources, ENOBUFS, "accept", "connection", "network buffers"},
    {Errc::out_of_resources, EAGAIN, "pthread_create", "", "ulimit -u"},
    {Errc::out_of_resources, EAGAIN, "mmap", "", "temporarily short of it"},
    {Errc::permission_denied, EACCES, "ibv_open_device", "", "/dev/infiniband/uverbs"},
    {Errc::permission_denied, EPERM, "ibv_open_device", "", "/dev/infiniband/uverbs"},
    {Errc::permission_denied, EACCES, "ibv_reg_mr", "length", "register_read_only()"},
    {Errc::permission_denied, EACCES, "mkdir", "soft directory", "may not write there"},
    {Errc::permission_denied, EACCES, "Listener::open", "bind", "CAP_NET_BIND_SERVICE"},
    {Errc::permission_denied, EROFS, "mkdir", "soft directory", "read-only file system"},
    {Errc::not_found, ENOENT, "mkdir", "soft directory", "directory above it does not exist"},
    {Errc::not_found, ENOTDIR, "mkdir", "soft directory", "a part of the path is a file"},
    {Errc::not_found, EADDRNOTAVAIL, "Listener::open", "bind", "no interface of this machine"},
    {Errc::not_found, ENETUNREACH, "dial", "connect", "no route leads to that network"},
    {Errc::not_found, EHOSTUNREACH, "dial", "connect", "the host does not answer"},
    {Errc::unsupported, ENOSYS, "ibv_x", "", "too old"},
    {Errc::unsupported, EPROTONOSUPPORT, "ibv_x", "", "lacks the feature"},
    {Errc::unsupported, EOPNOTSUPP, "ibv_reg_dmabuf_mr", "", "kernel 5.12 or later"},
    {Errc::unsupported, EAFNOSUPPORT, "dial", "connect", "no IPv6"},
    {Errc::busy, EBUSY, "ibv_dealloc_pd", "", "is still alive"},
    {Errc::busy, EADDRINUSE, "Listener::open", "bind", "another socket listens at this address"},
    {Errc::timed_out, ETIMEDOUT, "dial", "connect", "a firewall drops the packets"},
    {Errc::timed_out, ECONNREFUSED, "dial", "connect", "no program listens at this address"},
    {Errc::timed_out, 0, "wait", "the peer's receive", "it may have posted no receive"},
    {Errc::unsupported, 0, "connect", "keepalive", "does not allow remote writes"},
    {Errc::closed, ECONNRESET, "dial", "our record", "the peer's program ended"},
    {Errc::closed, EPIPE, "dial", "our record", "the peer's program ended"},
    {Errc::closed, ECONNABORTED, "dial", "our record", "on this side of the network"},
    {Errc::device_failed, ENODEV, "ibv_poll_cq", "", "reset or unplugged"},
    {Errc::would_block, ENOMEM, "ibv_post_send", "", "completions that nobody has taken"},
    {Errc::would_block, ENOSPC, "ibv_post_send", "", "completions that nobody has taken"},
    {Errc::driver, EIO, "ibv_create_cq", "", "firmware failed"},
    {Errc::driver, ENXIO, "ibv_create_cq", "", "driver was unloaded"},
    {Errc::driver, EPROTO, "ibv_create_cq", "", "dmesg"},
};

TEST_F(Explain, TellsEachPairOfCodeAndErrnoItsOwnCause) {
  root.make_directory("shm");
  for (const Pair& pair : kPairs) {
    const Error error{.code = pair.code,
                      .os_error = pair.os_error,
                      .operation = pair.operation,
                      .field = pair.field};
    EXPECT_THAT(explain_here(error), HasSubstr(pair.cause)) << to_string(error);
  }
}

TEST_F(Explain, TableHoldsEveryErrnoThatLeadsToADecision) {
  for (int os_error = 1; os_error < 134; ++os_error) {
    const Errc code = errc_from_errno(os_error);
    if (code == Errc::driver) continue;
    EXPECT_TRUE(std::ranges::any_of(kPairs, [&](const Pair& pair) {
      return pair.code == code && pair.os_error == os_error;
    })) << os_error;
  }
}

TEST_F(Explain, BlamesNothingElseForAnAddressInUse) {
  const std::string text = explain_here(os_failure("Listener::open", EADDRINUSE));
  EXPECT_THAT(text, Not(HasSubstr("alive")));
  EXPECT_THAT(text, Not(HasSubstr("what to do")));  // The cause says it.
}

TEST_F(Explain, TellsTheSpaceInTheSoftDirectory) {
  EXPECT_THAT(explain_here(os_failure("ibv_create_cq", ENOSPC)), Not(HasSubstr("/shm")));
  EXPECT_THAT(explain_here(os_failure("fallocate", ENOSPC)), HasSubstr("/shm"));
  root.make_directory("shm");
  EXPECT_THAT(explain_here(os_failure("fallocate", ENOSPC)),
              testing::ContainsRegex("directory /shm has [0-9.]+ [A-Za-z]+ of [0-9.]+ "));
  EXPECT_THAT(explain_here(os_failure("ibv_reg_mr", ENOSPC)), Not(HasSubstr("larger regions")));
}

TEST_F(Explain, TellsWhoSpeaksAnotherProtocol) {
  Error error{.code = Errc::malformed, .operation = "accept", .field = "frame magic"};
  struct Row {
    std::uint64_t first_bytes;  // Little-endian.
    const char* cause;
  };
  for (const Row& row : {Row{0x20544547, "an HTTP client"}, Row{0x54534f50, "an HTTP client"},
                         Row{0x50545448, "an HTTP server"}, Row{0x00010316, "speaks TLS"},
                         Row{0x2d485353, "speaks SSH"}, Row{0x39464256, "another handshake"},
                         Row{0xffffffff, "no program of this library"}}) {
    error.value = row.first_bytes;
    EXPECT_THAT(explain_here(error), HasSubstr(row.cause)) << row.first_bytes;
  }
  EXPECT_THAT(explain_here({.code = Errc::malformed, .field = "version", .value = 0x20544547}),
              Not(HasSubstr("HTTP")));
}

TEST_F(Explain, TellsWhichSettingIsWrong) {
  const Error error{.code = Errc::invalid_argument,
                    .operation = "VERBATIM_SOFT_MODE",
                    .field = "must be immediate or deferred"};
  const std::string text = explain_here(error.with_text("later"));
  EXPECT_THAT(text, HasSubstr("the environment variable VERBATIM_SOFT_MODE must be immediate or "
                              "deferred: correct or unset it"));
  EXPECT_THAT(text, Not(HasSubstr("fix the call")));
}

TEST_F(Explain, BadFaultPlanIsNobodyElsesFault) {
  const Error error =
      Error{.code = Errc::malformed, .operation = "parse_fault_plan", .field = "kind"}.with_text(
          "x");
  EXPECT_THAT(explain_here(error), HasSubstr("VERBATIM_SOFT_FAULTS"));
  EXPECT_THAT(explain_here(error), Not(HasSubstr("the sender")));
}

// ---- Work that failed ---------------------------------------------------------------------------

Error failed_work(WorkStatus status, std::uint32_t vendor_code = 0) {
  return {.code = Errc::work_failed,
          .operation = "work request",
          .field = guide_to(status).name.data(),
          .value = static_cast<std::uint64_t>(status),
          .limit = vendor_code};
}

TEST_F(Explain, GivesEachStatusItsOwnCausesAndWhatToDo) {
  std::set<std::string> texts;
  for (std::size_t i = 1; i < guide_to_statuses().size(); ++i) {
    const auto status = static_cast<WorkStatus>(i);
    const std::string text = explain_here(failed_work(status));
    EXPECT_THAT(text, HasSubstr(guide_to(status).meaning));
    for (const auto cause : guide_to(status).causes()) EXPECT_THAT(text, HasSubstr(cause));
    EXPECT_THAT(text, HasSubstr("\n  what to do: " + std::string{hint_of(status)}));
    EXPECT_THAT(text, HasSubstr("recycle()"));
    EXPECT_TRUE(texts.insert(text).second);
  }
}

TEST_F(Explain, UnknownStatusHasACauseToo) {
  const std::string text = explain_here({.code = Errc::work_failed, .value = 4000});
  EXPECT_THAT(text, testing::StartsWith("work failed: unknown status (status 4000)\n  - "));
  EXPECT_THAT(text, HasSubstr("\n  what to do: recycle()"));
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
  EXPECT_THAT(explain_here(error),
              HasSubstr("no device has this name; the devices are mlx5_0, rxe0"));
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

TEST_F(Explain, KnowsAClosedDeviceNodeByTheErrnoOfLibibverbs) {
  const Error error = os_failure("ibv_open_device", ENOENT).with_text("rxe0");
  EXPECT_THAT(explain_here(error), HasSubstr("--device=/dev/infiniband"));
  root.write("dev/infiniband/uverbs0", "", 0000);
  root.write("dev/infiniband/uverbs1", "", 0600);
  if (geteuid() == 0) {  // May open everything: the node is not the cause.
    EXPECT_THAT(explain_here(error), Not(HasSubstr("uverbs")));
    return;
  }
  EXPECT_THAT(explain_here(error), HasSubstr("uverbs0 has mode 0000 and this user may not"));
  EXPECT_THAT(explain_here(error), Not(HasSubstr("uverbs1")));
  EXPECT_THAT(explain_here(error), Not(HasSubstr("the name or number is wrong")));
}

TEST_F(Explain, TellsThatNoMemoryMayBeLocked) {
  EXPECT_THAT(explain_here(registration(EPERM, 256)), Not(HasSubstr("memlock")));
  memlock = 0;
  root.write("proc/self/status", "CapEff:\t0000000000000000\n");
  const std::string text = explain_here(registration(EPERM, 256));
  EXPECT_THAT(text, HasSubstr("memlock limit is 0: raise it with `ulimit -l`"));
  EXPECT_LT(text.find("memlock limit"), text.find("read-only"));  // The likelier one.
  EXPECT_THAT(explain_here(os_failure("ibv_create_cq", EPERM)), HasSubstr("memlock limit is 0"));
  root.write("proc/self/status", "CapEff:\t0000000000004000\n");  // CAP_IPC_LOCK
  EXPECT_THAT(explain_here(registration(EPERM, 256)), Not(HasSubstr("memlock")));
}

TEST_F(Explain, BlamesNoDeviceNodeForAMissingRight) {
  const Error error{.code = Errc::permission_denied, .operation = "remote", .field = "access"};
  EXPECT_THAT(explain_here(error), HasSubstr("created without that right"));
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
  EXPECT_THAT(explain_here(error), HasSubstr("d is 9, but 4 is the maximum"));
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
  EXPECT_THAT(explain_here(error), Not(HasSubstr("damaged in transit")));
}

TEST(ExplainOnThisMachine, ReadsTheRealState) {
  const std::string text = explain(registration(ENOMEM, ~std::uint64_t{0}));
  EXPECT_THAT(text, HasSubstr("\n  - "));
}

}  // namespace
}  // namespace verbatim
