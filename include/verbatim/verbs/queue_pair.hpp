// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A queue pair: prepared, then connected. Two types, so none can be used too early.
///
///     prepare(options) -> PreparedQueuePair (INIT) -> connect(peer) -> QueuePair (RTS)
///
/// Posting lies in unsafe.hpp: at this level nothing keeps the memory of a request alive until it
/// has completed.
///
/// Ownership: move-only; keeps its domain and completion queues alive.
/// Threads:   posting, and asking for what does not change, from several at once: the verbs make
///            posting safe on every device (most take a lock of the driver's for it), and each
///            thread's requests keep their order. Preparing, connecting, reset(), destroy(), moving
///            and the destructor are for one thread, while no other uses the queue pair.
///            move_to_error() from any, also while others post.
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

/// What a post is held against.
struct PostLimits : QueuePairLimits {
  /// Messages to the peer are shorter than this. 0: there is no peer, and a datagram must be
  /// addressed; so the check of the length, which is needed anyway, refuses what has no address.
  std::uint32_t end_of_message = 0;
  bool reads = false;  ///< The agreement allows reads.
  bool atomics = false;
};
}  // namespace detail

class PreparedQueuePair;

class QueuePair {
 public:
  /// Creates the queue pair and takes it to INIT, on a port that is ACTIVE. From then on receives
  /// may be posted.
  [[nodiscard]] static Result<PreparedQueuePair> prepare(const QueuePairOptions& options);

  [[nodiscard]] QpNumber number() const noexcept { return QpNumber{raw_->qp_num}; }
  [[nodiscard]] QueuePairType type() const noexcept;
  [[nodiscard]] const QueuePairLimits& limits() const noexcept { return limits_; }
  /// What was agreed with the peer; the default for datagrams.
  [[nodiscard]] const Agreement& agreement() const noexcept;
  [[nodiscard]] const Endpoint& endpoint() const noexcept;
  [[nodiscard]] const ProtectionDomain& domain() const noexcept;

  /// Asks the device. A queue pair that failed says `error` here.
  [[nodiscard]] Result<QueuePairState> query_state() const;
  /// Whether the device delivers the bytes of a write in order (then polling its last byte is
  /// sound); false where it does not say.
  [[nodiscard]] bool writes_in_order() const noexcept;
  /// Events that concern this queue pair or its port, seen since it was prepared. One load.
  [[nodiscard]] EventFlags events() const noexcept;

  /// For datagrams to the queue pair that `peer` describes, over a path that both can use.
  [[nodiscard]] Result<AddressHandle> address_handle(const Endpoint& peer) const;

  /// Every outstanding request completes as flushed; nothing more is sent or received.
  [[nodiscard]] Result<void> move_to_error();
  /// Destroys it now, and says whether the device agreed: if so, it touches no memory on behalf of
  /// this queue pair any more. The destructor does the same and can only log.
  [[nodiscard]] Result<void> destroy();
  /// Takes the queue pair back to the start, with a new sequence number and nonce. Completions
  /// of former requests that were not polled are lost.
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
  detail::PostLimits limits_;  ///< A copy beside raw_: the data path reads both.
  std::unique_ptr<detail::QueuePairObject> state_;
};

/// "RC queue pair 0x000040 on mlx5_0 port 1, to 0x000041".
[[nodiscard]] std::string to_string(const QueuePair& queue_pair);
/// "RC queue pair 0x000040 on mlx5_0 port 1, not connected".
[[nodiscard]] std::string to_string(const PreparedQueuePair& queue_pair);

class PreparedQueuePair {
 public:
  /// What the peer needs; carry it there.
  [[nodiscard]] const Endpoint& endpoint() const noexcept;
  [[nodiscard]] QpNumber number() const noexcept;
  [[nodiscard]] const QueuePairLimits& limits() const noexcept;

  /// Agrees with the peer and goes to RTS. Local only: the peer may not be ready yet. If the
  /// endpoints are incompatible nothing was changed and this object can still be used.
  [[nodiscard]] Result<QueuePair> connect(const Endpoint& peer) &&;
  /// For datagrams, which have no peer: goes to RTS.
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
