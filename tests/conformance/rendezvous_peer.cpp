// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conformance/rendezvous_peer.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <utility>

#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"

namespace verbatim::test {

namespace {

constexpr std::uint64_t kRendezvousRounds = 50;
constexpr std::size_t kRendezvousBytes = 4096;

/// The buffer of the result, if the operation succeeded.
Buffer checked(Completed<Buffer> done) {
  static_cast<void>(require(std::move(done.result)));
  return std::move(done.buffer);
}

}  // namespace

void serve_echo(const ProtectionDomain& domain, Channel& channel) {
  Buffer buffer = require(domain.allocate(kRendezvousBytes));
  for (std::uint64_t i = 0; i < kRendezvousRounds; ++i) {
    buffer = checked(channel.receive(std::move(buffer)).wait(kPatience));
    buffer = checked(channel.send(std::move(buffer)).wait(kPatience));
  }
}

int play_dialler(const std::string& address) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Channel channel = require(dial(domain, address, {.deadline = kPatience})).channel;
  Buffer question = require(domain.allocate(kRendezvousBytes));
  Buffer answer = require(domain.allocate(kRendezvousBytes));
  for (std::uint64_t i = 0; i < kRendezvousRounds; ++i) {
    fill(question.bytes(), settings().seed + i);
    auto receiving = channel.receive(std::move(answer));
    question = checked(channel.send(std::move(question)).wait(kPatience));
    answer = checked(receiving.wait(kPatience));
    if (const auto same = holds(answer.bytes(), settings().seed + i); !same) {
      std::cout << "answer " << i << ": " << same.message() << '\n';
      return 1;
    }
  }
  require(channel.close(kPatience));
  return 0;
}

int play_visitor(const std::string& address, const std::string& manner) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Channel channel = require(dial(domain, address, {.deadline = kPatience})).channel;
  if (manner == "fork" && fork() == 0) {
    // wait: until the test is over, when its end of the output's pipe closes.
    pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
    poll(&output, 1, static_cast<int>(std::chrono::milliseconds{kPatience}.count()));
    std::_Exit(0);
  }
  Buffer ready = require(domain.allocate(1));
  ready = checked(channel.send(std::move(ready)).wait(kPatience));
  for (;;) pause();
}

}  // namespace verbatim::test
