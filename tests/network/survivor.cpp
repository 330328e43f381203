// SPDX-License-Identifier: MIT OR Apache-2.0
// One rank of a job whose ranks are killed: it works with the others until one of them is gone, and
// prints which.
//
//    survivor barrier      meets all others, again and again
//    survivor all-to-all   writes to all others, and meets them
//    survivor regroup      like barrier; the survivors continue as a separate group, and leave
//    survivor rejoin       like regroup, until all ranks are back, including restarted ones
//
// Prints "pid P", "joined", "lost RANK", "regrouped N" (the number of ranks), "left".
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <verbatim/network/bootstrap.hpp>
#include <verbatim/network/node.hpp>
#include <verbatim/verbatim.hpp>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

vb::Result<void> write_to_all(vb::Node& node, vb::Buffer& own,
                              const std::vector<vb::RemoteMemoryRegion>& boards) {
  std::vector<vb::PeerWork<vb::Write<1>>> works;
  for (vb::Rank rank = 0; rank < node.world(); ++rank)
    if (rank != node.rank())
      works.push_back({rank, {own.gather(), *boards[rank].sub_region(node.rank() * 8, 8)}});
  VERBATIM_TRY(node.peers().scatter(works));
  VERBATIM_TRY(node.barrier());
  return {};
}

/// The error that ends the work of the group: always the loss of a rank.
vb::Error work_until_loss(vb::Node& node, const vb::SharedRegion& board, vb::Buffer& own,
                          bool with_data) {
  std::vector<vb::RemoteMemoryRegion> boards;
  if (with_data) {
    auto all = node.exchange(board.remote());
    if (!all) return all.error();
    boards = std::move(*all);
  }
  for (;;) {
    if (with_data) {
      if (const auto written = write_to_all(node, own, boards); !written) return written.error();
    } else if (const auto met = node.barrier(); !met) {
      return met.error();
    }
  }
}

int fail(const char* what, const vb::Error& error) {
  std::printf("%s: %s\n", what, to_string(error).c_str());
  return 1;
}

bool is_loss(const vb::Error& error) {
  return error == vb::Errc::peer_lost && std::string_view{error.field} == "rank";
}

int survive(std::string_view how, std::chrono::seconds patience) {
  auto context = vb::open_device();
  if (!context) return fail("device", context.error());
  auto domain = context->allocate_domain();
  if (!domain) return fail("domain", domain.error());
  // Before the node, because others write here while there are channels.
  auto board = domain->allocate_shared(4096, vb::Access::remote_write);
  auto own = domain->allocate(8);
  if (!board || !own) return 1;
  const auto identity = vb::Bootstrap::find(60s);
  if (!identity) return fail("bootstrap", identity.error());
  std::printf("found\n");
  std::fflush(stdout);
  auto node = vb::Node::join(*domain, *identity, {.timeout = patience});
  if (!node && is_loss(node.error())) {
    std::printf("lost %u\n", static_cast<unsigned>(node.error().value));
    return 0;
  }
  if (!node) return fail("join", node.error());
  std::printf("joined\n");
  std::fflush(stdout);
  const bool is_new = node->generation() > 1;
  if (!is_new) {
    const vb::Error end = work_until_loss(*node, *board, *own, how == "all-to-all");
    if (!is_loss(end)) return fail("instead of a loss", end);
    // By now some ranks that ended because of the loss may be gone, too.
    std::printf("lost %u\n", static_cast<unsigned>(node->departed().front().rank));
    std::fflush(stdout);
  }
  if (how != "regroup" && how != "rejoin") return 0;
  for (bool again = !is_new; again;) {
    const auto regrouped = node->regroup(60s);
    if (!regrouped) return fail("regroup", regrouped.error());
    const auto present = std::ranges::count_if(node->members(), &vb::Member::present);
    std::printf("regrouped %d\n", static_cast<int>(present));
    std::fflush(stdout);
    again = how == "rejoin" && present < static_cast<int>(node->world());
  }
  for (int i = 0; i < 100; ++i)
    if (const auto met = node->barrier(); !met) return fail("barrier", met.error());
  if (const auto left = node->leave(60s); !left) return fail("leave", left.error());
  std::printf("left\n");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  const std::chrono::seconds patience{count > 2 ? std::atoi(arguments[2]) : 20};
  return survive(count > 1 ? arguments[1] : "barrier", patience);
}
