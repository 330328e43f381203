// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The receives that all channels of a completion core share, and the messages in them.
///
/// A message finds its channel by the number of its queue pair. It stays in its slot, in the list
/// of the channel's inbox, until its buffer is taken. A dropped buffer is posted again, 16 per
/// doorbell; fewer if a thread is about to sleep, or if few receives are left.
///
/// A queue pair may be destroyed while it holds receives of the shared queue. So it outlives its
/// channel until the device reports that it has taken its last, or, if the device never reports
/// this, for the time of a flush. Counting finds receives that are lost all the same: devices take
/// receives in the order in which they were posted, and a queue pair completes its own in that
/// order. A receive that was overtaken, and that no queue pair can hold any more, is posted again.
///
/// On a device without shared receive queues each queue pair has its own receives, kOwnReceives of
/// these buffers. A returned buffer is posted to a queue pair that has too few.
///
/// Ownership: part of the core; lives on until its last buffer is back.
/// Threads:   that of its core. Any thread may drop buffers.
#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "channel/completion_core.hpp"
#include "verbatim/channel/incoming.hpp"
#include "verbatim/verbs/detail/returned_blocks.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/queue_pair.hpp"

namespace verbatim::detail {

/// Messages of one channel that nobody has taken, and the waiters for one. Lives as long as the
/// channel or a waiter.
struct Inbox {
  explicit Inbox(ChannelState& of) noexcept;
  ~Inbox();
  void release() noexcept {
    if (--users == 0) delete this;
  }

  /// Gives it to the first waiter, whose slot is returned; null: it is kept.
  [[nodiscard]] Slot* put(Slot& message) noexcept;
  /// As if it had never been taken.
  void put_back(Slot& message) noexcept;
  [[nodiscard]] Slot* take_first() noexcept;
  /// Returns the messages that nobody has taken.
  void discard() noexcept;
  /// No more messages come: waiters get the reason.
  void tell_end(const Error& why) noexcept;
  /// The channel is gone.
  void leave() noexcept;
  [[nodiscard]] bool has_news() const noexcept { return first != nullptr || end; }

  const std::shared_ptr<CompletionCore> core;
  SharedReceives& shared;
  ChannelState* channel;  ///< Null: gone.
  std::uint32_t users = 1;
  std::uint32_t room;  ///< How many more may come.
  ReceiverLink waiting{};
  Slot* first = nullptr;
  Slot* last = nullptr;
  std::uint64_t
      latest;  ///< The receive that its queue pair completed last; no earlier one is its own.
  std::uint32_t number = 0;  ///< Of its queue pair; 0: it is in no table.
  std::uint32_t held = 0;    ///< Receives that its queue pair holds, if none are shared.
  std::optional<Error> end{};

 private:
  [[nodiscard]] static Slot* hand_over(Receiver& to, Slot& message) noexcept;
  void tell_all() noexcept;

  struct Bell final : Waiter {
    explicit Bell(Inbox& of) noexcept;
    Inbox& inbox;
    Slot slot{};
  } bell_;  ///< Wakes all waiters.
};

struct SharedReceives final : BufferHome {
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] static Result<SharedReceives*> create(CompletionCore& core,
                                                      const ProtectionDomain& domain,
                                                      const SharedReceiveOptions& options);

  /// For one queue pair, if the device cannot share them.
  static constexpr std::uint32_t kOwnReceives = 16;

  /// Files a completion of one of its receives. Returns the slot to wake; null: none.
  [[nodiscard]] Slot* take_in(Slot& slot, const ibv_wc& wc) noexcept;
  /// From now on messages of that queue pair go to `inbox`.
  void enrol(Inbox& inbox, QpNumber queue_pair);
  void forget(Inbox& inbox) noexcept;
  /// Its channel is gone: the queue pair is destroyed when it holds no receive of ours any more.
  void retire(QueuePair queue_pair, const Inbox& inbox, Clock::time_point until) noexcept;
  void look_at_retired() noexcept;
  /// The queue pair of `inbox` was destroyed, or could not be (`proven`), with the receives it
  /// held.
  void vanished(Inbox& inbox, bool proven) noexcept;
  /// The queue pair of `inbox` has stopped: receives that were posted only to it are free.
  void reclaim(Inbox& inbox) noexcept;
  /// Posts everything that is here. If few are left, the next drop wakes the sleeper.
  void flush() noexcept;
  /// The core is gone.
  void close() noexcept;

  [[nodiscard]] Buffer buffer_of(const Slot& message) noexcept;
  void give_back(Slot& message) noexcept;
  /// Neither with the program nor in an inbox.
  [[nodiscard]] std::uint32_t free() noexcept;

  CompletionCore& core;
  const SharedReceiveOptions options;
  std::optional<SharedReceiveQueue> queue{};
  std::uint64_t latest = 0;  ///< Of all that were completed, the one that was posted last.

 private:
  struct Block final : BufferBlock {
    Block(BufferHome& of, std::span<std::byte> part, MemoryRegion registered, Slot& own) noexcept;
    Slot& slot;
    std::uint64_t sequence = 0;  ///< Its position in the order of posts.
    Inbox* holder = nullptr;     ///< The inbox whose queue pair holds it; null: the shared queue.
    ibv_sge element;
    ibv_recv_wr request{};
    [[no_unique_address]] dma::Queue model{"shared receive"};
  };
  struct Entry {
    std::uint32_t number = 0;  ///< 0: free.
    Inbox* inbox = nullptr;
  };
  struct Retired {
    QueuePair queue_pair;
    std::uint64_t latest;
    Clock::time_point until;
  };
  struct Clockwork final : Timer {
    explicit Clockwork(SharedReceives& of) noexcept;
    SharedReceives& shared;
  };

  SharedReceives(CompletionCore& of, const SharedReceiveOptions& chosen) noexcept;
  ~SharedReceives();
  [[nodiscard]] Result<void> open(const ProtectionDomain& domain);
  [[nodiscard]] Block& block_of(const Slot& slot) noexcept {
    return *blocks_[static_cast<std::size_t>(&slot - run_.data())];
  }
  [[nodiscard]] std::size_t place_of(std::uint32_t number) const noexcept {
    return (number * 0x9e3779b1u) >> shift_;
  }
  [[nodiscard]] Inbox* inbox_of(std::uint32_t number) const noexcept;
  void insert(Entry entry) noexcept;
  static void take_back(BufferHome& home, BufferBlock& block) noexcept;
  void take_back_slowly(BufferBlock& block) noexcept;
  void keep(Block& block) noexcept;
  bool collect() noexcept;
  void post() noexcept;
  void post_to(Inbox& inbox) noexcept;
  void take_off(Block& block) noexcept;
  /// From `first` on, what the device did not take stays here.
  void call_off(BufferBlock* first) noexcept;
  void come_home(Block& block) noexcept;
  void take_in_failure(Inbox* inbox, const ibv_wc& wc) noexcept;
  void recover() noexcept;

  std::atomic<std::uintptr_t> thread_{0};  ///< The thread whose drops go straight to `home_`.
  BufferBlock* home_ = nullptr;
  std::uint32_t at_home_ = 0;
  std::uint32_t posted_ = 0;  ///< With the device.
  std::uint32_t low_ = 0;     ///< With fewer than this, each is posted at once.
  std::uint32_t shift_;
  std::vector<Entry> table_;
  std::size_t entries_ = 0;
  std::span<Slot> run_{};
  std::unique_ptr<std::optional<Block>[]> blocks_{};
  std::uint64_t sequence_ = 0;
  std::vector<Retired> retired_{};
  Clockwork timer_{*this};
  /// A queue pair went without reporting its receives, which were posted up to here. 0: none.
  std::uint64_t lost_before_ = 0;
  bool is_certain_ = true;  ///< All queue pairs that went are really gone.
  std::optional<Buffer> arena_{};
  const std::shared_ptr<Waker> waker_;
  ReturnedBlocks returned_{};
};

}  // namespace verbatim::detail
