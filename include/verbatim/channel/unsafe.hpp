// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Operations of a channel on borrowed memory, without a scope around them.
///
///     auto sending = unsafe::post(channel, Send{region.gather(message)});
///     ...
///     const auto result = sending.wait();
///
/// For memory whose lifetime no closure describes, such as a ring that an event loop keeps filled.
/// Everything else is as with other operations: slots, refusals, deadlines and ends.
///
/// The caller takes over this contract: until wait() has returned, the memory stays alive and
/// registered, is not written (send, write), and is not touched at all (receive, read, atomics).
///
/// Dropping the handle stops nothing: the operation continues, so the memory must live until the
/// channel was closed or destroyed. The result is lost. A failure ends the channel as usual, and
/// dropped_messages() counts a message that arrives in a dropped receive.
///
/// Ownership: move-only. It may outlive its channel: then wait() returns `closed`.
/// Threads:   those of its channel: one at a time.
#include <cstdint>
#include <source_location>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/last_result.hpp"
#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {
/// Like abandon(), for an operation that owns nothing.
VERBATIM_COLD void abandon_borrowed(ChannelCore& channel, Slot& slot) noexcept;
}  // namespace verbatim::detail

namespace verbatim::unsafe {

/// Gives one request to the device: any that the channel's run() takes. wait() returns a refusal
/// (`would_block`: the queue is full). The caller keeps the contract at the top of this file.
template <class Work>
PendingWork post(Channel& channel, const Work& work,
                 std::source_location where = std::source_location::current()) noexcept;

/// An operation in flight on the caller's memory.
class VERBATIM_CONSUMABLE
    [[nodiscard("the device has the memory until wait() has returned")]] PendingWork {
 public:
  PendingWork(PendingWork&& other) noexcept
      : channel_(other.channel_),
        slot_(std::exchange(other.slot_, &verbatim::detail::no_slot)),
        id_(std::exchange(other.id_, verbatim::detail::kRefused)) {}
  VERBATIM_RESTORES PendingWork& operator=(PendingWork&& other) noexcept {
    if (this != &other) {
      if (posted()) verbatim::detail::abandon_borrowed(*channel_, *slot_);
      channel_ = other.channel_;
      slot_ = std::exchange(other.slot_, &verbatim::detail::no_slot);
      id_ = std::exchange(other.id_, verbatim::detail::kRefused);
    }
    return *this;
  }
  VERBATIM_LINEAR ~PendingWork() {
    if (posted()) [[unlikely]]
      verbatim::detail::abandon_borrowed(*channel_, *slot_);
  }

  /// Whether the device took it. If not, wait() returns the reason at once.
  [[nodiscard]] bool posted() const noexcept { return (id_ & verbatim::detail::kRefused) == 0; }
  /// The id of the request, as in its completion. The id of a refused operation belongs to no
  /// request.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] WrId id() const noexcept { return WrId{id_}; }
  /// Whether wait() would return at once. Polls the completion queue once.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] bool ready() noexcept {
    return !posted() || channel_->is_ready(*slot_, id_);
  }
  /// Waits for a while, and ends nothing: whether wait() would return at once.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] bool ready_within(Deadline deadline) noexcept {
    return !posted() || channel_->ready_within(*slot_, id_, deadline);
  }
  /// Waits until the device is done with the memory. `timed_out` breaks the channel, as with any
  /// other wait. Call it once.
  VERBATIM_CONSUMES VERBATIM_UNCONSUMED_ONLY [[nodiscard]] VERBATIM_HOT Result<Completion> wait(
      Deadline deadline = {}) noexcept {
    using verbatim::detail::last_result;
    const std::uint64_t id = std::exchange(id_, verbatim::detail::kRefused);
    verbatim::detail::Slot& slot = *std::exchange(slot_, &verbatim::detail::no_slot);
    Completion completion;
    if (slot.id != id || !channel_->arrived(slot, id, completion)) [[unlikely]] {
      if ((id & verbatim::detail::kRefused) != 0)  // Its channel may be gone.
        return std::unexpected(verbatim::detail::ChannelCore::refusal(id));
      if (!channel_->await(slot, id, deadline, verbatim::detail::Memory::borrowed))
        return std::unexpected(last_result.error);
      completion = last_result.completion;
    }
    return completion;
  }

 private:
  template <class Work>
  friend PendingWork post(Channel& channel, const Work& work, std::source_location where) noexcept;

  template <class Work>
  VERBATIM_HOT PendingWork(Channel& channel, const Work& work,
                           const std::source_location& where) noexcept
      : channel_(channel.state_) {
    const verbatim::detail::Ticket ticket =
        channel_->post(work, {verbatim::detail::SlotState::flying, where});
    slot_ = ticket.slot;
    id_ = ticket.id;
  }

  verbatim::detail::ChannelCore* channel_;
  verbatim::detail::Slot* slot_;
  std::uint64_t id_;
};

template <class Work>
VERBATIM_HOT PendingWork post(Channel& channel, const Work& work,
                              std::source_location where) noexcept {
  return PendingWork{channel, work, where};
}

}  // namespace verbatim::unsafe
