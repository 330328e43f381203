// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Slots, queues, and the straight path of every operation: post, and "it has arrived".
///
/// A completion queue has a slab of slots, one for each request that its channels can hold. A
/// slot's id is the request's wr_id, so a completion finds its slot with a mask. One poll fills the
/// slots of all channels. The free list of a queue *is* its credit: if it is empty, a post is
/// `would_block`. A result that was not taken keeps its slot.
///
/// Only what must be inline is here; the rest is in src/channel. Figures are instructions per
/// operation, g++ / clang, from `./bench overhead`.
#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/dma_model.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/flight.hpp"
#include "verbatim/channel/detail/one_thread.hpp"
#include "verbatim/verbs/completion.hpp"
#include "verbatim/verbs/detail/encode.hpp"
#include "verbatim/verbs/queue_pair.hpp"

namespace verbatim::detail {

// wr_id = {generation:40, slot:24}. One slot may be used every few nanoseconds: 32 bits of
// generation would wrap within a minute, 40 bits last for hours.
inline constexpr std::uint64_t kIndexBits = 24;
inline constexpr std::uint64_t kGeneration = std::uint64_t{1} << kIndexBits;
/// No slot has this bit. It marks the handle of a refused post, whose error is parked.
inline constexpr std::uint64_t kRefused = std::uint64_t{1} << (kIndexBits - 1);
inline constexpr std::uint32_t kMaxSlots = 1u << (kIndexBits - 1);
inline constexpr int kPollBatch = 16;

enum class SlotState : std::uint8_t {
  free,
  chained,     ///< Inside a batch, represented by its last request; also when it is free again.
  flying,      ///< The device has it; a handle will take the result.
  detached,    ///< The device has it; a scope only counts it.
  orphaned,    ///< The device has it; the handle was dropped, and the slot owns the buffer.
  awaited,     ///< The device has it; `waiter` is woken at its end.
  noticed,     ///< Like awaited, and its channel is stepped then.
  batch,       ///< The device has it; the last of a batch: `next` closes the ring of its slots.
  batch_done,  ///< Like done, for a batch.
  done,        ///< Completed; the result was not taken yet.
  parked,      ///< Like done, but the channel is over: taken on the cold path.
  shared,      ///< The device has it; the completion tells whose it is.
};

struct OperationQueue;
struct ChannelState;
struct ScopeState;
enum class Memory : std::uint8_t;
extern struct Wakeups no_wakeups;  ///< For a channel without a Reactor.

struct alignas(64) Slot {
  std::uint64_t id = 0;
  Slot* next = nullptr;             ///< In the free list, or in a batch.
  OperationQueue* queue = nullptr;  ///< The queue it was claimed for.
  ScopeState* scope = nullptr;      ///< The scope whose count a scoped operation lowers.
  std::source_location where{};     ///< The line that posted a scoped operation.
  SlotState state = SlotState::free;
  bool takes_receive = false;  ///< Of the peer, before it is over.
  std::uint32_t filed = 0;     ///< The round of ChannelState::poll that filed it.
  Completion completion;       ///< Valid when done. Not a failure while the slot is free.
  // For an awaited one: see detail/waiters.hpp.
  std::uintptr_t waiter = 0;   ///< A coroutine, or a Waiter plus 1. 0: wake nobody.
  Slot* ready_next = nullptr;  ///< In the list of slots to wake; null: not in it.
  std::uint64_t deadline = 0;  ///< By the steady clock. When it is over: its id.
  void* tag = nullptr;         ///< For a Waiter with many tags.
  [[no_unique_address]] dma::Flight flight{};
};
static_assert(dma::kModelled || sizeof(Slot) == 128);

struct OperationQueue {
  Slot* free = nullptr;  ///< Also empty when the channel is over: the cold path finds out why.
  ChannelState* channel = nullptr;
  Slot* first = nullptr;  ///< Its part of the slab: `count` slots, then the marker's.
  std::uint32_t count = 0;
  std::uint64_t patience = 0;  ///< How long an awaited operation may take, in nanoseconds.
  [[no_unique_address]] dma::Queue model;

  constexpr OperationQueue() noexcept = default;
  explicit OperationQueue(const char* name) noexcept : model(name) {}

  VERBATIM_HOT void release(Slot& slot) noexcept {
    slot.state = SlotState::free;
    slot.id += kGeneration;  // From now on handles to the operation are stale.
    slot.next = free;
    free = &slot;
  }
};

/// Where refused and empty handles point. No handle has its id, so the straight path needs no test
/// for them. It belongs to no channel, because such a handle may outlive its channel.
inline constinit Slot no_slot{};

/// A fresh operation, in two registers. The id of a refused one contains the code of its error.
struct Ticket {
  Slot* slot;
  std::uint64_t id;
  [[nodiscard]] bool refused() const noexcept { return (id & kRefused) != 0; }
};

/// Who posts, for which scope, and where.
struct Post {
  SlotState state;
  std::source_location where;
  ScopeState* scope = nullptr;     ///< For a scoped operation.
  std::uint32_t* count = nullptr;  ///< The scope's counter for this kind.
};

// ---- The channel --------------------------------------------------------------------------------

/// What posts and the straight half of waits touch. It keeps its address, because handles refer to
/// it. The rest of a channel is in src/channel/channel_state.hpp.
struct ChannelCore {
  constexpr ChannelCore() noexcept = default;
  ChannelCore(const char* send_name, const char* receive_name) noexcept
      : sends(send_name), receives(receive_name) {}

  OperationQueue sends{};
  OperationQueue receives{};
  // The limits for a post. After an interrupt nothing fits, so one compare tests both.
  std::atomic<std::uint32_t> end_of_message{0};   ///< Messages are shorter.
  std::atomic<std::uint32_t> end_of_elements{0};  ///< Receives have fewer elements.
  std::uint32_t open_scopes = 0;
  ibv_qp* raw = nullptr;
  // Copies of what the completion queue's core has.
  ibv_cq* cq = nullptr;
  Slot* slots = nullptr;
  std::uint64_t mask = 0;
  ibv_send_wr* batch_requests = nullptr;    ///< One per slot of `sends`, chained permanently.
  ibv_recv_wr* receive_requests = nullptr;  ///< The same for `receives`.
  PostLimits limits{};                      ///< Valid from connect() on.
  Wakeups* wakeups = &no_wakeups;           ///< Those of its Reactor.
  std::uint64_t next_look = UINT64_MAX;     ///< When to look at the deadlines of awaited ones.
  [[no_unique_address]] OneThread one_thread{};

  [[nodiscard]] Slot& slot(std::uint64_t id) const noexcept { return slots[id & mask]; }

  template <SendWork Work>
  [[nodiscard]] VERBATIM_HOT Ticket post(const Work& work, const Post& how) noexcept {
    [[maybe_unused]] const Entry entry{*this, how.where};
    Slot* const slot = sends.free;
    if (slot == nullptr) [[unlikely]]
      return refuse(sends, how);
    if (!accepts(limits, shape(work, work.options), end_of_message.load(std::memory_order_acquire)))
        [[unlikely]]
      return refuse_send(shape(work, work.options), how);
    return post_to(sends, *slot, work, how);
  }
  template <std::size_t N>
  [[nodiscard]] VERBATIM_HOT Ticket post(const Receive<N>& work, const Post& how) noexcept {
    [[maybe_unused]] const Entry entry{*this, how.where};
    Slot* const slot = receives.free;
    if (slot == nullptr) [[unlikely]]
      return refuse(receives, how);
    if (work.into.size() >= end_of_elements.load(std::memory_order_acquire)) [[unlikely]]
      return refuse_receive(work.into.size(), how);
    return post_to(receives, *slot, work, how);
  }

  /// The straight path of a wait: one poll returns exactly the awaited completion.
  [[nodiscard]] VERBATIM_HOT bool arrived_fresh(Slot& slot, std::uint64_t id,
                                                Completion& out) noexcept {
    [[maybe_unused]] const Entry entry{*this};
    ibv_wc polled[kPollBatch];
    const int count = cq->context->ops.poll_cq(cq, kPollBatch, polled);
    if (count != 1 || polled[0].wr_id != id || polled[0].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (count > 0) file(polled, count);
      return false;
    }
    if constexpr (dma::kModelled) land(slot, polled[0]);
    out = std::bit_cast<Completion>(polled[0]);
    slot.queue->release(slot);
    return true;
  }
  /// The same, or the completion is already in the slot.
  [[nodiscard]] VERBATIM_HOT bool arrived(Slot& slot, std::uint64_t id, Completion& out) noexcept {
    if (slot.id != id) [[unlikely]]
      return false;
    if (slot.state == SlotState::flying && arrived_fresh(slot, id, out)) [[likely]]
      return true;
    if (slot.state != SlotState::done || !slot.completion.ok()) [[unlikely]]
      return false;
    out = slot.completion;
    slot.queue->release(slot);
    return true;
  }

  // The slow halves.
  void file(const ibv_wc* polled, int count) noexcept;
  /// True with `last_result.completion`, false with `last_result.error`.
  [[gnu::noinline]] bool await(Slot& slot, std::uint64_t id, Deadline deadline,
                               Memory memory) noexcept;
  /// Whether a result (of any kind) can be taken without waiting. Polls once.
  [[gnu::noinline]] bool is_ready(const Slot& slot, std::uint64_t id) noexcept;
  bool ready_within(const Slot& slot, std::uint64_t id, Deadline deadline) noexcept;
  VERBATIM_COLD Ticket refuse(OperationQueue& queue, Post how) noexcept;
  VERBATIM_COLD Ticket refuse_send(PostShape shape, Post how) noexcept;
  VERBATIM_COLD Ticket refuse_receive(std::size_t elements, Post how) noexcept;
  /// `rest`: how many found no slot, in a batch that is not empty.
  VERBATIM_COLD Ticket refuse_batch(OperationQueue& queue, std::size_t rest, Post how) noexcept;
  /// Posts all requests up to this one, with the slots from `first` to `last`.
  [[nodiscard]] Ticket finish_batch(ibv_send_wr& last_request, Slot& first, Slot& last,
                                    Post how) noexcept;
  /// Posts the first `count` of `receive_requests`, with the first free slots. Returns how many the
  /// device took, and why it refused the others.
  [[nodiscard]] std::pair<std::size_t, Error> finish_receives(std::size_t count, Post how) noexcept;
  VERBATIM_COLD Ticket park_refusal(const Error& error, Post how) noexcept;
  VERBATIM_COLD Ticket device_refused(OperationQueue& queue, Slot& slot, int os_error,
                                      Post how) noexcept;
  /// For a refused handle, which may outlive its channel. This thread's last ones are complete.
  VERBATIM_COLD [[nodiscard]] static Error refusal(std::uint64_t id) noexcept;

 private:
  template <class Work>
  VERBATIM_HOT Ticket post_to(OperationQueue& queue, Slot& slot, const Work& work,
                              const Post& how) noexcept {
    const std::uint64_t id = slot.id;
    if ((id & kRefused) != 0) std::unreachable();  // So the caller need not check: -2 / -2.
    slot.state = how.state;
    slot.takes_receive = takes_receive(work);
    slot.scope = how.scope;
    if (how.scope != nullptr) slot.where = how.where;
    // Before the call, so that less has to survive it: -2 / -2. A refusal undoes it.
    queue.free = slot.next;
    if (how.count != nullptr) ++*how.count;
    if constexpr (dma::kModelled) take_off(queue, slot, work, how.where);
    if (const int failed = hand_over(raw, work, id)) [[unlikely]]
      return device_refused(queue, slot, failed, how);
    return {&slot, id};
  }
};

/// For a moved-from Channel: its free lists are empty, so a post needs no test and is refused.
extern ChannelCore gone_channel;

}  // namespace verbatim::detail
