// SPDX-License-Identifier: MIT OR Apache-2.0
// Our ranks in ./bench bootstrap: each finds its identity, joins, connects, meets the others at a
// barrier, and leaves.
//
//    bootstrap_program partners|all|none     the peers to which it connects; rank 0 prints
//                                            "bytes N", the bytes of its session, both ways
//    bootstrap_program connections           no ranks: prints the heap that a connection takes
//                                            beyond a bare queue pair ("heap N"), what a bare queue
//                                            pair takes ("device N"), and the descriptors
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "verbatim/base/try.hpp"
#include "verbatim/network/bootstrap.hpp"
#include "verbatim/network/node.hpp"
#include "verbatim/verbs/device.hpp"

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

std::size_t heap_bytes() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// Sockets, events and so on: all except the memory that soft0 shares with its peers.
std::size_t own_descriptors() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each.path(), gone).string();
    if (!gone && (target.starts_with("socket:") || target.starts_with("anon_inode:") ||
                  target.starts_with("pipe:")))
      ++count;
  }
  return count;
}

vb::Result<void> take_part(vb::Connect connect) {
  const auto identity = VERBATIM_TRY(vb::Bootstrap::find(60s));
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  vb::NodeOptions options{.connect = vb::Connect::none, .timeout = 60s};
  if (connect != vb::Connect::none) options.connect = connect;
  auto node = VERBATIM_TRY(vb::Node::join(domain, identity, options));
  if (connect != vb::Connect::none) VERBATIM_TRY(node.barrier());
  const std::uint64_t bytes = node.session().bytes();
  VERBATIM_TRY(node.leave(60s));
  if (node.rank() == 0) std::printf("bytes %llu\n", static_cast<unsigned long long>(bytes));
  return {};
}

constexpr std::uint32_t kConnections = 64;
constexpr std::uint32_t kDepth = 16;

/// The heap that the device and the verbs layer take for a bare queue pair of that depth.
vb::Result<std::size_t> heap_of_queue_pair(const vb::Context& context,
                                           const vb::ProtectionDomain& domain) {
  auto queue = VERBATIM_TRY(context.create_completion_queue({.depth = 2 * kDepth * kConnections}));
  std::vector<vb::PreparedQueuePair> prepared;
  prepared.reserve(kConnections);
  const std::size_t heap = heap_bytes();
  for (std::uint32_t i = 0; i < kConnections; ++i)
    prepared.push_back(VERBATIM_TRY(vb::QueuePair::prepare({.domain = domain,
                                                            .send_completions = queue,
                                                            .receive_completions = queue,
                                                            .access = vb::Access::remote_write,
                                                            .max_send_requests = kDepth,
                                                            .max_receive_requests = kDepth})));
  return (heap_bytes() - heap) / kConnections;
}

/// Measures connections like those of a group: depth 16, on one Reactor.
vb::Result<void> measure_connections() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  static_cast<void>(
      VERBATIM_TRY(heap_of_queue_pair(context, domain)));  // Tables have grown after it.
  const std::size_t bare = VERBATIM_TRY(heap_of_queue_pair(context, domain));
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  vb::MultiChannel multi{reactor, domain};
  std::vector<vb::PreparedChannel> prepared;
  prepared.reserve(kConnections);
  const std::size_t heap = heap_bytes();
  const std::size_t descriptors = own_descriptors();
  for (std::uint32_t i = 0; i < kConnections; ++i)
    prepared.push_back(VERBATIM_TRY(multi.prepare()));
  for (std::uint32_t i = 0; i < kConnections; i += 2) {
    const vb::Endpoint first = prepared[i].endpoint();
    auto one = VERBATIM_TRY(std::move(prepared[i]).connect(prepared[i + 1].endpoint()));
    auto other = VERBATIM_TRY(std::move(prepared[i + 1]).connect(first));
    VERBATIM_TRY(multi.add(std::move(one)));
    VERBATIM_TRY(multi.add(std::move(other)));
  }
  const std::size_t all = (heap_bytes() - heap) / kConnections;
  std::printf("heap %zu\ndevice %zu\ndescriptors %zu\n", all - bare, bare,
              own_descriptors() - descriptors);
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view how = count > 1 ? arguments[1] : "partners";
  const auto result = how == "connections" ? measure_connections()
                      : how == "all"       ? take_part(vb::Connect::all)
                      : how == "none"      ? take_part(vb::Connect::none)
                                           : take_part(vb::Connect::partners);
  if (result) return 0;
  std::fprintf(stderr, "bootstrap_program: %s\n", to_string(result.error()).c_str());
  return 1;
}
