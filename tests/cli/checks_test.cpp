// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each check of the machine says what it saw, how bad that is, and what changes it.
// Method: a directory that looks like the root of a machine, and limits made by hand.
#include "checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "finding_matcher.hpp"
#include "support/fake_root.hpp"

namespace verbatim::cli {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

class ChecksTest : public testing::Test {
 protected:
  ChecksTest() {
    snapshot.system.root = root.path();
    snapshot.user = geteuid();
    snapshot.system.soft_directory = "/dev/shm/verbatim-7";
    snapshot.devices.devices = {
        {.name = "soft0",
         .transport = Transport::soft,
         .reliable_connection = true,
         .ports = {{.port = {.number = 1, .state = PortState::active, .lid = Lid{1}}}}}};
    snapshot.devices.taken = "soft0";
  }
  void add_adapter() const { root.make_directory("sys/class/infiniband/mlx5_0"); }

  test::FakeRoot root;
  Snapshot snapshot;
};

// ---- Limits -------------------------------------------------------------------------------------

TEST_F(ChecksTest, MemlockWithoutLimitIsGood) {
  EXPECT_THAT(check_memlock(snapshot), ElementsAre(found(Severity::ok, "unlimited", "")));
}

TEST_F(ChecksTest, TinyMemlockIsAnErrorWhereAnAdapterIs) {
  add_adapter();
  snapshot.system.memlock_bytes = 64 << 10;
  EXPECT_THAT(check_memlock(snapshot),
              ElementsAre(found(Severity::error, "64 KiB", "ulimit -l unlimited")));
  snapshot.system.memlock_bytes = 8 << 20;
  EXPECT_THAT(check_memlock(snapshot),
              ElementsAre(found(Severity::warning, "8 MiB", "ulimit -l unlimited")));
  snapshot.system.memlock_bytes = 1u << 30;
  EXPECT_THAT(check_memlock(snapshot), ElementsAre(found(Severity::ok, "1 GiB", "")));
}

TEST_F(ChecksTest, MemlockDoesNotMatterToTheSoftwareDevice) {
  snapshot.system.memlock_bytes = 64 << 10;
  EXPECT_THAT(check_memlock(snapshot), ElementsAre(found(Severity::note, "64 KiB", "ulimit")));
}

TEST_F(ChecksTest, MemlockDoesNotBindWhoMayLockAnyway) {
  add_adapter();
  snapshot.system.memlock_bytes = 64 << 10;
  root.write("proc/self/status", "CapEff:\t0000000000004000\n");
  EXPECT_THAT(check_memlock(snapshot), ElementsAre(found(Severity::ok, "CAP_IPC_LOCK", "")));
}

TEST_F(ChecksTest, FewDescriptorsAreAWarning) {
  EXPECT_THAT(check_descriptors(snapshot), ElementsAre(found(Severity::ok, "unlimited", "")));
  snapshot.system.max_descriptors = 256;
  EXPECT_THAT(check_descriptors(snapshot),
              ElementsAre(found(Severity::warning, "256", "ulimit -n")));
  snapshot.system.max_descriptors = 16;
  EXPECT_THAT(check_descriptors(snapshot), ElementsAre(found(Severity::error, "16", "ulimit -n")));
}

TEST_F(ChecksTest, HugePagesThatAreUsedUpAreNoted) {
  EXPECT_THAT(check_huge_pages(snapshot), ElementsAre(found(Severity::note, "none", "")));
  const std::string page = "Hugepagesize: 2048 kB\n";
  root.write("proc/meminfo", "HugePages_Total: 8\nHugePages_Free: 0\n" + page);
  EXPECT_THAT(check_huge_pages(snapshot),
              ElementsAre(found(Severity::note, "0 of 8", "vm.nr_hugepages=72")));
  root.write("proc/meminfo", "HugePages_Total: 8\nHugePages_Free: 3\n" + page);
  EXPECT_THAT(check_huge_pages(snapshot), ElementsAre(found(Severity::ok, "3 of 8", "")));
}

TEST_F(ChecksTest, NumaSaysHowFarTheDeviceIs) {
  root.write("sys/devices/system/node/online", "0-1\n");
  root.write("sys/devices/system/node/node0/cpulist", "0-3\n");
  root.write("sys/devices/system/node/node1/cpulist", "4-7\n");
  root.write("sys/devices/system/node/node0/distance", "10 21\n");
  root.write("sys/devices/system/node/node1/distance", "21 10\n");
  snapshot.devices.devices[0].numa_node = 1;
  const auto allow = [&](const std::string& list) {
    root.write("proc/self/status", "Cpus_allowed_list:\t" + list + "\n");
    return check_numa(snapshot);
  };
  EXPECT_THAT(allow("0-2"), ElementsAre(found(Severity::warning, "on 0 (distance 21)",
                                              "numactl --cpunodebind=1")));
  EXPECT_THAT(allow("0-7"), ElementsAre(found(Severity::note, "distance 21", "numactl")));
  EXPECT_THAT(allow("4,6"), ElementsAre(found(Severity::ok, "1, where this process runs", "")));
}

TEST_F(ChecksTest, NumaOfOneNodeIsNoMatter) {
  EXPECT_THAT(check_numa(snapshot), ElementsAre(found(Severity::ok, "one", "")));
  root.write("sys/devices/system/node/online", "0-999999999999,x\n");  // Nonsense is survived.
  EXPECT_THAT(check_numa(snapshot), ElementsAre(found(Severity::ok, "", "")));
}

TEST_F(ChecksTest, ContainersHaveLimits) {
  EXPECT_THAT(check_container(snapshot), ElementsAre(found(Severity::ok, "no sign", "")));
  root.write(".dockerenv", "");
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "67108864\n");
  root.write("sys/fs/cgroup/rdma.max", "mlx5_0 hca_handle=2 hca_object=2000\n");
  EXPECT_THAT(
      check_container(snapshot),
      ElementsAre(found(Severity::ok, "yes", ""), found(Severity::warning, "64 MiB", "--memory"),
                  found(Severity::warning, "hca_handle=2", "mlx5_0 hca_handle=max")));
  root.write("sys/fs/cgroup/memory.max", "max\n");
  root.write("sys/fs/cgroup/rdma.max", "mlx5_0 hca_handle=max hca_object=max\n");
  EXPECT_THAT(check_container(snapshot), ElementsAre(found(Severity::ok, "yes", "")));
}

TEST_F(ChecksTest, AControlGroupBelowTheRootIsFound) {
  root.write("proc/self/cgroup", "0::/user.slice\n");
  root.write("sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
  EXPECT_THAT(check_container(snapshot),
              ElementsAre(found(Severity::ok, "", ""), found(Severity::ok, "8 GiB", "")));
}

// ---- The kernel and rdma-core -------------------------------------------------------------------

TEST_F(ChecksTest, NoModuleIsNotedOnly) {
  EXPECT_THAT(check_modules(snapshot), ElementsAre(found(Severity::note, "none", "modprobe")));
  root.make_directory("sys/class/infiniband");
  EXPECT_THAT(check_modules(snapshot), ElementsAre(found(Severity::note, "no device", "rxe")));
  add_adapter();
  EXPECT_THAT(check_modules(snapshot), ElementsAre(found(Severity::ok, "mlx5_0", "")));
}

TEST_F(ChecksTest, AnAdapterNeedsItsNode) {
  EXPECT_THAT(check_nodes(snapshot), IsEmpty());
  add_adapter();
  EXPECT_THAT(check_nodes(snapshot),
              ElementsAre(found(Severity::error, "no /dev/infiniband/uverbs", "--device")));
  root.write("dev/infiniband/uverbs0", "", 0666);
  const auto findings = check_nodes(snapshot);
  EXPECT_THAT(findings, ElementsAre(found(Severity::ok, "mode 0666", "")));
  EXPECT_EQ(findings[0].id, "nodes.uverbs0");
}

TEST_F(ChecksTest, AClosedNodeIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may open everything";
  add_adapter();
  root.write("dev/infiniband/uverbs0", "", 0400);
  EXPECT_THAT(check_nodes(snapshot), ElementsAre(found(Severity::error, "0400",
                                                       "sudo chmod a+rw "
                                                       "/dev/infiniband")));
}

TEST_F(ChecksTest, AMissingLibraryIsAnErrorWhereAnAdapterIs) {
  EXPECT_THAT(check_libraries(snapshot), ElementsAre(found(Severity::ok, "loaded", "")));
  snapshot.devices.no_libibverbs = "libibverbs.so.1 is not installed";
  EXPECT_THAT(check_libraries(snapshot),
              ElementsAre(found(Severity::note, "not installed", "apt-get install libibverbs1")));
  add_adapter();
  EXPECT_THAT(check_libraries(snapshot),
              ElementsAre(found(Severity::error, "not installed", "apt-get install libibverbs1")));
}

TEST_F(ChecksTest, ALibraryThatIsNamedWronglyIsAnError) {
  snapshot.devices.no_libibverbs = "cannot be loaded";
  snapshot.libibverbs_named = "/opt/none.so";
  EXPECT_THAT(check_libraries(snapshot),
              ElementsAre(found(Severity::error, "VERBATIM_LIBIBVERBS=/opt/none.so",
                                "unset VERBATIM_LIBIBVERBS")));
}

TEST_F(ChecksTest, ADeviceWithoutItsProviderLibraryIsAnError) {
  add_adapter();
  EXPECT_THAT(check_libraries(snapshot),
              ElementsAre(found(Severity::ok, "loaded", ""),
                          found(Severity::error, "does not list", "ibverbs-providers")));
  snapshot.devices.devices.push_back({.name = "mlx5_0"});
  EXPECT_THAT(check_libraries(snapshot), ElementsAre(found(Severity::ok, "loaded", "")));
}

// ---- The software device ------------------------------------------------------------------------

TEST_F(ChecksTest, AWrongSettingIsNamed) {
  EXPECT_THAT(check_soft_settings(snapshot), ElementsAre(found(Severity::ok, "", "")));
  snapshot.soft_settings = Error{.code = Errc::invalid_argument,
                                 .operation = "VERBATIM_SOFT_LINK",
                                 .field = "must be ib or eth"}
                               .with_text("tokenring");
  EXPECT_THAT(check_soft_settings(snapshot),
              ElementsAre(found(Severity::error, "VERBATIM_SOFT_LINK=tokenring",
                                "unset VERBATIM_SOFT_LINK")));
}

class SoftDirectoryTest : public ChecksTest {
 protected:
  void make(unsigned mode) const {
    const std::string path = root.path() + snapshot.system.soft_directory;
    std::filesystem::create_directories(path);
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
  }
  void fail() {
    snapshot.devices.devices[0].failure = Error{.code = Errc::permission_denied};
    snapshot.devices.taken.clear();
  }
};

TEST_F(SoftDirectoryTest, ClosedAndOursIsGood) {
  make(0700);
  EXPECT_THAT(check_soft_directory(snapshot), ElementsAre(found(Severity::ok, "mode 0700", "")));
  make(01700);  // As the library makes it.
  EXPECT_THAT(check_soft_directory(snapshot), ElementsAre(found(Severity::ok, "mode 0700", "")));
}

TEST_F(SoftDirectoryTest, OpenToOthersIsAnError) {
  make(0755);
  fail();
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "/dev/shm/verbatim-7, mode 0755",
                                "chmod 700 /dev/shm/verbatim-7")));
}

TEST_F(SoftDirectoryTest, OfAnotherUserIsAnError) {
  make(0700);
  fail();
  snapshot.user = geteuid() + 1;
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "uid " + std::to_string(geteuid()),
                                "export VERBATIM_SOFT_DIR=")));
  snapshot.soft_directory_named = true;
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "", "unset VERBATIM_SOFT_DIR")));
}

TEST_F(SoftDirectoryTest, OfAnotherUserIsNotedWhereTheDeviceHasASecondPlace) {
  make(0700);
  snapshot.user = geteuid() + 1;
  EXPECT_THAT(check_soft_directory(snapshot), ElementsAre(found(Severity::note, "", "export")));
}

TEST_F(SoftDirectoryTest, AFileOrALinkIsAnError) {
  fail();
  root.write("dev/shm/verbatim-7", "");
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "is a file", "rm /dev/shm/verbatim-7")));
  std::filesystem::remove(root.path() + "/dev/shm/verbatim-7");
  std::filesystem::create_symlink("/tmp", root.path() + "/dev/shm/verbatim-7");
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "is a symbolic link", "rm")));
}

TEST_F(SoftDirectoryTest, ThatIsNotThereIsMadeIfItCanBe) {
  root.make_directory("dev/shm");
  EXPECT_THAT(check_soft_directory(snapshot), ElementsAre(found(Severity::ok, "made when", "")));
  fail();
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "cannot be made", "export VERBATIM_SOFT_DIR")));
  snapshot.system.soft_directory = "/mnt/none/verbatim";
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::error, "/mnt/none is not there", "mkdir -p /mnt/none")));
}

TEST_F(SoftDirectoryTest, OfADeviceThatIsHiddenDoesNotMatter) {
  snapshot.devices.devices.clear();
  EXPECT_THAT(check_soft_directory(snapshot),
              ElementsAre(found(Severity::note, "hidden", "unset")));
  EXPECT_THAT(check_soft_space(snapshot), IsEmpty());
}

TEST_F(ChecksTest, AFullFileSystemIsAnError) {
  snapshot.soft_space = detail::Space{.free = 0, .total = 64 << 20};
  EXPECT_THAT(check_soft_space(snapshot),
              ElementsAre(found(Severity::error, "0 bytes of 64 MiB free", "remount,size=1G")));
  snapshot.soft_space->free = 4 << 20;
  EXPECT_THAT(check_soft_space(snapshot),
              ElementsAre(found(Severity::warning, "4 MiB of 64 MiB free", "--shm-size=1g")));
  snapshot.soft_space->free = 32 << 20;
  EXPECT_THAT(check_soft_space(snapshot), ElementsAre(found(Severity::ok, "32 MiB", "")));
}

TEST_F(ChecksTest, AFullFileSystemElsewhereIsLeft) {
  snapshot.system.soft_directory = "/srv/soft";
  snapshot.soft_space = detail::Space{.free = 0, .total = 64 << 20};
  EXPECT_THAT(check_soft_space(snapshot),
              ElementsAre(found(Severity::error, "0 bytes", "export VERBATIM_SOFT_DIR=/dev/shm")));
}

TEST_F(ChecksTest, WhatTheDeadLeftIsNoted) {
  const soft::InspectedProcess living{.is_alive = true, .file_bytes = 1 << 30};
  const soft::InspectedProcess dead{.is_alive = false, .file_bytes = 3 << 20};
  snapshot.soft_processes = {living};
  EXPECT_THAT(check_soft_leftovers(snapshot),
              ElementsAre(found(Severity::ok, "1 process uses it", "")));
  snapshot.soft_processes = {dead, living, dead, living, dead};
  EXPECT_THAT(check_soft_leftovers(snapshot),
              ElementsAre(found(Severity::note, "2 processes use it; 3 that were killed left 9 MiB",
                                "verbatim devices")));
}

TEST_F(ChecksTest, PtracePolicyMakesItSlower) {
  const auto scope = [&](const char* text) {
    root.write("proc/sys/kernel/yama/ptrace_scope", text);
    return check_soft_ptrace(snapshot);
  };
  EXPECT_THAT(check_soft_ptrace(snapshot), ElementsAre(found(Severity::ok, "none", "")));
  EXPECT_THAT(scope("0\n"), ElementsAre(found(Severity::ok, "ptrace_scope is 0", "")));
  EXPECT_THAT(scope("1\n"), ElementsAre(found(Severity::note, "1", "VERBATIM_SOFT_PTRACE=any")));
  EXPECT_THAT(scope("2\n"), ElementsAre(found(Severity::note, "2", "sysctl kernel.yama")));
  snapshot.soft_may_be_traced = true;
  EXPECT_THAT(scope("1\n"), ElementsAre(found(Severity::ok, "1", "")));
  EXPECT_THAT(scope("2\n"), ElementsAre(found(Severity::note, "2", "sysctl kernel.yama")));
}

// ---- All ----------------------------------------------------------------------------------------

TEST_F(ChecksTest, OnlyErrorsAreBad) {
  EXPECT_FALSE(has_error(check_everything(snapshot)));
  EXPECT_FALSE(has_error({{.id = "a", .severity = Severity::warning, .title = "", .value = ""}}));
  EXPECT_TRUE(has_error({{.id = "a", .severity = Severity::error, .title = "", .value = ""}}));
}

TEST_F(ChecksTest, ARealMachineHasAFindingOfEachKind) {
  const auto findings = check_everything(take_snapshot());
  for (const char* id :
       {"device", "modules", "libibverbs", "memlock", "descriptors", "huge_pages", "container",
        "soft.settings", "soft.directory", "soft.leftovers", "soft.ptrace"})
    EXPECT_THAT(findings, testing::Contains(Field(&Finding::id, id))) << id;
}

}  // namespace
}  // namespace verbatim::cli
