// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A client at a server: how they find each other, what they do, how they part.
///
/// A client connects to a socket with the server's name and says what it wants (Hello). Then both
/// talk without end. A client that leaves in order says so: both stop and complete what is in
/// flight, and neither connection may have broken. A client that is killed, or leaves without a
/// goodbye, leaves the server with a connection that must soon break like that of a peer that is
/// gone.
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

/// A listening socket with a name that only this host knows.
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
  /// Both sides create one, from their ends of a link. Throws if the other side has gone.
  Meeting(const ProtectionDomain& domain, const std::shared_ptr<Link>& to, const Hello& hello,
          SharedSink* sink);

  /// Takes and checks what has come, and posts what there is room for. Returns how much had come.
  std::size_t step();
  /// How many messages and datagrams came and were right.
  [[nodiscard]] std::uint64_t received() const noexcept;

  std::shared_ptr<Link> link;
  Conversation talk;
  std::optional<DatagramTalk> datagrams;
};

/// Between two steps: lets others use the processor. With a yield in its place, on a busy machine
/// where all the others only yield, too, clients stood still for up to 48 s.
void give_way();
/// Whether the other side of a link has closed it, or has died.
[[nodiscard]] bool has_gone(const Link& link);
/// Whether the other side has sent something.
[[nodiscard]] bool has_spoken(const Link& link);

/// Arguments: the seed, and the names of the servers. Ends by itself after some messages.
[[nodiscard]] int play_client(const std::vector<std::string>& words);
/// Arguments: its name; "buffer" or "plain": the memory of its shared receives. Sends: r (ready), i
/// (no client is left). Receives: m (send i when that is so), q (quit).
[[nodiscard]] int play_server(const std::vector<std::string>& words);

}  // namespace verbatim::test
