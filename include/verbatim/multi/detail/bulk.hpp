// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Blocking bulk calls: they post everything, to all peers, before they wait.
///
/// One scope over all channels counts the work of one call. Only what must be inline is here; the
/// rest is in src/multi/bulk.cpp.
#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/scope.hpp"
#include "verbatim/multi/bulk_error.hpp"
#include "verbatim/multi/detail/peer_list.hpp"

namespace verbatim::detail {

/// One call; `since`: when it first had to wait.
struct BulkCall {
  const PeerTable& table;
  PeerList list;
  Deadline deadline;
  std::source_location where;
  std::span<Completion> out{};  ///< Where results go; a result that is still missing is not ok().
  ScopeState scope{{}, false, true};
  std::chrono::steady_clock::time_point since{};

  [[nodiscard]] ChannelCore& core(std::size_t index) const noexcept {
    return core_of(table, list[index]);
  }
};

/// Takes the completions that are there.
void look_for(BulkCall& call) noexcept;
/// For a gathered operation that is still missing, or failed.
VERBATIM_COLD void await_gathered(BulkCall& call, std::size_t index) noexcept;
/// Waits for what is left, ends the channels that are late, and returns the failures.
VERBATIM_COLD [[nodiscard]] BulkResult finish_bulk(BulkCall& call) noexcept;
/// The list contains this peer: nothing was posted.
VERBATIM_COLD [[nodiscard]] BulkResult refuse_bulk(const PeerTable& table, const char* operation,
                                                   PeerIndex peer, std::source_location where);

/// Work that found no room. The work of one peer stays in order.
class Postponed {
 public:
  Postponed(BulkCall& call, OperationQueue ChannelCore::* queue) noexcept
      : call_(call), queue_(queue) {}

  /// Whether work for the same peer is here already.
  [[nodiscard]] bool has_peer_of(std::size_t index) const noexcept;
  void add(std::size_t index) { indices_.push_back(index); }
  /// Adds it if it was refused for lack of room. Any other refusal is reported at the end.
  void add_if_full(std::size_t index, Ticket refused) noexcept;
  /// Waits until a retry makes sense, and removes and returns the work to retry. If the time runs
  /// out, the channels of the remaining peers end, and the result is empty.
  [[nodiscard]] std::vector<std::size_t> await_room() noexcept;

 private:
  [[nodiscard]] bool has_news() noexcept;
  void give_up() noexcept;

  BulkCall& call_;
  OperationQueue ChannelCore::* queue_;
  std::vector<std::size_t> indices_{};
};

/// Posts one operation; only the call itself waits for its end.
template <class Items>
struct Detached {
  Items items;
  const std::unique_ptr<Channel>* peers;  ///< From the table. By value, like `where`: -3 / -3.
  std::source_location where;
  VERBATIM_HOT Ticket operator()(BulkCall& call, std::size_t index) const noexcept {
    return ChannelAccess::unasked(*peers[items.peer(index)])
        .post(items.work(index), {SlotState::detached, where, &call.scope, &call.scope.detached});
  }
};
/// A result that is still missing.
[[nodiscard]] inline Completion unanswered(std::uint64_t id) noexcept {
  ibv_wc wc{};
  wc.wr_id = id;
  wc.status = IBV_WC_WR_FLUSH_ERR;
  return std::bit_cast<Completion>(wc);
}
/// Posts one whose result is wanted.
template <class Items>
struct Gathered {
  Items items;
  VERBATIM_HOT Ticket operator()(BulkCall& call, std::size_t index) const noexcept {
    const Ticket ticket = core_of(call.table, items.peer(index))
                              .post(items.work(index), {SlotState::flying, call.where, &call.scope,
                                                        &call.scope.handles});
    call.out[index] = unanswered(ticket.id);
    return ticket;
  }
};

/// From `index` on, which was refused.
template <class Post>
VERBATIM_COLD void post_rest(BulkCall& call, const Post& post, std::size_t index,
                             Ticket refused) noexcept {
  Postponed postponed{call, kQueueOf<typename decltype(Post::items)::Work>};
  const auto try_post = [&](std::size_t next) {
    if (postponed.has_peer_of(next)) return postponed.add(next);
    if (const Ticket ticket = post(call, next); ticket.refused())
      postponed.add_if_full(next, ticket);
  };
  postponed.add_if_full(index, refused);
  while (++index < call.list.size()) try_post(index);
  for (auto again = postponed.await_room(); !again.empty(); again = postponed.await_room())
    for (const std::size_t next : again) try_post(next);
}

template <class Items>
[[nodiscard]] VERBATIM_HOT std::size_t first_missing(const PeerTable& table,
                                                     const Items& items) noexcept {
  std::size_t index = 0;
  while (index < items.size() && has_peer(table, items.peer(index))) ++index;
  return index;
}

/// All indices have been checked.
template <class Post>
VERBATIM_HOT void post_all(BulkCall& call, const Post& post) noexcept {
  const Post seen_by_nobody = post;  // So that its options fold away: -20 / -23.
  for (std::size_t index = 0; index < seen_by_nobody.items.size(); ++index) {
    const Ticket ticket = seen_by_nobody(call, index);
    if (ticket.refused()) [[unlikely]]
      return post_rest(call, post, index, ticket);
  }
}

/// multicast() and scatter().
template <class Items>
[[nodiscard]] VERBATIM_HOT BulkResult run_bulk(const char* operation, const PeerTable& table,
                                               const Items& items, Deadline deadline,
                                               std::source_location where) noexcept {
  if (const std::size_t missing = first_missing(table, items); missing != items.size()) [[unlikely]]
    return refuse_bulk(table, operation, items.peer(missing), where);
  BulkCall call{.table = table, .list = items.list(), .deadline = deadline, .where = where};
  post_all(call, Detached<Items>{items, table.data(), where});
  if (call.scope.busy()) look_for(call);
  if (!call.scope.busy() && !call.scope.failed) [[likely]]
    return {};
  return finish_bulk(call);
}

template <class Items>
[[nodiscard]] BulkResult gather_bulk(const PeerTable& table, const Items& items,
                                     std::span<Completion> out, Deadline deadline,
                                     std::source_location where) {
  check(out.size() >= items.size(), "gather(): too few places for the results", where);
  if (const std::size_t missing = first_missing(table, items); missing != items.size()) [[unlikely]]
    return refuse_bulk(table, "gather", items.peer(missing), where);
  BulkCall call{.table = table,
                .list = items.list(),
                .deadline = deadline,
                .where = where,
                .out = out.first(items.size())};
  std::ranges::fill(call.out, unanswered(kRefused));
  post_all(call, Gathered<Items>{items});
  if (call.scope.busy()) look_for(call);
  for (std::size_t index = 0; index < items.size(); ++index) {
    Completion& result = call.out[index];
    const auto id = static_cast<std::uint64_t>(result.id());
    ChannelCore& core = call.core(index);
    if (core.arrived(core.slot(id), id, result)) [[likely]]
      --call.scope.handles;
    else if (!result.ok())  // Else it was taken to make room.
      await_gathered(call, index);
  }
  if (!call.scope.busy() && !call.scope.failed) [[likely]]
    return {};
  return finish_bulk(call);
}

}  // namespace verbatim::detail
