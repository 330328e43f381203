// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What all barriers of one rank share: channels, slots, and the number of notices each way.
///
/// Ownership: the creator owns the group and the channels; the channels are destroyed first, or
/// have
///            ended. A barrier whose group is gone is `closed`.
/// Threads:   those of its channels: one at a time.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "network/session_view.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/network/exchanger.hpp"
#include "verbatim/reactor/reactor.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/shared_region.hpp"

namespace verbatim::detail {

class BarrierState;
struct Group;

/// A cache line for each rank, so that writes of different ranks do not disturb each other.
inline constexpr std::size_t kSlotBytes = 64;

struct GroupPeer {
  Channel* channel = nullptr;  ///< Null: not connected.
  RemoteMemoryRegion slots{};  ///< All slots of the peer; ours is at kSlotBytes * our rank.
  std::uint64_t sent = 0;      ///< Notices to it, for all barriers.
  std::uint64_t awaited = 0;   ///< Notices from it that were waited for.
  bool out_of_step = false;    ///< A barrier with it failed: the counts are no longer meaningful.
};

/// Outlives the group, for barriers that do.
struct GroupLife {
  Group* group;
};

struct Group {
  /// Allocates slots and outgoing words. The caller fills members and peers.
  [[nodiscard]] static Result<std::unique_ptr<Group>> create(const ProtectionDomain& domain,
                                                             Reactor& reactor, Rank rank,
                                                             Rank world);
  Group(Reactor& on, Rank own, Rank size, SharedRegion in, Buffer out);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  /// After a regroup, before ranks go on: older barriers become `stale`.
  void begin_generation(std::uint32_t number);

  const Rank rank;
  const Rank world;
  std::uint32_t generation = 1;
  std::vector<Member> members{};  ///< By rank.
  std::vector<GroupPeer> peers;   ///< By rank.
  SharedRegion slots;             ///< Only rank p writes slot p.
  Buffer outgoing;                ///< What the slots at the others should hold.
  Reactor* reactor;
  SessionView* session = nullptr;  ///< Null: nobody reports losses.
  bool oversubscribed = false;     ///< A host has more ranks than processors: do not spin.
  std::chrono::nanoseconds timeout = std::chrono::seconds{10};  ///< For calls without a deadline.
  std::chrono::nanoseconds detect = std::chrono::seconds{5};    ///< The session's.

  // For the barriers.
  const std::shared_ptr<CompletionCore> core;  ///< That of the reactor.
  const std::shared_ptr<GroupLife> life;
  BarrierState* open = nullptr;  ///< A list of those that are not over.
  bool is_out_of_step = false;   ///< Some peers are,
  Error why_out_of_step{};       ///< and this is the error of the first barrier that failed.
};

}  // namespace verbatim::detail
