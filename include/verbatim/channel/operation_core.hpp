// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The operation core: slots, queues, and the one place where completions arrive.
///
/// A channel has a slab of slots, one for each request that its queues can hold. A slot's id is the
/// request's wr_id, so a completion finds its slot by a mask; one poll of the completion queue
/// fills the slots of everybody. The free list of a queue *is* its credit: an empty one is
/// `would_block`, and a result that nobody has taken keeps its slot.
///
/// Blocking calls, scopes and owned operations are faces of this core (channel.hpp). What is here
/// is the straight path, which must be inline; all else is in src/channel/operation_core.cpp.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/flight.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/completion.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::detail {

// wr_id = {generation:40, slot:24}. The free list is a stack, so one slot may be used every few
// nanoseconds: 32 bits of generation would wrap within a minute, 40 last for hours.
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
  batch,       ///< The device has it; the last of a batch: `next` closes the ring of its slots.
  batch_done,  ///< As done, of a batch.
  done,        ///< Completed; the result was not taken yet.
  parked,      ///< As done, but the channel is over: it is taken on the cold path.
};

struct OperationQueue;
struct ChannelState;

/// What a scope still has to see.
struct Outstanding {
  std::uint32_t handles = 0;
  std::uint32_t detached = 0;
};
struct ScopeState : Outstanding {
  std::unique_ptr<std::vector<Error>> failures{};  ///< Null while nothing has failed.
  [[nodiscard]] bool busy() const noexcept {
    return std::bit_cast<std::uint64_t>(static_cast<const Outstanding&>(*this)) != 0;
  }
};

struct alignas(64) Slot {
  std::uint64_t id = 0;
  Slot* next = nullptr;             ///< In the free list, or in a batch.
  OperationQueue* queue = nullptr;  ///< Never changes.
  ScopeState* scope = nullptr;      ///< Whose count a scoped operation lowers.
  void* waiter = nullptr;           ///< Room for who waits otherwise than by polling.
  SlotState state = SlotState::free;
  Completion completion;  ///< When done. Not a failure while the slot is free.
  [[no_unique_address]] dma::Flight flight{};
};
static_assert(dma::kModelled || sizeof(Slot) == 128);

/// The buffer of a dropped handle, until its completion. Beside the slab: it is rarely needed.
struct Orphan {
  static constexpr std::size_t kBytes = 56;
  alignas(std::max_align_t) std::byte bytes[kBytes];
  void (*destroy)(void*) noexcept;
};

struct OperationQueue {
  Slot* free = nullptr;  ///< Empty too when the channel is over: the cold path sees why.
  ChannelState* channel = nullptr;
  Slot* first = nullptr;  ///< Its part of the slab: `count` slots, then the marker's.
  std::uint32_t count = 0;
  [[no_unique_address]] dma::Queue model;

  explicit OperationQueue(const char* name) noexcept : model(name) {}

  [[nodiscard]] Slot& marker() const noexcept { return first[count]; }
  /// Posts until `would_block`. Counted: nobody needs it on the straight path.
  [[nodiscard]] std::uint32_t credit() const noexcept;
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

/// What the slow half of a wait leaves for the fast half. Not in the channel: taking the last
/// parked result frees that.
struct LastResult {
  Completion completion;
  Error error;
  bool unproven = false;  ///< The device could not be stopped: it may still use the memory.
};
inline constinit thread_local LastResult last_result{};

/// Keeps an object that the device may still use. It is never given back.
VERBATIM_COLD void quarantine(void* kept, std::size_t buffers = 1) noexcept;

class Patience;

/// How another thread interrupts a channel.
struct Interrupt;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// Whether the memory of an operation is the caller's own: then it cannot be kept from being
/// reused when the device cannot be stopped.
enum class Memory : std::uint8_t { owned, borrowed };

/// The half of a Channel that stays where it is: handles and the device's wr_ids refer to it.
struct ChannelState {
  // The straight path reads these.
  OperationQueue send_queue{"channel send"};
  OperationQueue receive_queue{"channel receive"};
  // What a post is held against. From an interrupt on nothing fits any more, so that one compare
  // asks for both.
  std::atomic<std::uint64_t> end_of_message{0};   ///< Messages are shorter.
  std::atomic<std::uint32_t> end_of_elements{0};  ///< Receives have fewer elements.
  ibv_qp* raw = nullptr;
  ibv_cq* cq = nullptr;
  Slot* slots = nullptr;
  std::uint64_t mask = 0;
  std::optional<QueuePair> queue_pair{};  ///< From connect() on.

  // The rest is for the cold path.
  std::atomic<bool> interrupted{false};
  std::uint32_t max_receive_elements = 0;
  ChannelOptions options;
  ProtectionDomain domain;
  CompletionChannel events;
  CompletionQueue completions;
  std::optional<PreparedQueuePair> prepared{};
  std::unique_ptr<Slot[]> slab{};
  std::unique_ptr<Orphan[]> orphans{};
  std::unique_ptr<ibv_send_wr[]> batch_requests{};  ///< Chained for ever.
  std::ptrdiff_t signal_every = 1;                  ///< So many requests of a batch.
  std::optional<Buffer> atomic_result{};
  std::shared_ptr<Interrupt> interrupt{};
  FileDescriptor epoll{};         ///< Of fd(): made when first asked for.
  FileDescriptor async_events{};  ///< Made with it: readable when the device has raised one.
  FileDescriptor link{};  ///< Where Listener or dial() met the peer: close() takes leave on it.
  std::optional<std::stop_callback<std::function<void()>>> stop{};
  /// Room for the failures of a scope, made beforehand.
  std::unique_ptr<std::vector<Error>> spare_failures{};
  std::uint32_t open_scopes = 0;
  std::uint32_t parked = 0;        ///< Results that were not taken when the channel closed.
  std::optional<Error> failure{};  ///< The first failed request, until it ends the channel.
  bool gave_back = false;          ///< The device gave work back unasked: it will take no more.
  std::optional<Error> cause{};    ///< Why posts are refused.
  bool proven = true;              ///< The device has stopped: no DMA can land any more.
  bool destroyed = false;          ///< The queue pair had to be destroyed to prove that.
  bool closed = false;

  ChannelState(ChannelOptions chosen, ProtectionDomain in, CompletionChannel channel,
               CompletionQueue queue);
  ~ChannelState();

  [[nodiscard]] Slot& slot(std::uint64_t id) const noexcept { return slots[id & mask]; }
  [[nodiscard]] Orphan& orphan(const Slot& slot) const noexcept {
    return orphans[static_cast<std::size_t>(&slot - slots)];
  }

  /// `count` is the scope's counter of this kind, raised when the device took the work.
  template <SendWork Work>
  [[nodiscard]] Ticket post(const Work& work, SlotState state, std::source_location where,
                            ScopeState* scope = nullptr, std::uint32_t* count = nullptr) noexcept;
  template <std::size_t N>
  [[nodiscard]] Ticket post(const Receive<N>& work, SlotState state, std::source_location where,
                            ScopeState* scope = nullptr, std::uint32_t* count = nullptr) noexcept;
  /// All of `works` with one doorbell and one handle; nothing is posted if they do not all fit.
  /// Calls `look` with each of them first.
  template <SendWork Work, std::invocable<const Work&> Look>
  [[nodiscard]] Ticket post_batch(std::span<const Work> works, ScopeState* scope,
                                  std::source_location where, Look look);

  /// The straight path of a wait: one poll brings exactly the awaited completion.
  [[nodiscard]] bool arrived_fresh(Slot& slot, std::uint64_t id, Completion& out) noexcept;
  /// The same, or it lies in the slot already.
  [[nodiscard]] bool arrived(Slot& slot, std::uint64_t id, Completion& out) noexcept;
  /// The other half: true with `last_result.completion`, false with `last_result.error`.
  [[gnu::noinline]] bool await(Slot& slot, std::uint64_t id, Timeout limit, Memory memory) noexcept;
  bool await(Slot& slot, std::uint64_t id, Patience& patience, Memory memory) noexcept;
  /// Whether a result (of any kind) can be taken without waiting. Polls once.
  [[gnu::noinline]] bool is_ready(const Slot& slot, std::uint64_t id) noexcept;

  /// Polls one batch into the slots; how many there were, or -1: the queue is broken.
  int drain() noexcept;
  void file(const ibv_wc* completions, int count) noexcept;
  /// Sleeps until there may be something to do, at most until `until`.
  void sleep(std::chrono::steady_clock::time_point until) noexcept;
  /// One turn of a wait for what is not a slot of its own. False: the time is over.
  bool look(Patience& patience) noexcept;
  /// After a wake-up.
  void acknowledge_events() noexcept;
  /// Ends the channel if somebody asked for it or an event says that it is broken.
  bool heed_interrupts() noexcept;

  VERBATIM_COLD Ticket refuse(OperationQueue& queue) noexcept;
  VERBATIM_COLD Ticket refuse_send(PostShape shape) noexcept;
  VERBATIM_COLD Ticket refuse_batch(std::size_t rest) noexcept;
  VERBATIM_COLD Ticket refuse_receive(std::size_t elements) noexcept;
  /// Not in the channel, which a refused handle may outlive: of this thread's last refusals all is
  /// known, of others the code.
  VERBATIM_COLD static Ticket park_refusal(const Error& error) noexcept;
  VERBATIM_COLD [[nodiscard]] static Error refusal(std::uint64_t id) noexcept;
  /// The handle is dropped: the slot keeps the buffer if the device has it. False: the device
  /// could not be stopped, and the caller must never free the buffer.
  VERBATIM_COLD [[nodiscard]] bool abandon(Slot& slot, void* buffer,
                                           void (*move)(void* to, void* from) noexcept,
                                           void (*destroy)(void*) noexcept) noexcept;

  // Scopes.
  [[gnu::noinline]] void finish(ScopeState& scope) noexcept;
  /// After a detached post was refused: takes completions until it is worth trying again. `since`:
  /// when the first look found none, for all tries together. False: the scope has the error.
  VERBATIM_COLD bool make_room(OperationQueue& queue, std::uint64_t refused, ScopeState& scope,
                               std::chrono::steady_clock::time_point& since) noexcept;
  VERBATIM_COLD void record(ScopeState& scope, const Error& error) noexcept;

  // The end.
  /// ERR, markers, drain; else destroy. Afterwards no operation is in flight, or `proven` is false.
  VERBATIM_COLD void expire(const Error& reason) noexcept;
  /// Until nothing of ours is on its way to the peer, at most `limit`.
  [[nodiscard]] bool finish_sends(Timeout limit) noexcept;
  /// The owner is gone; frees itself when the last parked result has been taken.
  void close() noexcept;

 private:
  template <SendWork Work, class Options>
  bool encode_unsignaled(const Work& work, const Options& chosen, std::uint64_t end,
                         ibv_send_wr& wr) noexcept;
  /// Out of line, to leave the registers to requests without options.
  template <SendWork Work>
  [[gnu::noinline]] bool encode_chosen(const Work& work, std::uint64_t end,
                                       ibv_send_wr& wr) noexcept {
    return encode_unsignaled(work, work.options, end, wr);
  }
  [[nodiscard]] Ticket finish_batch(ibv_send_wr& last_request, Slot& first, Slot& last) noexcept;
  VERBATIM_COLD Ticket batch_refused(Slot& last, int os_error,
                                     const ibv_send_wr* rejected) noexcept;
  bool arrived_batch(Slot& last) noexcept;
  void wait_for(const Slot& slot, Patience& patience) noexcept;
  void take(Slot& slot) noexcept;
  void release_batch(Slot& last) noexcept;
  static void land_batch(Slot& last, std::size_t bytes) noexcept {
    if constexpr (dma::kModelled)
      for_batch(last, [bytes](Slot& slot) { land(slot.flight, bytes); });
  }
  /// From the first to the last.
  template <class Action>
  static void for_batch(Slot& last, Action action) noexcept {
    for (Slot* slot = last.next;; slot = slot->next) {
      action(*slot);
      if (slot == &last) break;
    }
  }
  [[nodiscard]] static Completion first_failure_of(const Slot& last) noexcept;
  void settle(Slot& slot) noexcept;
  void collect(OperationQueue& queue, ScopeState& scope) noexcept;
  [[nodiscard]] bool borrows() const noexcept;
  bool stop_device() noexcept;
  bool flush_with_markers() noexcept;
  void end_queue(OperationQueue& queue) noexcept;
  friend class verbatim::Channel;
};

template <SendWork Work>
VERBATIM_HOT Ticket ChannelState::post(const Work& work, SlotState state,
                                       std::source_location where, ScopeState* scope,
                                       std::uint32_t* count) noexcept {
  Slot* const slot = send_queue.free;
  if (slot == nullptr) [[unlikely]]
    return refuse(send_queue);
  if (!UnsafeAccess::accepts(*queue_pair, UnsafeAccess::shape(work),
                             end_of_message.load(std::memory_order_acquire))) [[unlikely]]
    return refuse_send(UnsafeAccess::shape(work));
  const std::uint64_t id = slot->id;
  slot->state = state;
  slot->scope = scope;
  ibv_send_wr wr;
  ibv_send_wr* rejected;
  UnsafeAccess::encode(work, wr);
  wr.next = nullptr;
  ibv_sge element;
  UnsafeAccess::copy_single<Work>(wr, element);
  wr.send_flags |= IBV_SEND_SIGNALED;  // Unsignaled work exists in batches only.
  wr.wr_id = id;
  take_off(send_queue.model, slot->flight, work, where);
  if (const int failed = raw->context->ops.post_send(raw, &wr, &rejected)) [[unlikely]] {
    call_off(slot->flight);
    slot->state = SlotState::free;
    return park_refusal(UnsafeAccess::post_failed(raw->context, "ibv_post_send", failed));
  }
  send_queue.free = slot->next;
  if (count != nullptr) ++*count;
  return {slot, id};
}

template <std::size_t N>
VERBATIM_HOT Ticket ChannelState::post(const Receive<N>& work, SlotState state,
                                       std::source_location where, ScopeState* scope,
                                       std::uint32_t* count) noexcept {
  Slot* const slot = receive_queue.free;
  if (slot == nullptr) [[unlikely]]
    return refuse(receive_queue);
  if (work.into.size() >= end_of_elements.load(std::memory_order_acquire)) [[unlikely]]
    return refuse_receive(work.into.size());
  const std::uint64_t id = slot->id;
  slot->state = state;
  slot->scope = scope;
  ibv_recv_wr wr;
  ibv_recv_wr* rejected;
  UnsafeAccess::encode(work, wr);
  wr.next = nullptr;
  ibv_sge element;
  UnsafeAccess::copy_single<Receive<N>>(wr, element);
  wr.wr_id = id;
  take_off(receive_queue.model, slot->flight, work, where);
  if (const int failed = raw->context->ops.post_recv(raw, &wr, &rejected)) [[unlikely]] {
    call_off(slot->flight);
    slot->state = SlotState::free;
    return park_refusal(UnsafeAccess::post_failed(raw->context, "ibv_post_recv", failed));
  }
  receive_queue.free = slot->next;
  if (count != nullptr) ++*count;
  return {slot, id};
}

template <SendWork Work, class Options>
VERBATIM_HOT bool ChannelState::encode_unsignaled(const Work& work, const Options& chosen,
                                                  std::uint64_t end, ibv_send_wr& wr) noexcept {
  if (!UnsafeAccess::accepts(*queue_pair, UnsafeAccess::shape(work, chosen), end)) [[unlikely]]
    return false;
  UnsafeAccess::encode(work, chosen, wr);
  wr.send_flags &= ~unsigned{IBV_SEND_SIGNALED};
  return true;
}

template <SendWork Work, std::invocable<const Work&> Look>
Ticket ChannelState::post_batch(std::span<const Work> works, ScopeState* scope,
                                std::source_location where, Look look) {
  if (works.empty()) [[unlikely]]
    return park_refusal({.code = Errc::invalid_argument, .operation = "post", .field = "works"});
  const std::uint64_t end = end_of_message.load(std::memory_order_acquire);
  Slot* const first = send_queue.free;
  Slot* slot = first;
  ibv_send_wr* wr = batch_requests.get();
  const Work* work = works.data();
  const Work* const last = work + works.size() - 1;
  // The slots stay in the free list until the device has everything: what was done to them does no
  // harm there.
  for (;; ++work, ++wr, slot = slot->next) {
    look(*work);
    if (slot == nullptr) [[unlikely]]
      return refuse_batch(static_cast<std::size_t>(last - work) + 1);
    // Options that are known when this is compiled fold away.
    using Options = decltype(work->options);
    const bool taken = UnsafeAccess::are_plain(work->options)
                           ? encode_unsignaled(*work, Options{}, end, *wr)
                           : encode_chosen(*work, end, *wr);
    if (!taken) [[unlikely]]
      return refuse_send(UnsafeAccess::shape(*work));
    slot->state = SlotState::chained;
    wr->wr_id = slot->id;
    if (work == last) break;
  }
  if constexpr (dma::kModelled) {
    Slot* each = first;
    for (const Work& taken : works) {
      take_off(send_queue.model, each->flight, taken, where);
      each = each->next;
    }
  }
  slot->scope = scope;
  return finish_batch(*wr, *first, *slot);
}

VERBATIM_HOT bool ChannelState::arrived_fresh(Slot& slot, std::uint64_t id,
                                              Completion& out) noexcept {
  ibv_wc polled[kPollBatch];
  const int count = cq->context->ops.poll_cq(cq, kPollBatch, polled);
  if (count != 1 || polled[0].wr_id != id || polled[0].status != IBV_WC_SUCCESS) [[unlikely]] {
    if (count > 0) file(polled, count);
    return false;
  }
  land(slot.flight, polled[0]);
  out = UnsafeAccess::completion(polled[0]);
  slot.queue->release(slot);
  return true;
}

VERBATIM_HOT bool ChannelState::arrived(Slot& slot, std::uint64_t id, Completion& out) noexcept {
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

}  // namespace verbatim::detail
