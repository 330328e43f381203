// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A peer that executes the orders of a test, in this process or in a separate one; and the
/// side that the tests watch.
///
/// The peer makes requests (send, write, read), and the owner of the other side decides when to
/// look. So the same test shows what a message does to memory and events before anyone polls.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/child_process.hpp"
#include "conformance/peer_session.hpp"
#include "support/raw_verbs.hpp"

namespace verbatim::test {

enum class Place : std::uint8_t { this_process, other_process };

/// One request. A plain value, because it travels as bytes.
struct Order {
  enum class Kind : std::uint8_t { send, write, read, fetch_add };
  Kind kind = Kind::send;
  std::uint8_t queue_pair = 0;  ///< Which of the peer's queue pairs.
  std::byte fill{};             ///< The value of every byte sent.
  bool unwatched = false;       ///< Posted, but not polled.
  std::uint8_t before = 0;      ///< How many sends of 8 bytes go before it, without a pause.
  std::uint32_t bytes = 0;
  raw::Piece target{};  ///< Of writes, reads and atomics.
};

/// The result of an order.
struct Outcome {
  std::uint32_t status = ~0u;  ///< ibv_wc_status, or all ones if nothing came in time.
  std::uint64_t word = 0;      ///< The first bytes that came back.
  bool uniform = false;        ///< Whether all bytes that came back are equal.
};

class RawPeer {
 public:
  virtual ~RawPeer() = default;
  [[nodiscard]] virtual std::vector<raw::Address> addresses() const = 0;
  /// Connects to those of the other side, in order. Returns when all can receive.
  virtual void connect(std::span<const raw::Address> others) = 0;
  /// Posts one signalled request and waits for its completion, unless the order says otherwise.
  [[nodiscard]] virtual Outcome execute(const Order& order) = 0;
};
[[nodiscard]] std::unique_ptr<RawPeer> make_raw_peer(Place place, ibv_qp_type type,
                                                     unsigned queue_pairs);

/// The child's part: executes orders until the end order.
[[nodiscard]] int play_raw_peer(std::uint16_t port, const std::string& type,
                                const std::string& queue_pairs);

struct WatchedOptions {
  Place peer = Place::this_process;
  ibv_qp_type type = IBV_QPT_RC;
  unsigned queue_pairs = 1;
  bool shared = false;    ///< Receives come from a shared queue.
  bool connected = true;  ///< Otherwise the test changes the states itself.
  int depth = 256;        ///< Of the one completion queue.
};

/// The side that a test watches, and its peer.
struct Watched {
  explicit Watched(const WatchedOptions& options = {});

  /// Memory for receives and for the peer's requests; registered until the test ends the
  /// registration.
  [[nodiscard]] raw::Owned<ibv_mr> expose(std::span<std::byte> bytes) const {
    return raw::region(domain.get(), bytes);
  }
  [[nodiscard]] ibv_qp* queue_pair(std::size_t i = 0) const { return queue_pairs[i].get(); }

  raw::Owned<ibv_context> context = raw::open();
  raw::Owned<ibv_pd> domain = raw::domain(context.get());
  raw::Owned<ibv_comp_channel> channel = raw::channel(context.get());
  raw::Owned<ibv_cq> queue;
  raw::Owned<ibv_srq> shared;
  std::vector<raw::Owned<ibv_qp>> queue_pairs;
  std::unique_ptr<RawPeer> peer;
};

}  // namespace verbatim::test
