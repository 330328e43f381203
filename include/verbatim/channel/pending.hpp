// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file An operation that owns its buffer: while the device has it, nobody else does.
///
///     Pending sending = channel.send(std::move(buffer));
///     auto [buffer, result] = sending.wait();
///
/// The buffer always comes back, whatever happened to the work, except in one case: if the device
/// cannot be stopped, the buffer is kept for ever (`Completed::buffer` is null then), because the
/// device may still write to it. quarantined_buffers() counts those.
///
/// Ownership: move-only. A dropped Pending costs nothing: its slot keeps the buffer until the
///            completion comes. For who wants that to be an error of clang's all the same: the
///            definition VERBATIM_STRICT_LINEAR.
/// Threads:   those of its channel: one at a time.
#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/last_result.hpp"
#include "verbatim/channel/detail/slots.hpp"

namespace verbatim {

namespace detail {
/// How much of what a dropped handle owned is kept beside its slot; more goes to the heap.
inline constexpr std::size_t kOrphanBytes = 56;
/// The handle is dropped: the slot keeps the buffer if the device has it. False: the device could
/// not be stopped, and the caller must never free the buffer.
VERBATIM_COLD [[nodiscard]] bool abandon(ChannelCore& channel, Slot& slot, void* buffer,
                                         void (*move)(void* to, void* from) noexcept,
                                         void (*destroy)(void*) noexcept) noexcept;
/// Keeps an object that the device may still use. It is never given back.
VERBATIM_COLD void quarantine(void* kept, std::size_t buffers = 1) noexcept;
}  // namespace detail

/// Buffers that this process keeps for ever, because a device could not be stopped.
[[nodiscard]] std::size_t quarantined_buffers() noexcept;

/// What became of an owned operation.
template <class B>
struct [[nodiscard]] Completed {
  B buffer;
  Result<Completion> result;
};

template <class B>
class VERBATIM_CONSUMABLE
    [[nodiscard("dropping it gives the buffer away; wait() brings it back")]] Pending {
  static_assert(std::is_nothrow_move_constructible_v<B>);

 public:
  Pending(Pending&& other) noexcept
      : channel_(other.channel_),
        slot_(std::exchange(other.slot_, &detail::no_slot)),
        id_(std::exchange(other.id_, detail::kRefused)),
        buffer_(std::move(other.buffer_)) {}
  VERBATIM_RESTORES Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      if (posted()) drop(*channel_, *slot_, std::move(buffer_));
      channel_ = other.channel_;
      slot_ = std::exchange(other.slot_, &detail::no_slot);
      id_ = std::exchange(other.id_, detail::kRefused);
      buffer_ = std::move(other.buffer_);
    }
    return *this;
  }
  VERBATIM_LINEAR ~Pending() {
    if (posted()) [[unlikely]]
      drop(*channel_, *slot_, std::move(buffer_));
  }

  /// Whether the device took it. If not, wait() says why, and gives the buffer back, at once.
  [[nodiscard]] bool posted() const noexcept { return (id_ & detail::kRefused) == 0; }
  /// The id of the request, as in its completion. No request has that of a refused one.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] WrId id() const noexcept { return WrId{id_}; }
  /// Whether wait() would return at once. Looks at the completion queue once.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] bool ready() noexcept {
    return !posted() || channel_->is_ready(*slot_, id_);
  }

  /// Waits a while, and ends nothing: whether wait() would return at once.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] bool ready_within(Deadline deadline) noexcept {
    return !posted() || channel_->ready_within(*slot_, id_, deadline);
  }

  /// Waits until the device is done with the buffer. `timed_out` breaks the channel: only so it is
  /// certain that nothing will be written to the buffer any more. Once.
  VERBATIM_CONSUMES VERBATIM_UNCONSUMED_ONLY [[nodiscard]] VERBATIM_HOT Completed<B> wait(
      Deadline deadline = {}) noexcept {
    const std::uint64_t id = std::exchange(id_, detail::kRefused);
    detail::Slot& slot = *std::exchange(slot_, &detail::no_slot);
    Completion completion;
    if (slot.id != id || !channel_->arrived(slot, id, completion)) [[unlikely]] {
      if ((id & detail::kRefused) != 0)  // Its channel may be gone.
        return {std::move(buffer_), std::unexpected(detail::ChannelCore::refusal(id))};
      if (!channel_->await(slot, id, deadline, detail::Memory::owned)) {
        if (detail::last_result.unproven) [[unlikely]]
          keep_for_ever(std::move(buffer_));
        return {std::move(buffer_), std::unexpected(detail::last_result.error)};
      }
      completion = detail::last_result.completion;
    }
    return {std::move(buffer_), completion};
  }

 private:
  friend class Channel;
  friend class PreparedChannel;
  Pending(detail::ChannelCore& channel, detail::Ticket ticket, B buffer) noexcept
      : channel_(&channel), slot_(ticket.slot), id_(ticket.id), buffer_(std::move(buffer)) {}

  // Static, and given the parts: a call on `this` would force every Pending into memory.
  VERBATIM_COLD static void drop(detail::ChannelCore& channel, detail::Slot& slot,
                                 B buffer) noexcept {
    bool safe = false;
    if constexpr (sizeof(B) <= detail::kOrphanBytes) {
      safe = detail::abandon(
          channel, slot, &buffer,
          [](void* to, void* from) noexcept { new (to) B(std::move(*static_cast<B*>(from))); },
          [](void* kept) noexcept { static_cast<B*>(kept)->~B(); });
    } else {
      auto boxed = std::make_unique<B>(std::move(buffer));
      safe = detail::abandon(
          channel, slot, &boxed,
          [](void* to, void* from) noexcept {
            new (to) std::unique_ptr<B>(std::move(*static_cast<std::unique_ptr<B>*>(from)));
          },
          [](void* kept) noexcept {
            using Box = std::unique_ptr<B>;
            static_cast<Box*>(kept)->~Box();
          });
      if (!safe) detail::quarantine(boxed.release());
      return;
    }
    if (!safe) keep_for_ever(std::move(buffer));
  }
  VERBATIM_COLD static void keep_for_ever(B buffer) noexcept {
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory to keep it, we must end.
    detail::quarantine(new B(std::move(buffer)));
  }

  detail::ChannelCore* channel_;
  detail::Slot* slot_;
  std::uint64_t id_;
  B buffer_;
};

}  // namespace verbatim
