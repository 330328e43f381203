// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What all barriers of one rank share: channels, slots, and how many notices went each way.
///
/// Ownership: who makes the group owns it, and the channels; the channels go first, or are ended.
///            A barrier whose group is gone is `closed`.
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

/// A cache line for each rank: what one writes disturbs no other.
inline constexpr std::size_t kSlotBytes = 64;

struct GroupPeer {
  Channel* channel = nullptr;  ///< Null: not connected.
  RemoteMemoryRegion slots{};  ///< All that the peer has; ours is at kSlotBytes * our rank.
  std::uint64_t sent = 0;      ///< Notices to it, of all barriers.
  std::uint64_t awaited = 0;   ///< Notices of it that were waited for.
  bool out_of_step = false;    ///< A barrier with it failed: the counts mean nothing any more.
};

/// Outlives the group, for barriers that do so.
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

  /// After a regroup, before anybody is told to go on: barriers of before are `stale`.
  void begin_generation(std::uint32_t number);

  const Rank rank;
  const Rank world;
  std::uint32_t generation = 1;
  std::vector<Member> members{};  ///< By rank.
  std::vector<GroupPeer> peers;   ///< By rank.
  SharedRegion slots;             ///< Slot p is written by rank p only.
  Buffer outgoing;                ///< What the slots of the others are to hold.
  Reactor* reactor;
  SessionView* session = nullptr;  ///< Null: nobody tells of losses.
  bool oversubscribed = false;     ///< A host has more ranks than processors: nobody spins.
  std::chrono::nanoseconds timeout = std::chrono::seconds{10};  ///< Of calls without a deadline.
  std::chrono::nanoseconds detect = std::chrono::seconds{5};    ///< The session's.

  // Of the barriers.
  const std::shared_ptr<CompletionCore> core;  ///< Of the reactor.
  const std::shared_ptr<GroupLife> life;
  BarrierState* open = nullptr;  ///< Those that are not over, in a list.
  bool is_out_of_step = false;   ///< Some of the peers are,
  Error why_out_of_step{};       ///< because the first barrier that failed did so with this.
};

}  // namespace verbatim::detail
