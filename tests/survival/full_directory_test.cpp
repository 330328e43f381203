// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: if shared memory is full, or another process truncated it, there are errors that say so,
//       and never a signal.
// Method: a separate small tmpfs. Two processes meet in it; then it is filled to the last page, and
//         one uses keys and numbers that lead to pages which do not exist. Also a segment that is
//         truncated while it is in use.
// Covers: soft/fault_guard.cpp
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "survival/engine_layout.hpp"
#include "survival/meeting.hpp"
#include "survival/private_mounts.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/provider/soft.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// Stays, and polls, until the order to quit. Link: to the other. Sends: r. Receives: q.
int play_neighbour(const std::vector<std::string>&) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  Session session = join(link);
  Buffer sink = require(session.domain.allocate(64 << 10));
  for (std::uint64_t id = 0; id < 8; ++id) session.side.post(Receive{sink.scatter()}, id);
  link.barrier();
  control.say('r');
  for (;;) {
    std::array<Completion, 4> found;
    static_cast<void>(session.side.receives.poll(found));
    if (control.overhear()) return 0;
    std::this_thread::yield();
  }
}
const Role kNeighbour{"neighbour", &play_neighbour};

/// Runs `body` in a separate process, with a directory on a tmpfs of this size.
template <class Body>
void in_small_directory(const char* size, Body body) {
  VERBATIM_CONTAINED(60s, [&] {
    own_mounts();
    mount_tmpfs("/mnt", std::string{"mode=700,size="} + size);
    const SoftDirectory directory{"/mnt"};
    body(directory);
  });
}

/// A process to which we are connected.
struct Neighbourhood {
  Neighbourhood() {
    link.barrier();
    if (neighbour.control().hear() != 'r') give_up("no neighbour", Where::current());
  }
  /// Checks that it is still there, and ends when it gets the order.
  void expect_neighbour_lives() {
    neighbour.control().say('q');
    EXPECT_EQ(neighbour.wait_for_end(), 0);
  }
  template <class Work>
  [[nodiscard]] WorkStatus run(const Work& work) {
    session.side.post(work, 1);
    return poll_one(session.side.sends).status();
  }
  [[nodiscard]] WorkStatus write_to(const RemoteMemoryRegion& region) {
    return run(Write{source.gather(0, 64), region});
  }
  /// Like that of the neighbour's queue pair, but it never had one of this number.
  [[nodiscard]] QpNumber unknown_queue_pair() const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(soft_provider().query_qp(unsafe::native(session.side.queue_pair), &attributes,
                                       IBV_QP_DEST_QPN, &init),
              0);
    return QpNumber{(attributes.dest_qp_num & ~0x3fffu) |
                    ((attributes.dest_qp_num + 9000) & 0x3fff)};
  }

  std::pair<int, int> ends = socket_pair();
  Process neighbour = Process::start({"neighbour"}, {ends.second});
  Link link{ends.first};
  Session session = join(link);
  Buffer source = require(session.domain.allocate(64 << 10));
};

RemoteMemoryRegion unknown_region() { return {0x1000, 4096, RemoteKey{kFarKey}}; }

TEST(FullDirectory, UnknownKeyIsAnError) {
  in_small_directory("16m", [](const SoftDirectory&) {
    Neighbourhood here;
    fill_up("/mnt");
    EXPECT_EQ(here.write_to(unknown_region()), WorkStatus::remote_access);
    here.expect_neighbour_lives();
  });
}

TEST(FullDirectory, UnknownKeyOfAReadIsAnError) {
  in_small_directory("16m", [](const SoftDirectory&) {
    Neighbourhood here;
    fill_up("/mnt");
    EXPECT_EQ(here.run(Read{here.source.scatter(0, 64), unknown_region()}),
              WorkStatus::remote_access);
    here.expect_neighbour_lives();
  });
}

TEST(FullDirectory, UnknownKeyOfAnAtomicIsAnError) {
  in_small_directory("16m", [](const SoftDirectory&) {
    Neighbourhood here;
    fill_up("/mnt");
    const RemoteAtomic word = require(RemoteAtomic::at(unknown_region()));
    EXPECT_EQ(here.run(FetchAdd{here.source.scatter(0, 8), word, 1}), WorkStatus::remote_access);
    here.expect_neighbour_lives();
  });
}

TEST(FullDirectory, UnknownQueuePairIsAnError) {
  in_small_directory("16m", [](const SoftDirectory&) {
    Neighbourhood here;
    const ProtectionDomain& domain = here.session.domain;
    CompletionQueue queue = completion_queue(domain.context());
    QueuePairOptions options = queue_pair_options(domain, queue, queue);
    options.ack_timeout = require(AckTimeout::at_least(10ms));
    options.max_ack_retries = require(MaxAckRetries::limited(1));
    auto prepared = require(QueuePair::prepare(options));
    Endpoint nobody = here.session.side.queue_pair.endpoint();
    nobody.queue_pair = here.unknown_queue_pair();
    fill_up("/mnt");
    QueuePair queue_pair = require(std::move(prepared).connect(nobody));
    require(unsafe::post(queue_pair, Send{here.source.gather(0, 64)}, WrId{1}));
    EXPECT_EQ(poll_one(queue).status(), WorkStatus::retry_exceeded);
    here.expect_neighbour_lives();
  });
}

// The sender of a datagram does not learn that nobody took it.
TEST(FullDirectory, DatagramToAnUnknownQueuePairIsLost) {
  in_small_directory("16m", [](const SoftDirectory&) {
    Neighbourhood here;
    const ProtectionDomain& domain = here.session.domain;
    CompletionQueue queue = completion_queue(domain.context());
    QueuePairOptions options = queue_pair_options(domain, queue, queue);
    options.type = QueuePairType::unreliable_datagram;
    auto prepared = require(QueuePair::prepare(options));
    // The number of the queue pair leads to the neighbour; the port is the same.
    const Endpoint own = prepared.endpoint();
    QueuePair queue_pair = require(std::move(prepared).activate());
    const AddressHandle to = require(queue_pair.address_handle(own));
    fill_up("/mnt");
    require(unsafe::post(
        queue_pair,
        Datagram{here.source.gather(0, 64), to, here.unknown_queue_pair(), own.queue_key},
        WrId{1}));
    EXPECT_EQ(poll_one(queue).status(), WorkStatus::success);
    here.expect_neighbour_lives();
  });
}

TEST(FullDirectory, TrafficGoesOn) {
  in_small_directory("16m", [](const SoftDirectory&) {
    Neighbourhood here;
    fill_up("/mnt");
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(here.write_to(here.session.peer_memory), WorkStatus::success);
    for (std::size_t bytes : {1u, 30u, 2000u, 60'000u}) {
      here.session.side.post(Send{here.source.gather(0, bytes)}, 2);
      poll_ok(here.session.side.sends);
    }
    here.expect_neighbour_lives();
  });
}

/// Creates objects until one fails.
template <class Make>
Error first_failure(Make make) {
  std::vector<decltype(make())> all;
  do all.push_back(make());
  while (all.back() && all.size() < 20'000);
  if (all.back()) give_up("it never failed", Where::current());
  return all.back().error();
}

void expect_no_space(const Error& error) {
  EXPECT_TRUE(error == Errc::out_of_resources) << to_string(error);
  EXPECT_EQ(error.os_error, ENOSPC) << to_string(error);
  EXPECT_TRUE(to_string(error).contains(std::strerror(ENOSPC))) << to_string(error);
  EXPECT_TRUE(explain(error).contains("the software device's directory /mnt/")) << explain(error);
}

TEST(FullDirectory, ObjectsFailForWantOfSpace) {
  in_small_directory("4m", [](const SoftDirectory&) {
    const ProtectionDomain domain = require(open_context().allocate_domain());
    const CompletionQueue queue = completion_queue(domain.context(), 16'384);
    // Each once with whatever is left, and once with nothing left.
    for (int again = 0; again < 2; ++again) {
      expect_no_space(
          first_failure([&] { return domain.context().create_completion_queue({.depth = 4096}); }));
      expect_no_space(first_failure(
          [&] { return domain.create_shared_receive_queue({.max_requests = 1024}); }));
      expect_no_space(first_failure([&] {
        QueuePairOptions options = queue_pair_options(domain, queue, queue);
        options.max_receive_elements = 16;  // So that space ends before the completion queue.
        return QueuePair::prepare(options);
      }));
      if (again == 0) fill_up("/mnt");
    }
    std::vector<std::byte> memory(1 << 20);
    std::size_t regions = 0;  // They have a separate table, full or not.
    const auto region = [&] { return domain.register_local(memory); };
    std::vector<Result<MemoryRegion>> all;
    for (; regions < 20'000; ++regions) {
      all.push_back(region());
      if (all.back()) continue;
      expect_no_space(all.back().error());
      break;
    }
  });
}

TEST(FullDirectory, OpeningFailsForWantOfSpace) {
  in_small_directory("4k", [](const SoftDirectory&) {
    const auto context = open_device({.name = "soft0"});
    ASSERT_FALSE(context);
    expect_no_space(context.error());
  });
}

TEST(ReadOnlyDirectory, IsToldAsSuch) {
  VERBATIM_CONTAINED(60s, [] {
    own_mounts();
    mount_tmpfs("/mnt", "mode=700,ro");
    const SoftDirectory directory{"/mnt"};
    const auto context = open_device({.name = "soft0"});
    ASSERT_TRUE(context == Errc::permission_denied);
    EXPECT_EQ(context.error().os_error, EROFS);
    EXPECT_TRUE(explain(context.error()).contains("is on a read-only file system"))
        << explain(context.error());
  });
}

TEST(UsedUpDescriptors, AreToldAsSuch) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    const Context context = open_context();
    const rlimit few{.rlim_cur = 40, .rlim_max = 40};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
    const auto channel = context.create_completion_channel();
    ASSERT_TRUE(channel == Errc::out_of_resources);
    EXPECT_TRUE(explain(channel.error()).contains("no file descriptor left, the limit is 40"))
        << explain(channel.error());
  });
}

/// Truncates the segment of the process in this slot.
void cut(const SoftDirectory& directory, int slot, off_t size) {
  const std::string path = directory.path() + "/p" + std::to_string(slot) + "-0";
  ASSERT_EQ(truncate(path.c_str(), size), 0) << path;
}

/// Which of the two slots belongs to this process.
int own_slot(const Neighbourhood& here) {
  return static_cast<int>(std::to_underlying(here.session.side.queue_pair.number()) >> 14);
}

class CutSegment : public testing::TestWithParam<off_t> {};

TEST_P(CutSegment, OfAPeerEndsRequests) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [&] {
    Neighbourhood here;
    EXPECT_EQ(here.write_to(here.session.peer_memory), WorkStatus::success);
    cut(directory, 1 - own_slot(here), GetParam());
    const WorkStatus status = here.write_to(here.session.peer_memory);
    // What lies before the cut may still work: a write like an earlier one needs only the first
    // page.
    EXPECT_TRUE(status == WorkStatus::retry_exceeded ||
                (GetParam() > 0 && status == WorkStatus::success))
        << to_string(status);
  });
}

// The process whose segment it is must live, too.
TEST_P(CutSegment, OfThisProcessEndsRequests) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [&] {
    Neighbourhood here;
    cut(directory, own_slot(here), GetParam());
    const auto posted =
        unsafe::post(here.session.side.queue_pair,
                     Write{here.source.gather(0, 64), here.session.peer_memory}, WrId{1});
    if (posted) {
      std::array<Completion, 1> found;
      static_cast<void>(
          eventually([&] { return require(here.session.side.sends.poll(found)) != 0; }, 2s));
    }
    static_cast<void>(here.session.side.queue_pair.move_to_error());
    const auto another = here.session.domain.context().create_completion_queue({.depth = 64});
    static_cast<void>(another);
    here.expect_neighbour_lives();
  });
}

INSTANTIATE_TEST_SUITE_P(To, CutSegment, testing::Values(0, 4096, 1 << 20),
                         [](const auto& each) { return std::to_string(each.param); });

}  // namespace
}  // namespace verbatim::test
