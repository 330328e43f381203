// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a prepared or connected queue pair owns, and its state transitions.
#include <memory>

#include "verbatim/verbs/endpoint.hpp"
#include "verbatim/verbs/negotiate.hpp"
#include "verbatim/verbs/queue_pair_options.hpp"
#include "verbatim/verbs/transition.hpp"
#include "verbs/completion_state.hpp"
#include "verbs/domain_state.hpp"
#include "verbs/shared_receive_state.hpp"

namespace verbatim::detail {

/// What a queue pair is created from, behind the handles in its options.
struct QueuePairParents {
  DomainPtr domain;
  std::shared_ptr<CompletionQueueState> send;
  std::shared_ptr<CompletionQueueState> receive;
  std::shared_ptr<SharedReceiveQueueState> shared;  ///< May be null.
};

/// Room in the completion queues, released when destroyed.
class Reservation {
 public:
  static Result<Reservation> make(const std::shared_ptr<CompletionQueueState>& send,
                                  const std::shared_ptr<CompletionQueueState>& receive,
                                  const SharedReceiveQueueState* shared,
                                  const QueuePairLimits& limits);
  Reservation(Reservation&&) noexcept = default;  // The source's pointers become null.
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  /// From now on the queue pair can complete requests.
  void mark_used() noexcept { used_ = true; }
  /// It completes no more, and all its completions were polled.
  void mark_unused() noexcept { used_ = false; }

 private:
  Reservation() = default;
  std::shared_ptr<CompletionQueueState> send_;
  std::shared_ptr<CompletionQueueState> receive_;
  const void* shared_ = nullptr;  ///< The shared receive queue, if it takes the receives.
  std::uint32_t send_entries_ = 0;
  std::uint32_t receive_entries_ = 0;
  bool used_ = false;
};

struct QueuePairObject {
  QueuePairObject(QueuePairOptions chosen, Reservation room, Handle<ibv_qp> handle,
                  QueuePairLimits made);
  ~QueuePairObject();

  [[nodiscard]] static Result<std::unique_ptr<QueuePairObject>> create(
      const QueuePairOptions& options, const QueuePairParents& parents);

  /// ibv_modify_qp, after a check against the table of transitions.
  [[nodiscard]] Result<void> modify(ibv_qp_attr& attributes, unsigned mask, QueuePairState from);
  [[nodiscard]] Result<void> to_init();
  [[nodiscard]] Result<void> to_ready_to_receive();
  [[nodiscard]] Result<void> to_ready_to_send();
  [[nodiscard]] Result<void> to(QueuePairState target);  ///< RESET or ERR.
  [[nodiscard]] Result<QueuePairState> query_state() const;
  /// Describes this queue pair again: nonce and sequence number are new each time.
  [[nodiscard]] Result<void> describe();

  const QueuePairOptions options;  // Keeps domain, completion queues and shared queue alive.
  QueuePairLimits limits;
  Port port;
  std::uint16_t partition_key_index = 0;
  Endpoint endpoint;
  Agreement agreement;
  EventMarks marks{0};
  Reservation reservation;
  Handle<ibv_qp> raw;  // Last, so destroyed first.
};

/// The local half of an endpoint: addresses and limits of a port. (local_endpoint.cpp)
[[nodiscard]] Result<Port> choose_port(const ContextState& context, const RouteOptions& route);
[[nodiscard]] Result<std::vector<Endpoint::CandidateGid>> candidate_gids(
    const ContextState& context, const Port& port, const RouteOptions& route);
struct PartitionChoice {
  PartitionKey key;
  std::uint16_t index;
};
[[nodiscard]] Result<PartitionChoice> choose_partition(const ContextState& context,
                                                       const Port& port, const RouteOptions& route);
[[nodiscard]] std::uint64_t random_nonce() noexcept;

}  // namespace verbatim::detail
