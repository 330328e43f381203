// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the probes read what the kernel writes, and skip what does not exist.
// Method: a directory that looks like the root of a machine.
#include "base/system_state.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "support/fake_root.hpp"

namespace verbatim::detail {
namespace {

TEST(SystemState, EmptyMachineHasNothing) {
  const test::FakeRoot root;
  EXPECT_EQ(device_names(root.path()), std::nullopt);
  EXPECT_TRUE(port_states(root.path()).empty());
  EXPECT_TRUE(device_nodes(root.path()).empty());
  EXPECT_FALSE(huge_pages(root.path()));
  EXPECT_FALSE(may_lock_without_limit(root.path()));
  EXPECT_EQ(open_descriptors(root.path()), std::nullopt);
  EXPECT_FALSE(space_at(root.path() + "/none"));
  EXPECT_FALSE(mapping_of(root.path(), 0x1000, 0x1000).first_unmapped);
}

TEST(SystemState, ListsDevicesInOrder) {
  const test::FakeRoot root;
  root.make_directory("sys/class/infiniband");
  EXPECT_EQ(device_names(root.path()), std::vector<std::string>{});
  root.make_directory("sys/class/infiniband/rxe0");
  root.make_directory("sys/class/infiniband/mlx5_0");
  EXPECT_EQ(device_names(root.path()), (std::vector<std::string>{"mlx5_0", "rxe0"}));
}

TEST(SystemState, ReadsPortStates) {
  const test::FakeRoot root;
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  root.write("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
  const auto ports = port_states(root.path());
  ASSERT_EQ(ports.size(), 2u);
  EXPECT_EQ(ports[0].device, "mlx5_0");
  EXPECT_EQ(ports[0].port, "1");
  EXPECT_EQ(ports[0].state, "4: ACTIVE");
  EXPECT_EQ(ports[1].state, "1: DOWN");
}

TEST(SystemState, ReadsModesOfDeviceNodes) {
  const test::FakeRoot root;
  root.write("dev/infiniband/uverbs0", "", 0600);
  root.write("dev/infiniband/rdma_cm", "", 0666);
  const auto nodes = device_nodes(root.path());
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].path, "/dev/infiniband/uverbs0");
  EXPECT_EQ(nodes[0].mode, 0600u);
  EXPECT_TRUE(nodes[0].usable);
}

TEST(SystemState, SeesThatADeviceNodeIsClosed) {
  const test::FakeRoot root;
  root.write("dev/infiniband/uverbs0", "", 0400);
  const bool is_root = geteuid() == 0;  // May open everything.
  EXPECT_EQ(device_nodes(root.path()).at(0).usable, is_root);
}

TEST(SystemState, ReadsHugePages) {
  const test::FakeRoot root;
  root.write("proc/meminfo",
             "MemTotal:       16000 kB\nHugePages_Total:       8\nHugePages_Free:        3\n"
             "HugePages_Rsvd:        0\nHugepagesize:       2048 kB\n");
  const auto pages = huge_pages(root.path());
  ASSERT_TRUE(pages);
  EXPECT_EQ(pages->total, 8u);
  EXPECT_EQ(pages->free, 3u);
  EXPECT_EQ(pages->page_bytes, 2u << 20);
}

TEST(SystemState, ReadsProcValuesByTheWholeName) {
  const test::FakeRoot root;
  root.write("proc/self/status", "VmPinned:\t 1 kB\nVmPin:\t      64 kB\nThreads:\t3\nEmpty:\n");
  const std::string file = root.path() + "/proc/self/status";
  EXPECT_EQ(proc_value(file, "VmPin"), 64u * 1024);
  EXPECT_EQ(proc_value(file, "Threads"), 3u);
  EXPECT_EQ(proc_value(file, "Empty"), std::nullopt);
  EXPECT_EQ(proc_value(file, "Absent"), std::nullopt);
}

TEST(SystemState, ReadsTextOfProcWithoutBlanks) {
  const test::FakeRoot root;
  root.write("proc/self/status", "Cpus_allowed_list:\t0-3,8\nEmpty:\n");
  const std::string file = root.path() + "/proc/self/status";
  EXPECT_EQ(proc_text(file, "Cpus_allowed_list"), "0-3,8");
  EXPECT_EQ(proc_text(file, "Empty"), "");
  EXPECT_EQ(proc_text(file, "Cpus"), std::nullopt);
  EXPECT_EQ(first_line(file), "Cpus_allowed_list:\t0-3,8");
  EXPECT_EQ(first_line(root.path() + "/none"), "");
  EXPECT_EQ(names_in(root.path() + "/proc"), std::vector<std::string>{"self"});
  EXPECT_EQ(names_in(file), std::nullopt);
}

TEST(SystemState, TellsWhatAFileIs) {
  const test::FakeRoot root;
  root.write("a/file", "", 0640);
  std::filesystem::create_symlink("file", root.path() + "/a/link");
  const auto file = file_state(root.path() + "/a/file");
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->is_directory || file->is_link);
  EXPECT_EQ(file->mode, 0640u);
  EXPECT_EQ(file->owner, geteuid());
  EXPECT_TRUE(file_state(root.path() + "/a")->is_directory);
  EXPECT_TRUE(file_state(root.path() + "/a/link")->is_link);
  EXPECT_EQ(file_state(root.path() + "/b"), std::nullopt);
}

TEST(SystemState, KnowsWhoMayLockWithoutLimit) {
  const test::FakeRoot root;
  root.write("proc/self/status", "CapEff:\t0000000000004000\n");
  EXPECT_TRUE(may_lock_without_limit(root.path()));
  root.write("proc/self/status", "CapEff:\t0000000000002000\n");
  EXPECT_FALSE(may_lock_without_limit(root.path()));
}

TEST(SystemState, CountsDescriptors) {
  const test::FakeRoot root;
  for (const char* name : {"0", "1", "2"}) root.write(std::string{"proc/self/fd/"} + name, "");
  EXPECT_EQ(open_descriptors(root.path()), 3u);
}

TEST(SystemState, KnowsTheSpaceOfAFileSystem) {
  const auto space = space_at("/dev/shm");
  ASSERT_TRUE(space);
  EXPECT_GT(space->total, 0u);
  EXPECT_LE(space->free, space->total);
}

TEST(SystemState, FindsTheFirstHoleInARange) {
  const test::FakeRoot root;
  root.write("proc/self/maps",
             "1000-3000 rw-p 00000000 00:00 0\n"
             "3000-4000 r--p 00000000 00:00 0 [vdso]\n"
             "5000-6000 rw-p 00000000 00:00 0\n"
             "6000-7000 ---p 00000000 00:00 0\n"
             "nonsense\n");
  struct Row {
    std::uint64_t address;
    std::uint64_t length;
    std::optional<std::uint64_t> unmapped;
    std::optional<std::uint64_t> read_only;
  };
  for (const Row& row : {
           Row{0x1000, 0x2000, {}, {}},
           Row{0x1800, 0x2000, {}, 0x3000},
           Row{0x1800, 0x4000, 0x4000, 0x3000},
           Row{0x3800, 0x0100, {}, 0x3800},
           Row{0x0800, 0x1000, 0x0800, {}},
           Row{0x5000, 0x1800, 0x6000, {}},  // A guard page counts as not mapped.
           Row{0x9000, 0x0001, 0x9000, {}},
           Row{0x1000, 0, {}, {}},
           Row{0x1000, ~std::uint64_t{0}, {}, {}},
       }) {
    const auto mapping = mapping_of(root.path(), row.address, row.length);
    EXPECT_EQ(mapping.first_unmapped, row.unmapped) << row.address << " + " << row.length;
    EXPECT_EQ(mapping.first_read_only, row.read_only) << row.address << " + " << row.length;
  }
}

TEST(SystemState, RealMapsHoldThisVariable) {
  const int here = 1;
  const auto mapping = mapping_of("", reinterpret_cast<std::uintptr_t>(&here), sizeof here);
  EXPECT_FALSE(mapping.first_unmapped);
  EXPECT_FALSE(mapping.first_read_only);
  EXPECT_EQ(mapping_of("", 0x10, 1).first_unmapped, 0x10u);
}

TEST(SystemState, FormatsBytesWithoutRoundingUp) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(8u << 20), "8 MiB");
  EXPECT_EQ(format_bytes(3u << 19), "1.5 MiB");
  EXPECT_EQ(format_bytes((2u << 20) - 1), "1.9 MiB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "15.9 EiB");
}

}  // namespace
}  // namespace verbatim::detail
