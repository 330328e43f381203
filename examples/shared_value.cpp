// SPDX-License-Identifier: MIT OR Apache-2.0
// One value for many peers: it is in flight to all of them at once, and nobody copies it.
#include <verbatim/verbatim.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace vb = verbatim;

namespace {

constexpr std::size_t kPeers = 3;
constexpr std::size_t kBytes = 4096;

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  std::vector<vb::Channel> clients;
  std::vector<vb::Channel> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    auto [client, peer] = VERBATIM_TRY(vb::connect_pair(domain));
    clients.push_back(std::move(client));
    peers.push_back(std::move(peer));
  }
  std::vector<vb::Pending<vb::Buffer>> receiving;
  for (vb::Channel& peer : peers)
    receiving.push_back(peer.receive(VERBATIM_TRY(domain.allocate(kBytes))));

  // [shared]
  auto news = VERBATIM_TRY(domain.allocate(kBytes));
  std::ranges::fill(news.bytes(), std::byte{42});
  // From here on nobody changes it. Each operation keeps it alive until it is over.
  const auto value = std::make_shared<const vb::Buffer>(std::move(news));
  std::vector<vb::Pending<std::shared_ptr<const vb::Buffer>>> sending;
  for (vb::Channel& client : clients) sending.push_back(client.send(value));
  for (auto& each : sending) VERBATIM_TRY(each.wait().result);
  // [/shared]

  for (auto& each : receiving) {
    const auto done = each.wait();
    VERBATIM_TRY(done.result);
    if (!std::ranges::equal(done.received(), value->bytes()))
      return std::unexpected(vb::Error{.code = vb::Errc::malformed, .operation = "verify"});
  }
  std::printf("%zu peers have the %zu bytes, sent from one place\n", kPeers, kBytes);
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
