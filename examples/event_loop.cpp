// SPDX-License-Identifier: MIT OR Apache-2.0
// A server in an event loop: it admits clients of its own user, and tells each where to write.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <string>
#include <vector>

namespace vb = verbatim;

namespace {
constexpr std::size_t kClients = 3;

// [serve]
vb::Result<std::uint64_t> serve(const vb::ProtectionDomain& domain, const std::string& address) {
  std::vector<vb::SharedRegion> windows;
  vb::ListenOptions options;
  options.admit = [](const vb::Peer& peer) -> vb::Result<std::unique_ptr<vb::Authenticator>> {
    if (peer.user == geteuid()) return nullptr;  // admitted; it has seen nothing of ours so far
    return std::unexpected(vb::Error{.code = vb::Errc::permission_denied});
  };
  options.prepare = [&](vb::PreparedChannel& channel,
                        const vb::Peer&) -> vb::Result<vb::Preparation> {
    windows.push_back(VERBATIM_TRY(domain.allocate_shared(8, vb::Access::remote_write)));
    vb::Preparation ours{.private_data = encode(windows.back().remote())};
    ours.receives.push_back(channel.receive(VERBATIM_TRY(domain.allocate(1))));
    return ours;
  };
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address, options));

  std::vector<vb::Connection> clients;
  while (clients.size() < kClients) {
    pollfd ready{.fd = listener.fd(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 5000) <= 0) break;  // a real loop also waits for its channels here
    if (auto client = VERBATIM_TRY(listener.try_accept())) clients.push_back(*std::move(client));
  }
  for (vb::Connection& client : clients) {  // the client's signal takes the receive from prepare
    VERBATIM_TRY(client.receives.front().wait().result);
    VERBATIM_TRY(client.channel.close());
  }
  std::uint64_t sum = 0;
  for (const vb::SharedRegion& window : windows) sum += window.load_acquire<std::uint64_t>(0);
  return sum;
}

vb::Result<void> write_to(const vb::ProtectionDomain& domain, const std::string& address,
                          std::uint64_t number) {
  auto [channel, server, receives] = VERBATIM_TRY(vb::dial(domain, address));
  const auto window = VERBATIM_TRY(vb::decode_remote_memory(server.private_data));
  const auto region = VERBATIM_TRY(domain.register_local(std::span{&number, 1}));
  VERBATIM_TRY(channel.write(region.gather(std::span{&number, 1}), window, {.immediate = 1}));
  return channel.close();
}
// [/serve]
}  // namespace

int main() {
  const std::string address = "unix:@verbatim-event-loop-" + std::to_string(getpid());
  std::vector<pid_t> children;
  for (std::uint64_t number = 1; number <= kClients; ++number) {
    children.push_back(fork());  // before any device is opened
    if (children.back() != 0) continue;
    const auto domain = vb::open_device().value().allocate_domain().value();
    const auto written = write_to(domain, address, number);
    if (!written) std::fprintf(stderr, "%s\n", vb::explain(written.error()).c_str());
    return written ? 0 : 1;
  }
  const auto domain = vb::open_device().value().allocate_domain().value();
  const auto sum = serve(domain, address);
  if (!sum) std::fprintf(stderr, "%s\n", vb::explain(sum.error()).c_str());
  std::printf("%zu clients wrote %u in all\n", kClients, static_cast<unsigned>(sum.value_or(0)));
  bool good = sum == kClients * (kClients + 1) / 2;
  for (const pid_t child : children) {
    int status = 1;
    good &= waitpid(child, &status, 0) == child && status == 0;
  }
  return good ? 0 : 1;
}
