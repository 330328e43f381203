// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A connection between two processes that meet over TCP on this host.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/connected_pair.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {

/// A TCP connection that carries records. Every call has a time limit, and throws if it fails.
class Link {
 public:
  explicit Link(int fd) noexcept : fd_(fd) {}
  Link(Link&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Link& operator=(Link&&) = delete;
  ~Link();

  [[nodiscard]] static Link connect(std::uint16_t port);
  [[nodiscard]] int fd() const noexcept { return fd_; }
  void send(std::span<const std::byte> record);
  [[nodiscard]] std::vector<std::byte> receive();
  /// Returns when the other side has called it as often.
  void barrier();
  /// Returns when the other side is gone.
  void wait_for_end();

 private:
  int fd_;
};

/// Accepts connections on a port of 127.0.0.1 that the system chose.
class LinkListener {
 public:
  LinkListener();
  LinkListener(const LinkListener&) = delete;
  LinkListener& operator=(const LinkListener&) = delete;
  ~LinkListener();
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] Link accept();

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

/// One side's view of the connection: its own objects, and the peer's memory.
struct Session {
  ProtectionDomain domain;
  Side side;
  ExposedMemory exposed;
  RemoteMemoryRegion peer_memory;
};

/// Both sides call this: it exchanges endpoints and regions, connects, and waits for the other
/// side. A peer that lives may be held up, so the time for its answers is long, unless it is to be
/// found dead.
[[nodiscard]] Session join(Link& link,
                           std::chrono::milliseconds ack_timeout = std::chrono::milliseconds{1000});
/// For a peer that is killed.
inline constexpr std::chrono::milliseconds kSoonDead{30};

/// Both sides call this, with a different `rank` (0 or 1): it moves random data both ways by send,
/// write and read, and checks every byte. Throws if something differs.
void converse(Session& session, Link& link, unsigned rank);

/// The child's part: joins, then "converse" or "idle" until it is killed.
[[nodiscard]] int play_peer(std::uint16_t port, const std::string& part);

}  // namespace verbatim::test
