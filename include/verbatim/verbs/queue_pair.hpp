// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A queue pair: prepared, then connected. Two types, so none can be used too early.
///
///     prepare(options) -> PreparedQueuePair (INIT) -> connect(peer) -> QueuePair (RTS)
///
/// Posting is in unsafe.hpp: at this level nothing keeps the memory of a request alive until it has
/// completed.
///
/// Ownership: move-only; keeps its domain and completion queues alive.
/// Threads:   several threads may post, and read what does not change, at once. The verbs make
///            posting safe on every device (most drivers take a lock for it), and each thread's
///            requests keep their order. Preparing, connecting, reset(), destroy(), moving and
///            destruction are for one thread, while no other uses the queue pair. Any thread may
///            call move_to_error(), also while others post.
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/endpoint.hpp"
#include "verbatim/verbs/events.hpp"
#include "verbatim/verbs/negotiate.hpp"
#include "verbatim/verbs/queue_pair_options.hpp"
#include "verbatim/verbs/transition.hpp"

namespace verbatim {

namespace detail {
struct Raw;
struct QueuePairObject;

/// The limits that a post is checked against.
struct PostLimits : QueuePairLimits {
  /// Messages to the peer are shorter than this. 0 means that there is no peer and a datagram must
  /// be addressed. The length check, which is needed anyway, then refuses a message without an
  /// address.
  std::uint32_t end_of_message = 0;
  bool reads = false;  ///< The agreement allows reads.
  bool atomics = false;
};
}  // namespace detail

class PreparedQueuePair;

class QueuePair {
 public:
  /// Creates the queue pair and moves it to INIT, on a port that is ACTIVE. Receives may be posted
  /// from then on.
  [[nodiscard]] static Result<PreparedQueuePair> prepare(const QueuePairOptions& options);

  [[nodiscard]] QpNumber number() const noexcept { return QpNumber{raw_->qp_num}; }
  [[nodiscard]] QueuePairType type() const noexcept;
  [[nodiscard]] const QueuePairLimits& limits() const noexcept { return limits_; }
  /// What was agreed with the peer; default values for datagrams.
  [[nodiscard]] const Agreement& agreement() const noexcept;
  [[nodiscard]] const Endpoint& endpoint() const noexcept;
  [[nodiscard]] const ProtectionDomain& domain() const noexcept;

  /// Queries the device. A queue pair that failed returns `error` here.
  [[nodiscard]] Result<QueuePairState> query_state() const;
  /// Whether the device delivers the bytes of a write in order, so that polling its last byte is
  /// valid; false if the device does not say.
  [[nodiscard]] bool writes_in_order() const noexcept;
  /// Events for this queue pair or its port since it was prepared. One load.
  [[nodiscard]] EventFlags events() const noexcept;

  /// For datagrams to the queue pair that `peer` describes, over a path that both sides can use.
  [[nodiscard]] Result<AddressHandle> address_handle(const Endpoint& peer) const;

  /// Flushes every outstanding request; nothing more is sent or received.
  [[nodiscard]] Result<void> move_to_error();
  /// Destroys it now, and returns whether the device agreed. If so, the device touches no more
  /// memory for this queue pair. The destructor does the same, but can only log a failure.
  [[nodiscard]] Result<void> destroy();
  /// Returns the queue pair to the prepared state, with a new sequence number and nonce.
  /// Completions of earlier requests that were not polled are lost.
  [[nodiscard]] Result<PreparedQueuePair> reset() &&;

  QueuePair(QueuePair&&) noexcept;
  QueuePair& operator=(QueuePair&&) noexcept;
  ~QueuePair();

 private:
  friend class PreparedQueuePair;
  friend struct detail::Raw;
  friend std::string to_string(const QueuePair& queue_pair);
  explicit QueuePair(std::unique_ptr<detail::QueuePairObject> state) noexcept;

  ibv_qp* raw_;
  detail::PostLimits limits_;  ///< A copy, next to raw_: the data path reads both.
  std::unique_ptr<detail::QueuePairObject> state_;
};

/// "RC queue pair 0x000040 on mlx5_0 port 1, to 0x000041".
[[nodiscard]] std::string to_string(const QueuePair& queue_pair);
/// "RC queue pair 0x000040 on mlx5_0 port 1, not connected".
[[nodiscard]] std::string to_string(const PreparedQueuePair& queue_pair);

class PreparedQueuePair {
 public:
  /// What the peer needs; carry it to the peer.
  [[nodiscard]] const Endpoint& endpoint() const noexcept;
  [[nodiscard]] QpNumber number() const noexcept;
  [[nodiscard]] const QueuePairLimits& limits() const noexcept;

  /// Agrees with the peer and moves to RTS. Local only: the peer may not be ready yet. If the
  /// endpoints are incompatible, nothing changes and this object can still be used.
  [[nodiscard]] Result<QueuePair> connect(const Endpoint& peer) &&;
  /// For datagrams, which have no peer: moves to RTS.
  [[nodiscard]] Result<QueuePair> activate() &&;
  /// See QueuePair::destroy().
  [[nodiscard]] Result<void> destroy();

  PreparedQueuePair(PreparedQueuePair&&) noexcept;
  PreparedQueuePair& operator=(PreparedQueuePair&&) noexcept;
  ~PreparedQueuePair();

 private:
  friend class QueuePair;
  friend struct detail::Raw;
  friend std::string to_string(const PreparedQueuePair& queue_pair);
  explicit PreparedQueuePair(std::unique_ptr<detail::QueuePairObject> state) noexcept;
  std::unique_ptr<detail::QueuePairObject> state_;
};

}  // namespace verbatim
