// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One process of a job: its rank, a channel to each peer, and what all of them do together.
///
///     auto node = VERBATIM_TRY(Node::join(domain));                    // under `verbatim run -n
///     4` auto regions = VERBATIM_TRY(node.exchange(region.remote()));      // everybody's, by rank
///     VERBATIM_TRY(node[next].write(region.gather(), regions[next]));
///     VERBATIM_TRY(node.barrier());
///     VERBATIM_TRY(node.leave());
///
/// A rank has one session with the job's coordinator, which decides who is there. When a rank dies,
/// every other is told which one: calls of the group fail with `peer_lost` and the rank, and so do
/// waits on the channel to it; the other channels go on. A rank that left in good order is
/// `peer_closed`. regroup() makes a group of the survivors, and of processes that were started
/// again with the rank of a lost one.
///
/// All channels are on one Reactor: one completion queue, one descriptor. A default depth of 16
/// keeps a connection small.
///
/// Ownership: move-only. The destructor does not wait for the others: to them this rank is lost,
///            unless it left.
/// Threads:   one at a time, the same for its channels and barriers.
/// Fork:      it belongs to the process that joined.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/multi/multi_channel.hpp"
#include "verbatim/network/barrier.hpp"
#include "verbatim/network/exchanger.hpp"
#include "verbatim/network/identity.hpp"
#include "verbatim/reactor/reactor.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim {

namespace detail {
struct NodeState;
}

/// Whom a rank connects to when it joins. All ranks of a job choose the same.
enum class Connect : std::uint8_t {
  automatic,  ///< All up to 64 ranks, else the barrier's partners.
  all,
  partners,  ///< Those that barrier() notifies or waits for.
  none,
};

struct NodeOptions {
  /// Of every channel. Depths that are not given are 16.
  ChannelOptions channel{};
  Connect connect = Connect::automatic;
  BarrierAlgorithm barrier = BarrierAlgorithm::automatic;  ///< Of barrier(). The same everywhere.
  /// Until everybody has joined and is connected.
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};
  /// A rank that is silent for so long is lost.
  std::chrono::nanoseconds detect = std::chrono::seconds{5};
};

class Node {
 public:
  /// Who we are is found out: from the environment that `verbatim run` makes, else from PMIx
  /// (mpirun, srun). Neither: `not_found`, with what was looked for.
  [[nodiscard]] static Result<Node> join(const ProtectionDomain& domain,
                                         const NodeOptions& options = {});
  /// Returns when everybody has joined, and every peer that we are connected to can receive.
  [[nodiscard]] static Result<Node> join(const ProtectionDomain& domain, const Identity& identity,
                                         const NodeOptions& options = {});

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank world() const noexcept;
  /// Grows with each regroup().
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// By rank; those that regroup() went on without are not `present`.
  [[nodiscard]] std::span<const Member> members() const noexcept;

  /// The channel to a peer that is connected; any other rank is a programming error: see find().
  [[nodiscard]] Channel& operator[](LocatedIndex rank) const;
  /// `not_ready`: not connected, call connect(); `not_found`: there is no such rank, or it is ours.
  [[nodiscard]] Result<Channel*> find(Rank rank) const noexcept;
  /// Bulk operations; the index of a peer is its rank.
  [[nodiscard]] MultiChannel& peers() const noexcept;
  [[nodiscard]] Reactor& reactor() const noexcept;
  /// Connects to these, too; each of them has to call connect() with our rank. Those that are
  /// connected already are passed over.
  [[nodiscard]] Result<void> connect(std::span<const Rank> ranks, Timeout limit = kNodeTimeout);

  /// Collective: what each rank gave, by rank. Of ranks that are not present nothing.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> exchange(
      std::span<const std::byte> record, Timeout limit = kNodeTimeout);
  template <RemoteLayout T>
  [[nodiscard]] Result<std::vector<T>> exchange(const T& record, Timeout limit = kNodeTimeout) {
    return session().exchange(record, limit);
  }

  /// Until all that are present have come: see barrier.hpp.
  [[nodiscard]] BarrierResult barrier(Deadline deadline = {}, BarrierOptions options = {}) const;
  /// Of these ranks: sorted, each once, ours among them. Made without talking to anybody.
  [[nodiscard]] Result<Barrier> make_barrier(
      std::span<const Rank> ranks, BarrierAlgorithm algorithm = BarrierAlgorithm::automatic) const;

  /// Who has gone since the last regroup(), in the order of the coordinator's verdicts.
  [[nodiscard]] std::vector<Departure> departed() const;
  /// Collective among the survivors: channels to those who have gone are proven ended, and the next
  /// generation begins, with processes that took the rank of a lost one, if any wait. Ranks keep
  /// their numbers. Barriers made before are `stale`. Operations on their way to survivors are
  /// waited for.
  [[nodiscard]] Result<void> regroup(Timeout limit = kNodeTimeout);

  /// In good order: our sends come to their end, then everybody's do. Nothing can be sent then.
  [[nodiscard]] Result<void> leave(Timeout limit = kNodeTimeout);

  /// Of the session: see exchanger.hpp.
  [[nodiscard]] Exchanger& session() const noexcept;

  Node(Node&&) noexcept;
  Node& operator=(Node&&) noexcept;
  ~Node();

 private:
  static constexpr Timeout kNodeTimeout = std::chrono::seconds{30};
  explicit Node(std::unique_ptr<detail::NodeState> state) noexcept;
  std::unique_ptr<detail::NodeState> state_;
};

}  // namespace verbatim
