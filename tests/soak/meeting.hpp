// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A client at a server: how they find each other, what they do, how they part.
///
/// A client connects to a socket of the server's name and says what it wants (Hello). Then both
/// talk without end. A client that goes in order says so: both stop, complete what is in flight,
/// and neither connection may have broken. One that is killed, or just goes, leaves the server with
/// a connection that must break soon, in the way of a peer that is gone.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "survival/conversation.hpp"
#include "survival/datagrams.hpp"

namespace verbatim::test {

/// What a client wants.
struct Hello {
  std::uint64_t seed;
  MemoryKind memory;
  std::uint8_t shared;     ///< 1: both take their receives from a shared queue.
  std::uint8_t datagrams;  ///< 1: datagrams, too.
  std::uint8_t unused[5] = {};
};

/// A socket that is listened to under a name that only this host knows.
class NamedListener {
 public:
  explicit NamedListener(const std::string& name);
  NamedListener(const NamedListener&) = delete;
  NamedListener& operator=(const NamedListener&) = delete;
  ~NamedListener();
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// The link to a client, if one has come.
  [[nodiscard]] std::shared_ptr<Link> accept() const;

 private:
  int fd_;
};

[[nodiscard]] std::shared_ptr<Link> connect_to(const std::string& name);

class Meeting {
 public:
  /// Both sides make one, from their ends of a link. Throws when the other side has gone.
  Meeting(const ProtectionDomain& domain, const std::shared_ptr<Link>& to, const Hello& hello,
          SharedSink* sink);

  /// Takes what has come, posts what there is room for, and checks it. How much had come.
  std::size_t step();
  /// Messages and datagrams that came and were right.
  [[nodiscard]] std::uint64_t received() const noexcept;

  std::shared_ptr<Link> link;
  Conversation talk;
  std::optional<DatagramTalk> datagrams;
};

/// Whether the other side of a link has closed it, or has died.
[[nodiscard]] bool has_gone(const Link& link);
/// Whether it has said something.
[[nodiscard]] bool has_spoken(const Link& link);

/// Words: the seed, and the names of the servers. Ends by itself after some messages.
[[nodiscard]] int play_client(const std::vector<std::string>& words);
/// Words: its name; "buffer" or "plain": the memory of its shared receives. Said: r (ready), i (no
/// client is left). Heard: m (say i when that is so), q (quit).
[[nodiscard]] int play_server(const std::vector<std::string>& words);

}  // namespace verbatim::test
