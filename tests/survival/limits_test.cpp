// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the device is small, stays inside a small /dev/shm, and is closed to other users.
// Method: a separate tmpfs in a private mount namespace; the resident size of the process; a child
//         with another user id.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "conformance/peer_session.hpp"
#include "soft/shared/directory.hpp"
#include "support/forked_child.hpp"
#include "support/named_error.hpp"
#include "survival/process.hpp"

namespace verbatim::test {

/// Creates a queue pair, and does nothing more. Sends: r.
int play_idle(const std::vector<std::string>&) {
  const Control control{kControlFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const CompletionQueue queue = completion_queue(domain.context());
  auto options = queue_pair_options(domain, queue, queue);
  options.max_send_requests = {};
  options.max_receive_requests = {};
  const auto prepared = require(QueuePair::prepare(options));
  control.say('r');
  return control.hear() == 'q' ? 0 : 1;
}

namespace {

std::size_t resident_kib() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream{"/proc/self/statm"} >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

}  // namespace

/// What one queue pair adds to the process, in the exit status: MiB, rounded up.
int play_resident(const std::vector<std::string>&) {
  const std::size_t before = resident_kib();
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const CompletionQueue queue = completion_queue(domain.context());
  const auto prepared = require(QueuePair::prepare(queue_pair_options(domain, queue, queue)));
  return static_cast<int>((resident_kib() - before + 1023) / 1024);
}

namespace {

constexpr int kNoNamespace = 77;

/// Runs `body` in a forked child, with a tmpfs of this size that only it and its children see.
template <class Body>
void in_small_tmpfs(const char* size, Body body) {
  const int status = status_of_child([&] {
    const std::string place = "/tmp/verbatim-tmpfs-" + std::to_string(getpid());
    if (unshare(CLONE_NEWNS) != 0) std::_Exit(kNoNamespace);
    std::filesystem::create_directory(place);
    std::string options{"mode=700,size="};
    options += size;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", place.c_str(), "tmpfs", 0, options.c_str()) != 0) {
      std::filesystem::remove(place);
      std::_Exit(kNoNamespace);
    }
    try {
      body(place);
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
    }
    umount2(place.c_str(), MNT_DETACH);
    std::filesystem::remove(place);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNamespace)
    GTEST_SKIP() << "this user may not mount a tmpfs";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

TEST(Limits, ThirtyTwoProcessesFitASmallTmpfs) {
  in_small_tmpfs("64m", [](const std::string& place) {
    const SoftDirectory directory{place};
    std::vector<Process> all;
    for (int i = 0; i < 32; ++i) all.push_back(Process::start({"idle"}));
    for (const Process& each : all) EXPECT_EQ(each.control().hear(), 'r');
    for (const Process& each : all) each.control().say('q');
    for (Process& each : all) EXPECT_EQ(each.wait_for_end(), 0);
    EXPECT_TRUE(directory.is_gone());
  });
}

TEST(Limits, FullTmpfsIsAnErrorAndNotASignal) {
  in_small_tmpfs("2m", [](const std::string& place) {
    const SoftDirectory directory{place};
    {
      const ProtectionDomain domain = require(open_context().allocate_domain());
      const auto make = [&domain]() -> Result<PreparedQueuePair> {
        const auto queue = domain.context().create_completion_queue({.depth = 64});
        if (!queue) return std::unexpected(queue.error());
        return QueuePair::prepare(queue_pair_options(domain, *queue, *queue));
      };
      std::vector<PreparedQueuePair> all;
      auto next = make();
      for (; next && all.size() < 1000; next = make()) all.push_back(std::move(*next));
      EXPECT_TRUE(fails_with(next, Errc::out_of_resources));
      ASSERT_GT(all.size(), 1u);
      // Memory that was freed can be used again.
      all.pop_back();
      EXPECT_TRUE(succeeds(make()));
    }
    EXPECT_TRUE(directory.is_gone());
  });
}

TEST(Limits, NoRoomAtAllIsAnError) {
  in_small_tmpfs("4k", [](const std::string& place) {
    const SoftDirectory directory{place};
    const auto context = open_device({.name = "soft0"});
    EXPECT_TRUE(fails_with(context, Errc::out_of_resources));
  });
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

TEST(Limits, OneQueuePairCostsLittle) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory counts as ours";
  const SoftDirectory directory;
  Process process = Process::start({"resident"});
  EXPECT_LE(process.wait_for_end(), 4) << "MiB";
}

TEST(OtherUsers, SeeAndOpenNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const SoftDirectory directory;
  const Context context = open_context();
  const std::string segment = directory.path() + "/p0-0";
  ASSERT_TRUE(std::filesystem::exists(segment));
  in_forked_child([&] {
    ASSERT_EQ(setgid(kNobody), 0);
    ASSERT_EQ(setuid(kNobody), 0);
    EXPECT_NE(access(segment.c_str(), F_OK), 0);
    EXPECT_EQ(errno, EACCES);
    const auto opened = engine::Directory::open();
    EXPECT_TRUE(fails_naming(opened, Errc::permission_denied, "owned by uid"));
    ASSERT_FALSE(opened);
    EXPECT_TRUE(directory.path().starts_with(opened.error().text_view()));
  });
}

}  // namespace
}  // namespace verbatim::test
