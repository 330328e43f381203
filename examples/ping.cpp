// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes meet by address and play ping-pong with blocking calls.
#include <sys/wait.h>
#include <unistd.h>
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <string>

namespace vb = verbatim;

namespace {
constexpr std::uint64_t kRounds = 1000;

// [meet]
vb::Result<void> serve(const vb::ProtectionDomain& domain, const vb::Listener& listener) {
  auto channel = VERBATIM_TRY(listener.accept()).channel;
  auto number = VERBATIM_TRY(domain.allocate(sizeof(std::uint64_t)));
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    VERBATIM_TRY(channel.receive(number.scatter()));
    ++*reinterpret_cast<std::uint64_t*>(number.bytes().data());
    VERBATIM_TRY(channel.send(number.gather()));
  }
  return channel.close();  // waits until the peer is done, too
}

vb::Result<std::uint64_t> ask(const vb::ProtectionDomain& domain, const std::string& address) {
  auto channel = VERBATIM_TRY(vb::dial(domain, address)).channel;
  auto number = VERBATIM_TRY(domain.allocate(sizeof(std::uint64_t)));
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    VERBATIM_TRY(channel.send(number.gather()));
    VERBATIM_TRY(channel.receive(number.scatter()));
  }
  VERBATIM_TRY(channel.close());
  return *reinterpret_cast<const std::uint64_t*>(number.bytes().data());
}
// [/meet]
}  // namespace

int main() {
  int port_pipe[2];
  if (pipe(port_pipe) != 0) return 1;
  const pid_t child = fork();  // before any device is opened: it would not survive the fork
  const auto domain = vb::open_device().value().allocate_domain().value();
  std::uint16_t port = 0;
  if (child == 0) {
    if (read(port_pipe[0], &port, sizeof port) != sizeof port) return 1;
    const auto count = ask(domain, "127.0.0.1:" + std::to_string(port));
    if (!count) std::fprintf(stderr, "%s\n", vb::explain(count.error()).c_str());
    std::printf("answered %u times\n", static_cast<unsigned>(count.value_or(0)));
    return count == kRounds ? 0 : 1;
  }
  auto listener = vb::Listener::open(domain, "127.0.0.1:0").value();
  port = listener.port();
  if (write(port_pipe[1], &port, sizeof port) != sizeof port) return 1;
  const auto served = serve(domain, listener);
  if (!served) std::fprintf(stderr, "%s\n", vb::explain(served.error()).c_str());
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0 && served ? 0 : 1;
}
