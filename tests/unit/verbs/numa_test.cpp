// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a thread that is bound to a node runs there and gets its memory there, strictly if
//       requested; a node that does not exist is named, and unbinding undoes everything.
// Method: threads of the test, and what the kernel reports about their policy.
#include "verbatim/verbs/numa.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "support/fake_root.hpp"
#include "support/named_error.hpp"
#include "support/null_device.hpp"

namespace verbatim::test {
namespace {

struct Policy {
  int mode = -1;
  std::array<unsigned long, 16> nodes{};
};

/// What the kernel reports about the calling thread; empty if it reports nothing.
std::optional<Policy> policy() {
  Policy found;
  if (syscall(SYS_get_mempolicy, &found.mode, found.nodes.data(),
              found.nodes.size() * 8 * sizeof(unsigned long), nullptr, 0) != 0)
    return std::nullopt;
  return found;
}

/// Whether this system lets a thread choose where its memory comes from (containers may not).
bool can_choose() {
  bool can = false;
  std::thread{[&] {
    const unsigned long node0 = 1;
    can = syscall(SYS_set_mempolicy, MPOL_PREFERRED, &node0, 64UL) == 0 && policy().has_value();
  }}.join();
  return can;
}

bool has_libnuma() {
  const auto bound = bind_thread_to_node(-1);
  return bound.error() != Errc::unsupported;
}

class NumaTest : public NullDevice {
 protected:
  void SetUp() override {
    if (!has_libnuma()) GTEST_SKIP() << "libnuma, or NUMA in the kernel, is not there";
    if (!can_choose()) GTEST_SKIP() << "this system lets no thread choose a memory policy";
  }
  /// In a separate thread, so that no other test runs on a bound thread.
  static void in_thread(const std::function<void()>& body) { std::thread{body}.join(); }
};

TEST(Numa, UnknownNodesAreNamed) {
  if (!has_libnuma()) GTEST_SKIP() << "libnuma, or NUMA in the kernel, is not there";
  for (const int node : {-1, -1000, 9999, std::numeric_limits<int>::max()}) {
    for (const NumaPolicy wanted : {NumaPolicy::preferred, NumaPolicy::strict}) {
      const auto bound = bind_thread_to_node(node, wanted);
      ASSERT_TRUE(fails_with(bound, Errc::not_found));
      EXPECT_STREQ(bound.error().field, "node");
      EXPECT_EQ(bound.error().value, static_cast<std::uint64_t>(node));
    }
  }
}

TEST(Numa, WithoutLibnumaIsUnsupported) {
  const auto bound = bind_thread_to_node(0);
  if (has_libnuma()) GTEST_SKIP() << "libnuma is there";
  ASSERT_TRUE(fails_with(bound, Errc::unsupported));
  EXPECT_EQ(bound.error().text_view(), "libnuma.so.1");
  EXPECT_TRUE(fails_with(unbind_thread(), Errc::unsupported));
}

TEST_F(NumaTest, PreferredNodeComesFirst) {
  in_thread([] {
    require(bind_thread_to_node(0));
    const auto found = policy();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mode, MPOL_PREFERRED);
    EXPECT_EQ(found->nodes[0], 1u);
  });
}

// Only this policy makes an allocation fail instead of using another node.
TEST_F(NumaTest, StrictNodeIsTheOnlyOne) {
  in_thread([] {
    require(bind_thread_to_node(0, NumaPolicy::strict));
    const auto found = policy();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mode, MPOL_BIND);
    EXPECT_EQ(found->nodes[0], 1u);
  });
}

/// From now on the kernel answers this thread's set_mempolicy with EPERM, as in some containers.
bool deny_memory_policy() {
  std::array<sock_filter, 4> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = code.size(), .filter = code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(NumaTest, DeniedMemoryPolicyIsReported) {
  bool denied = false;
  in_thread([&] {
    require(bind_thread_to_node(0));
    denied = deny_memory_policy();
    if (!denied) return;
    for (const NumaPolicy wanted : {NumaPolicy::preferred, NumaPolicy::strict}) {
      const auto bound = bind_thread_to_node(0, wanted);
      ASSERT_TRUE(fails_with(bound, Errc::permission_denied));
      EXPECT_EQ(bound.error().os_error, EPERM);
    }
    // The state is not restored, and the error says so.
    EXPECT_TRUE(fails_with(unbind_thread(), Errc::permission_denied));
    EXPECT_EQ(policy()->mode, MPOL_PREFERRED);
  });
  if (!denied) GTEST_SKIP() << "this system lets no thread filter its system calls";
}

TEST_F(NumaTest, ThreadRunsOnTheNode) {
  in_thread([] {
    require(bind_thread_to_node(0));
    unsigned processor = 0;
    unsigned node = 99;
    ASSERT_EQ(syscall(SYS_getcpu, &processor, &node, nullptr), 0);
    EXPECT_EQ(node, 0u);
  });
}

TEST_F(NumaTest, UnbindingUndoesIt) {
  cpu_set_t at_start;
  ASSERT_EQ(sched_getaffinity(0, sizeof at_start, &at_start), 0);
  in_thread([&] {
    for (const NumaPolicy wanted : {NumaPolicy::preferred, NumaPolicy::strict}) {
      require(bind_thread_to_node(0, wanted));
      const auto bound = policy();
      ASSERT_TRUE(bound);
      EXPECT_FALSE(bound->mode == MPOL_DEFAULT || bound->mode == MPOL_LOCAL) << bound->mode;
      // One processor, because on a machine with one node, binding alone removes none.
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
      require(unbind_thread());
      const auto found = policy();
      ASSERT_TRUE(found);
      EXPECT_TRUE(found->mode == MPOL_DEFAULT || found->mode == MPOL_LOCAL) << found->mode;
      cpu_set_t allowed;
      ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
      EXPECT_TRUE(CPU_EQUAL(&allowed, &at_start)) << CPU_COUNT(&allowed) << " processors";
    }
  });
}

TEST_F(NumaTest, OtherThreadsAreLeftAlone) {
  const auto before = policy();
  in_thread([] { require(bind_thread_to_node(0, NumaPolicy::strict)); });
  const auto after = policy();
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->mode, before->mode);
}

std::string device_path;

class NumaDeviceTest : public NumaTest {
 protected:
  Context open_at(const std::string& path) {
    device_path = path;
    table.get_device_list = [](int* count) {
      ibv_device** const list = verbatim_null_provider()->get_device_list(count);
      std::snprintf(list[0]->ibdev_path, sizeof list[0]->ibdev_path, "%s", device_path.c_str());
      return list;
    };
    return open();
  }
};

TEST_F(NumaDeviceTest, DeviceNamesTheNode) {
  const FakeRoot root;
  root.write("device/numa_node", "0\n");
  const Context context = open_at(root.path());
  in_thread([&] {
    require(bind_thread_to_device(context, NumaPolicy::strict));
    EXPECT_EQ(policy()->mode, MPOL_BIND);
  });
}

TEST_F(NumaDeviceTest, DeviceWithoutANodeIsNamed) {
  const FakeRoot root;
  root.write("device/numa_node", "-1\n");
  const auto bound = bind_thread_to_device(open_at(root.path()));
  ASSERT_TRUE(fails_with(bound, Errc::not_found));
  EXPECT_EQ(bound.error().text_view(), "null0");
}

}  // namespace
}  // namespace verbatim::test
