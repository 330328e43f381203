// SPDX-License-Identifier: MIT OR Apache-2.0
// Code of manual/coming_from/ibverbs_rs.md: the code of a user of that crate, in C++.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

vb::Error wrong() { return {.code = vb::Errc::malformed, .operation = "verify"}; }

// [scope]
vb::Result<void> exchange(vb::Channel& channel, const vb::MemoryRegion& region,
                          std::array<std::uint64_t, 2>& words) {
  const auto outcome = channel.scope([&](vb::Scope& scope) -> vb::Result<void> {
    const auto receiving = scope.post(vb::Receive{region.scatter(words[1])});
    scope.post_detached(vb::Send{region.gather(words[0])});
    VERBATIM_TRY(scope.wait(receiving, 5s));  // every wait has a time limit
    return {};
  });  // all posted work is over here, even after an error or an exception
  VERBATIM_TRY(outcome);
  return {};
}
// [/scope]

struct Record {
  std::uint64_t sequence;
  std::uint64_t value;
};

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  // [handshake]
  auto prepared = VERBATIM_TRY(vb::PreparedChannel::create(domain));
  const vb::Endpoint own = prepared.endpoint();  // GID and LID, MTU, limits: all that must agree
  auto channel = VERBATIM_TRY(std::move(prepared).connect(own));  // a loopback, as in the crate
  // [/handshake]
  std::array<std::uint64_t, 2> words{7, 0};
  const auto region = VERBATIM_TRY(domain.register_local(words));
  VERBATIM_TRY(exchange(channel, region, words));
  if (words[1] != 7) return std::unexpected(wrong());

  // [field]
  constexpr auto kRights = vb::Access::remote_read | vb::Access::remote_write;
  auto table = VERBATIM_TRY(domain.allocate_shared(16 * sizeof(Record), kRights));
  const auto records = table.remote_span<Record, kRights>();
  Record record{.sequence = 3, .value = 30};
  const auto source = VERBATIM_TRY(domain.register_local(record));
  VERBATIM_TRY(channel.write(source.gather(record), records[3]));  // the index is checked
  // [/field]
  if (table.load_acquire<std::uint64_t>(3 * sizeof(Record) + 8) != 30)
    return std::unexpected(wrong());
  return {};
}

// [peers]
vb::Result<void> scatter_gather(const vb::ProtectionDomain& domain, vb::MultiChannel& multi) {
  std::array<std::uint64_t, 4> out{1, 2, 3, 4};
  std::array<std::uint64_t, 4> in{};
  const auto out_region = VERBATIM_TRY(domain.register_local(out));
  const auto in_region = VERBATIM_TRY(domain.register_local(in));
  VERBATIM_TRY(multi.scope([&](vb::PeerScope& scope) -> vb::Result<void> {
    for (const vb::PeerIndex peer : multi.peers()) {
      scope.post_detached(peer, vb::Receive{in_region.scatter(in[peer])});
      scope.post_detached(peer, vb::Send{out_region.gather(out[peer])});
    }
    return {};
  }));
  if (in != out) return std::unexpected(wrong());
  return {};
}
// [/peers]

vb::Result<void> run_peers() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  vb::MultiChannel multi{reactor, domain};
  for (int i = 0; i < 4; ++i) {
    auto prepared = VERBATIM_TRY(multi.prepare());
    const vb::Endpoint own = prepared.endpoint();
    auto channel = VERBATIM_TRY(std::move(prepared).connect(own));
    static_cast<void>(VERBATIM_TRY(multi.add(std::move(channel))));
  }
  return scatter_gather(domain, multi);
}

}  // namespace

int main() {
  for (const auto& outcome : {run(), run_peers()})
    if (!outcome) {
      std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
      return 1;
    }
}
