// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends a byte to each of five peers and gets an answer from each, with everything in flight at
// once.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

namespace vb = verbatim;

namespace {

constexpr std::size_t kPeers = 5;
using Bytes = std::array<std::uint8_t, kPeers>;

/// The other side of each channel, which in a real program is another process.
class Others {
 public:
  static vb::Result<Others> meet(vb::MultiChannel& multi, const vb::ProtectionDomain& domain) {
    Others others;
    for (std::size_t i = 0; i < kPeers; ++i) {
      auto ours = VERBATIM_TRY(multi.prepare());
      auto theirs = VERBATIM_TRY(vb::PreparedChannel::create(domain));
      const vb::Endpoint here = ours.endpoint();
      const vb::Endpoint there = theirs.endpoint();
      auto channel = VERBATIM_TRY(std::move(ours).connect(there));
      const vb::PeerIndex index = VERBATIM_TRY(multi.add(std::move(channel)));
      std::printf("peer %u is there\n", index);
      others.channels_.push_back(VERBATIM_TRY(std::move(theirs).connect(here)));
      others.receiving_.push_back(
          others.channels_.back().receive(VERBATIM_TRY(domain.allocate(1))));
    }
    return others;
  }
  /// Each peer sends back its byte plus one.
  vb::Result<void> answer() {
    for (std::size_t i = 0; i < kPeers; ++i) {
      auto [buffer, result] = receiving_[i].wait();
      VERBATIM_TRY(result);
      buffer.bytes()[0] = static_cast<std::byte>(static_cast<int>(buffer.bytes()[0]) + 1);
      VERBATIM_TRY(channels_[i].send(buffer.gather()));
    }
    return {};
  }

 private:
  std::vector<vb::Channel> channels_{};
  std::vector<vb::Pending<vb::Buffer>> receiving_{};
};

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  vb::MultiChannel multi{reactor, domain};
  auto others = VERBATIM_TRY(Others::meet(multi, domain));

  Bytes questions{1, 2, 3, 4, 5};
  Bytes answers{};
  const auto source = VERBATIM_TRY(domain.register_local(questions));
  const auto sink = VERBATIM_TRY(domain.register_local(answers));
  // [scope]
  std::vector<vb::PeerWork<vb::Receive<1>>> receives;
  std::vector<vb::PeerWork<vb::Send<1>>> sends;
  for (const vb::PeerIndex peer : multi.peers()) {
    receives.push_back({peer, vb::Receive{sink.scatter(std::span{answers}.subspan(peer, 1))}});
    sends.push_back({peer, vb::Send{source.gather(std::span{questions}.subspan(peer, 1))}});
  }
  const auto outcome = multi.scope([&](vb::PeerScope& scope) -> vb::Result<void> {
    std::array<vb::Operation, kPeers> gathering;
    std::array<vb::Operation, kPeers> scattering;
    VERBATIM_TRY(scope.gather(receives, gathering));  // before any peer can answer
    VERBATIM_TRY(scope.scatter(sends, scattering));
    VERBATIM_TRY(others.answer());
    VERBATIM_TRY(scope.wait_all(scattering));
    VERBATIM_TRY(scope.wait_all(gathering));  // names the peers that have not answered
    return {};
  });
  VERBATIM_TRY(outcome);
  // [/scope]
  for (std::size_t i = 0; i < kPeers; ++i) {
    std::printf("peer %zu: %u, and back %u\n", i, questions[i], answers[i]);
    if (answers[i] != questions[i] + 1)
      return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
  }
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
