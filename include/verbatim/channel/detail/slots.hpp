// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Slots, queues, and the straight path of every operation: post, and "it has arrived".
///
/// A completion queue has a slab of slots, one for each request that its channels can hold. A
/// slot's id is the request's wr_id, so a completion finds its slot by a mask; one poll fills the
/// slots of everybody. The free list of a queue *is* its credit: an empty one is `would_block`, and
/// a result that nobody has taken keeps its slot.
///
/// Only what must be inline is here; the rest is in src/channel. Figures are instructions per
/// operation, g++ / clang, by `./bench overhead`.
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
// generation would wrap within a minute, 40 last for hours.
inline constexpr std::uint64_t kIndexBits = 24;
inline constexpr std::uint64_t kGeneration = std::uint64_t{1} << kIndexBits;
/// No slot has this bit: the handle of a post that was refused, whose error is parked.
inline constexpr std::uint64_t kRefused = std::uint64_t{1} << (kIndexBits - 1);
inline constexpr std::uint32_t kMaxSlots = 1u << (kIndexBits - 1);
inline constexpr int kPollBatch = 16;

enum class SlotState : std::uint8_t {
  free,
  chained,     ///< Inside a batch, whose last request stands for it; also when it is free again.
  flying,      ///< The device has it; a handle will take the result.
  detached,    ///< The device has it; a scope only counts it.
  orphaned,    ///< The device has it; the handle was dropped, and the slot owns the buffer.
  awaited,     ///< The device has it; `waiter` is woken when it is over.
  noticed,     ///< As awaited, and its channel is stepped then.
  batch,       ///< The device has it; the last of a batch: `next` closes the ring of its slots.
  batch_done,  ///< As done, of a batch.
  done,        ///< Completed; the result was not taken yet.
  parked,      ///< As done, but the channel is over: it is taken on the cold path.
  shared,      ///< The device has it; whose it is, the completion tells.
};

struct OperationQueue;
struct ChannelState;
struct ScopeState;
enum class Memory : std::uint8_t;
extern struct Wakeups no_wakeups;  ///< Of a channel that is on no Reactor.

struct alignas(64) Slot {
  std::uint64_t id = 0;
  Slot* next = nullptr;             ///< In the free list, or in a batch.
  OperationQueue* queue = nullptr;  ///< Of whom it was claimed for.
  ScopeState* scope = nullptr;      ///< Which count a scoped operation lowers.
  std::source_location where{};     ///< The line that posted a scoped operation.
  SlotState state = SlotState::free;
  bool takes_receive = false;  ///< Of the peer, before it is over.
  std::uint32_t filed = 0;     ///< In which round of ChannelState::poll.
  Completion completion;       ///< When done. Not a failure while the slot is free.
  // Of an awaited one: see detail/waiters.hpp.
  std::uintptr_t waiter = 0;   ///< A coroutine, or a Waiter and 1. 0: nobody is to be woken.
  Slot* ready_next = nullptr;  ///< In the list of those to be woken; null: not in it.
  std::uint64_t deadline = 0;  ///< Of the steady clock. When it is over: its id.
  void* tag = nullptr;         ///< For a Waiter of many.
  [[no_unique_address]] dma::Flight flight{};
};
static_assert(dma::kModelled || sizeof(Slot) == 128);

struct OperationQueue {
  Slot* free = nullptr;  ///< Empty too when the channel is over: the cold path sees why.
  ChannelState* channel = nullptr;
  Slot* first = nullptr;  ///< Its part of the slab: `count` slots, then the marker's.
  std::uint32_t count = 0;
  std::uint64_t patience = 0;  ///< How long an awaited one may take, in nanoseconds.
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

/// Where refused and empty handles point: no handle has its id, so the straight path needs no test
/// for them. Of no channel, because such a handle may outlive its own.
inline constinit Slot no_slot{};

/// A fresh operation, in two registers. The id of a refused one tells the code of its error.
struct Ticket {
  Slot* slot;
  std::uint64_t id;
  [[nodiscard]] bool refused() const noexcept { return (id & kRefused) != 0; }
};

/// Who posts, for whom, and where.
struct Post {
  SlotState state;
  std::source_location where;
  ScopeState* scope = nullptr;     ///< Of a scoped operation.
  std::uint32_t* count = nullptr;  ///< The scope's counter of this kind.
};

// ---- The channel --------------------------------------------------------------------------------

/// What posts and the straight half of waits touch. It stays where it is: handles refer to it. The
/// rest of a channel is in src/channel/channel_state.hpp.
struct ChannelCore {
  constexpr ChannelCore() noexcept = default;
  ChannelCore(const char* send_name, const char* receive_name) noexcept
      : sends(send_name), receives(receive_name) {}

  OperationQueue sends{};
  OperationQueue receives{};
  // What a post is held against; from an interrupt on nothing fits, so that one compare asks both.
  std::atomic<std::uint32_t> end_of_message{0};   ///< Messages are shorter.
  std::atomic<std::uint32_t> end_of_elements{0};  ///< Receives have fewer elements.
  std::uint32_t open_scopes = 0;
  ibv_qp* raw = nullptr;
  // Copies of what the completion queue's core has.
  ibv_cq* cq = nullptr;
  Slot* slots = nullptr;
  std::uint64_t mask = 0;
  ibv_send_wr* batch_requests = nullptr;    ///< As many as `sends` has slots, chained for ever.
  ibv_recv_wr* receive_requests = nullptr;  ///< The same of `receives`.
  PostLimits limits{};                      ///< From connect() on.
  Wakeups* wakeups = &no_wakeups;           ///< Of the Reactor that it is on.
  std::uint64_t next_look = UINT64_MAX;     ///< When the deadlines of awaited ones are looked at.
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

  /// The straight path of a wait: one poll brings exactly the awaited completion.
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
  /// The same, or it lies in the slot already.
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
  /// `rest`: how many found no slot, of a batch that is not empty.
  VERBATIM_COLD Ticket refuse_batch(OperationQueue& queue, std::size_t rest, Post how) noexcept;
  /// Of all requests up to this one, with the slots from `first` to `last`.
  [[nodiscard]] Ticket finish_batch(ibv_send_wr& last_request, Slot& first, Slot& last,
                                    Post how) noexcept;
  /// Of the first `count` of `receive_requests`, with the first slots that are free: what the
  /// device took of them. For the others, why it did not.
  [[nodiscard]] std::pair<std::size_t, Error> finish_receives(std::size_t count, Post how) noexcept;
  VERBATIM_COLD Ticket park_refusal(const Error& error, Post how) noexcept;
  VERBATIM_COLD Ticket device_refused(OperationQueue& queue, Slot& slot, int os_error,
                                      Post how) noexcept;
  /// Of a refused handle, which may outlive its channel. This thread's last ones are known in full.
  VERBATIM_COLD [[nodiscard]] static Error refusal(std::uint64_t id) noexcept;

 private:
  template <class Work>
  VERBATIM_HOT Ticket post_to(OperationQueue& queue, Slot& slot, const Work& work,
                              const Post& how) noexcept {
    const std::uint64_t id = slot.id;
    if ((id & kRefused) != 0) std::unreachable();  // So that who asks the ticket need not: -2 / -2.
    slot.state = how.state;
    slot.takes_receive = takes_receive(work);
    slot.scope = how.scope;
    if (how.scope != nullptr) slot.where = how.where;
    // Before the call, so that less has to survive it: -2 / -2. A refusal takes it back.
    queue.free = slot.next;
    if (how.count != nullptr) ++*how.count;
    if constexpr (dma::kModelled) take_off(queue, slot, work, how.where);
    if (const int failed = hand_over(raw, work, id)) [[unlikely]]
      return device_refused(queue, slot, failed, how);
    return {&slot, id};
  }
};

/// Of a Channel that was moved from: empty free lists, so that a post needs no test, and is told.
extern ChannelCore gone_channel;

}  // namespace verbatim::detail
