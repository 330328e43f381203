// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file An operation that owns its memory: while the device has it, nobody else does.
///
///     Pending sending = channel.send(std::move(buffer));
///     auto [buffer, result] = sending.wait();
///
/// owner.hpp lists what can own memory. It is usually a Buffer, so this file says buffer.
///
/// The buffer always comes back, whatever happened to the work, with one exception: if the device
/// cannot be stopped, it may still write to the buffer, so the library keeps it for ever and
/// `Completed::buffer` is null. quarantined_buffers() counts those.
///
/// Ownership: move-only. Dropping a Pending costs nothing: its slot keeps the buffer until the
///            completion comes. Define VERBATIM_STRICT_LINEAR to make clang report a dropped one.
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
#include "verbatim/channel/owner.hpp"

namespace verbatim {

namespace detail {
struct PendingAccess;
/// How many bytes of a dropped handle's owner are kept beside its slot; a larger owner goes to the
/// heap.
inline constexpr std::size_t kOrphanBytes = 56;
/// The handle is dropped: the slot keeps the buffer if the device has it. False: the device could
/// not be stopped, and the caller must never free the buffer.
VERBATIM_COLD [[nodiscard]] bool abandon(ChannelCore& channel, Slot& slot, void* buffer,
                                         void (*move)(void* to, void* from) noexcept,
                                         void (*destroy)(void*) noexcept) noexcept;
/// Keeps an object that the device may still use. It is never returned.
VERBATIM_COLD void quarantine(void* kept, std::size_t buffers = 1) noexcept;

struct OwnedPost;
/// The bytes that arrived in the memory of this operation.
[[nodiscard]] inline std::size_t bytes_arrived(const Result<Completion>& result) noexcept {
  if (!result || result->opcode() == Opcode::receive_immediate) return 0;
  return result->byte_count().value_or(0);
}
}  // namespace detail

/// Buffers that this process keeps for ever because a device could not be stopped.
[[nodiscard]] std::size_t quarantined_buffers() noexcept;

/// The outcome of an owned operation. Two parts: `auto [buffer, result] = pending.wait()`.
template <class Owner>
struct [[nodiscard]] Completed {
  Owner buffer;
  Result<Completion> result;
  std::size_t offset = 0;  ///< Of the range that was posted.

  /// The bytes that arrived in the buffer. Empty after a failure, a send or a write, and if the
  /// peer wrote with an immediate, because that data went elsewhere. Owners of several pieces have
  /// none.
  [[nodiscard]] std::span<const std::byte> received() const& VERBATIM_LIFETIMEBOUND
    requires requires { OwnerTraits<Owner>::bytes(buffer); }
  {
    const std::size_t count = detail::bytes_arrived(result);
    if (count == 0) return {};
    return OwnerTraits<Owner>::bytes(buffer).subspan(offset).first(count);
  }
  void received() && = delete;
};
template <std::size_t I, class Owner>
[[nodiscard]] auto& get(Completed<Owner>& done) noexcept {
  if constexpr (I == 0)
    return done.buffer;
  else
    return done.result;
}
template <std::size_t I, class Owner>
[[nodiscard]] const auto& get(const Completed<Owner>& done) noexcept {
  if constexpr (I == 0)
    return done.buffer;
  else
    return done.result;
}
template <std::size_t I, class Owner>
[[nodiscard]] auto&& get(Completed<Owner>&& done) noexcept {
  return std::move(get<I>(done));
}

template <class B>
class VERBATIM_CONSUMABLE
    [[nodiscard("dropping it gives the buffer away; wait() brings it back")]] Pending {
  static_assert(detail::OwnerRules<B>::kKept);

 public:
  Pending(Pending&& other) noexcept
      : channel_(other.channel_),
        slot_(std::exchange(other.slot_, &detail::no_slot)),
        id_(std::exchange(other.id_, detail::kRefused)),
        buffer_(std::move(other.buffer_)),
        offset_(other.offset_) {}
  VERBATIM_RESTORES Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      if (posted()) drop(*channel_, *slot_, std::move(buffer_));
      channel_ = other.channel_;
      slot_ = std::exchange(other.slot_, &detail::no_slot);
      id_ = std::exchange(other.id_, detail::kRefused);
      buffer_ = std::move(other.buffer_);
      offset_ = other.offset_;
    }
    return *this;
  }
  VERBATIM_LINEAR ~Pending() {
    if (posted()) [[unlikely]]
      drop(*channel_, *slot_, std::move(buffer_));
  }

  /// Whether the device took it. If not, wait() returns the reason and the buffer, at once.
  [[nodiscard]] bool posted() const noexcept { return (id_ & detail::kRefused) == 0; }
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

  /// Waits until the device is done with the buffer. `timed_out` breaks the channel: this is the
  /// only way to make sure that nothing more is written to the buffer. Call it once.
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
    return {std::move(buffer_), completion, offset_};
  }

 private:
  friend struct detail::OwnedPost;
  friend struct detail::PendingAccess;
  /// As wait(), for an operation that is over: polls nothing.
  VERBATIM_HOT Completed<B> take_over() noexcept {
    detail::Slot& slot = *slot_;
    if (slot.state != detail::SlotState::done || !slot.completion.ok()) [[unlikely]]
      return wait();
    slot_ = &detail::no_slot;
    id_ = detail::kRefused;
    slot.queue->release(slot);  // No one takes the slot before it has been read.
    return {std::move(buffer_), slot.completion, offset_};
  }
  Pending(detail::ChannelCore& channel, detail::Ticket ticket, B buffer,
          std::size_t offset) noexcept
      : channel_(&channel),
        slot_(ticket.slot),
        id_(ticket.id),
        buffer_(std::move(buffer)),
        offset_(offset) {}

  // Static, and given the parts: a call on `this` would force every Pending into memory (g++: -6).
  VERBATIM_COLD static void drop(detail::ChannelCore& channel, detail::Slot& slot,
                                 B buffer) noexcept {
    bool safe = false;
    if constexpr (sizeof(B) <= detail::kOrphanBytes && alignof(B) <= alignof(std::max_align_t)) {
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
  std::size_t offset_;
};

}  // namespace verbatim

// For `auto [buffer, result]`.
template <class Owner>
struct std::tuple_size<verbatim::Completed<Owner>> : std::integral_constant<std::size_t, 2> {};
template <class Owner>
struct std::tuple_element<0, verbatim::Completed<Owner>> : std::type_identity<Owner> {};
template <class Owner>
struct std::tuple_element<1, verbatim::Completed<Owner>>
    : std::type_identity<verbatim::Result<verbatim::Completion>> {};
