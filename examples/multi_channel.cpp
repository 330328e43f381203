// SPDX-License-Identifier: MIT OR Apache-2.0
// Three peers on one completion queue: a message to one of them, then to all of them at once.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

namespace vb = verbatim;

namespace {

constexpr std::size_t kPeers = 3;
using Message = std::array<std::uint8_t, 4>;

/// In a real program each of these is another process, and the endpoints travel between them.
vb::Result<vb::Channel> meet(vb::MultiChannel& multi, const vb::ProtectionDomain& domain) {
  // [peers]
  auto ours = VERBATIM_TRY(multi.prepare());  // carry endpoint() to the peer, and get the peer's
  auto theirs = VERBATIM_TRY(vb::PreparedChannel::create(domain));
  const vb::Endpoint here = ours.endpoint();
  const vb::Endpoint there = theirs.endpoint();
  auto channel = VERBATIM_TRY(std::move(ours).connect(there));
  const vb::PeerIndex index = VERBATIM_TRY(multi.add(std::move(channel)));
  // [/peers]
  std::printf("peer %u is there\n", index);
  return std::move(theirs).connect(here);
}

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  // [multi]
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  vb::MultiChannel multi{reactor, domain};
  // [/multi]
  std::vector<vb::Channel> others;
  for (std::size_t i = 0; i < kPeers; ++i) others.push_back(VERBATIM_TRY(meet(multi, domain)));

  Message message{1, 2, 3, 4};
  std::array<Message, kPeers> received{};
  const auto source = VERBATIM_TRY(domain.register_local(message));
  const auto sink = VERBATIM_TRY(domain.register_local(received));

  // One peer: multi[1] is its channel.
  const auto one = others[1].scope([&](vb::Scope& there) -> vb::Result<void> {
    const auto receiving = there.post(vb::Receive{sink.scatter(received[1])});
    // [one]
    VERBATIM_TRY(multi[1].send(source.gather(message)));
    // [/one]
    VERBATIM_TRY(there.wait(receiving));
    return {};
  });
  VERBATIM_TRY(one);
  std::printf("peer 1 has %u %u %u %u\n", received[1][0], received[1][1], received[1][2],
              received[1][3]);

  // All of them. Their receives are posted first.
  message = {5, 6, 7, 8};
  std::vector<vb::Pending<vb::Buffer>> receiving;
  for (vb::Channel& other : others)
    receiving.push_back(other.receive(VERBATIM_TRY(domain.allocate(sizeof(Message)))));
  // [multicast]
  const auto sent = multi.multicast(multi.peers(), vb::Send{source.gather(message)});
  if (!sent)  // the peers that it does not name have it
    std::fprintf(stderr, "%s\n", vb::to_string(sent.error()).c_str());
  // [/multicast]
  VERBATIM_TRY(sent);
  for (auto& each : receiving) {
    const auto done = each.wait();
    VERBATIM_TRY(done.result);
    if (done.received().size() != sizeof(Message) || done.received()[3] != std::byte{8})
      return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
  }
  std::printf("%zu peers have the next one\n", receiving.size());
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
