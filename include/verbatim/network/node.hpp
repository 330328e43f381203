// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One process of a job: its rank, a channel to each peer, and what all of them do together.
///
///     auto node = VERBATIM_TRY(Node::join(domain));           // under `verbatim run -n 4`
///     auto regions = VERBATIM_TRY(node.exchange(shared.remote()));  // of all ranks, by rank
///     VERBATIM_TRY(node[next].write(buffer.gather(), regions[next]));
///     VERBATIM_TRY(node.barrier());
///     VERBATIM_TRY(node.leave());
///
/// A rank has one session with the job's coordinator, which decides who is there. When a rank dies,
/// every other rank learns which one: group calls fail with `peer_lost` and the rank, and so do
/// waits on the channel to it. The other channels continue. A rank that left properly is
/// `peer_closed`. regroup() makes a group of the survivors and of processes that were restarted
/// with the rank of a lost one.
///
/// All channels are on one Reactor: one completion queue, one descriptor. A default depth of 16
/// keeps a connection small.
///
/// Ownership: move-only. The destructor does not wait for the others: unless this rank left, they
/// see
///            it as lost.
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

/// Which ranks a rank connects to when it joins. All ranks of a job must choose the same.
enum class Connect : std::uint8_t {
  automatic,  ///< All in jobs of up to 64 ranks, else the barrier's partners.
  all,
  partners,  ///< Those that barrier() notifies or waits for.
  none,
};

struct NodeOptions {
  /// For every channel. Depths that are not given are 16.
  ChannelOptions channel{};
  Connect connect = Connect::automatic;
  BarrierAlgorithm barrier = BarrierAlgorithm::automatic;  ///< For barrier(). The same everywhere.
  /// Until all ranks have joined and are connected.
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};
  /// A rank that is silent for this long is lost.
  std::chrono::nanoseconds detect = std::chrono::seconds{5};
};

class Node {
 public:
  /// Finds its identity in the environment that `verbatim run` sets, or else through PMIx (mpirun,
  /// srun). If there is neither: `not_found`, with what was looked for.
  [[nodiscard]] static Result<Node> join(const ProtectionDomain& domain,
                                         const NodeOptions& options = {});
  /// Returns when all ranks have joined, and every peer that this rank is connected to can receive.
  [[nodiscard]] static Result<Node> join(const ProtectionDomain& domain, const Identity& identity,
                                         const NodeOptions& options = {});

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank world() const noexcept;
  /// Increases with each regroup().
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// By rank; those that regroup() left behind are not `present`.
  [[nodiscard]] std::span<const Member> members() const noexcept;

  /// The channel to a connected peer; any other rank is a programming error: see find().
  [[nodiscard]] Channel& operator[](LocatedIndex rank) const;
  /// `not_ready`: not connected, call connect(); `not_found`: no such rank, or this rank itself.
  [[nodiscard]] Result<Channel*> find(Rank rank) const noexcept;
  /// Bulk operations; the index of a peer is its rank.
  [[nodiscard]] MultiChannel& peers() const noexcept;
  [[nodiscard]] Reactor& reactor() const noexcept;
  /// Connects to these, too; each of them must call connect() with this rank. Ranks that are
  /// already connected are skipped.
  [[nodiscard]] Result<void> connect(std::span<const Rank> ranks, Timeout limit = kNodeTimeout);

  /// Collective: what each rank gave, by rank; empty for ranks that are not present.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> exchange(
      std::span<const std::byte> record, Timeout limit = kNodeTimeout);
  template <RemoteLayout T>
  [[nodiscard]] Result<std::vector<T>> exchange(const T& record, Timeout limit = kNodeTimeout) {
    return session().exchange(record, limit);
  }

  /// Waits until all ranks that are present have come: see barrier.hpp.
  [[nodiscard]] BarrierResult barrier(Deadline deadline = {}, BarrierOptions options = {}) const;
  /// A barrier of these ranks: sorted, without duplicates, including this one. Sends no message.
  [[nodiscard]] Result<Barrier> make_barrier(
      std::span<const Rank> ranks, BarrierAlgorithm algorithm = BarrierAlgorithm::automatic) const;

  /// Who has gone since the last regroup(), in the order of the coordinator's decisions.
  [[nodiscard]] std::vector<Departure> departed() const;
  /// Collective among the survivors. Proves that channels to the departed ranks have ended, and
  /// begins the next generation, with processes that took the rank of a lost one, if any wait.
  /// Ranks keep their numbers. Older barriers are `stale`. Waits for operations in flight to
  /// survivors.
  [[nodiscard]] Result<void> regroup(Timeout limit = kNodeTimeout);

  /// Leaves properly: waits until this rank's sends are over, then until everyone's are. Nothing
  /// can be sent after that.
  [[nodiscard]] Result<void> leave(Timeout limit = kNodeTimeout);

  /// The session: see exchanger.hpp.
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
