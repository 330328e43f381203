// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A client of the coordinator that a test controls: it behaves well, badly, or does nothing.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "channel/private_descriptor.hpp"
#include "channel/tcp.hpp"
#include "network/messages.hpp"
#include "network/secure_stream.hpp"
#include "support/require.hpp"

namespace verbatim::test {

class RawClient {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RawClient(std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = detail::PrivateDescriptor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      give_up("connect", std::source_location::current());
  }

  /// Returns false if the coordinator has hung up.
  bool send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool send(std::string_view text) { return send(std::as_bytes(std::span{text})); }

  /// Everything that arrives until the coordinator hangs up; nothing if it does not.
  [[nodiscard]] std::optional<std::vector<std::byte>> until_end(
      std::chrono::milliseconds patience = std::chrono::seconds{20}) {
    std::vector<std::byte> all;
    const auto deadline = Clock::now() + patience;
    std::array<std::byte, 4096> chunk;
    while (detail::wait_until_ready(socket_.get(), POLLIN, deadline)) {
      const ssize_t got = recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (got <= 0) return all;
      all.insert(all.end(), chunk.begin(), chunk.begin() + got);
    }
    return std::nullopt;
  }

  /// The next message, as a rank of the job would get it; nothing if the coordinator hangs up.
  std::optional<std::vector<std::byte>> receive(detail::SecureStream& stream) {
    std::array<std::byte, 4096> chunk;
    const auto deadline = Clock::now() + std::chrono::seconds{20};
    for (;;) {
      send_from(stream);
      auto frame = require(stream.next());
      if (frame) return frame;
      if (stream.greeted() && !stream.outgoing().empty()) continue;
      if (!detail::wait_until_ready(socket_.get(), POLLIN, deadline))
        give_up("nothing came", std::source_location::current());
      const ssize_t got = recv(socket_.get(), chunk.data(), chunk.size(), 0);
      if (got <= 0) return std::nullopt;
      stream.feed(std::span{chunk}.first(static_cast<std::size_t>(got)));
    }
  }
  /// Exchanges both hellos.
  void greet(detail::SecureStream& stream) {
    std::array<std::byte, detail::kHelloBytes> hello;
    send_from(stream);
    for (std::size_t have = 0; have < hello.size();) {
      const ssize_t got = recv(socket_.get(), hello.data() + have, hello.size() - have, 0);
      if (got <= 0) give_up("no hello", std::source_location::current());
      have += static_cast<std::size_t>(got);
    }
    stream.feed(hello);
    static_cast<void>(require(stream.next()));
  }
  template <class Message>
  void say(detail::SecureStream& stream, const Message& message) {
    stream.send(encode(message));
    send_from(stream);
  }
  void send_from(detail::SecureStream& stream) {
    send(stream.outgoing());
    stream.outgoing().clear();
  }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  void hang_up() { socket_.reset(); }

 private:
  detail::PrivateDescriptor socket_;
};

/// The client's end for a job with that secret, or without one.
[[nodiscard]] inline detail::SecureStream client_stream(const std::optional<Secret>& secret,
                                                        std::string_view job = "verbatim") {
  detail::SecureStream::Key key{};
  if (secret) std::ranges::copy(secret->bytes(), key.begin());
  return {detail::SessionEnd::client, key, detail::job_id(job)};
}

template <class Message>
[[nodiscard]] Message as(const std::optional<std::vector<std::byte>>& plaintext) {
  if (!plaintext || require(detail::kind_of(*plaintext)) != Message::kKind)
    give_up("another message", std::source_location::current());
  return require(detail::decode<Message>(std::span{*plaintext}.subspan(1)));
}

}  // namespace verbatim::test
