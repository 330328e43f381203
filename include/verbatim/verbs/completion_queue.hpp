// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A completion queue: the device writes finished work here, the application polls it.
///
/// Room is reserved: each queue pair reserves its depths, as the device granted them, when it is
/// created. A queue pair that does not fit is refused with both numbers. The queue therefore cannot
/// overflow as long as no queue pair has more unpolled completions than its depth. Some devices
/// (Soft-RoCE) free a place in the send queue before its completion is polled: with raw posts, poll
/// before you post more.
///
/// Ownership: a cheap, shared handle. Keeps its Context alive; queue pairs keep it alive.
/// Threads:   any, also several at once: each completion goes to one of the threads that poll. The
///            verbs make polling safe on every device; most drivers take a lock for it. wait() and
///            arm() from one thread at a time (see completion_channel.hpp).
/// Hot path:  poll() neither allocates, locks, nor makes a system call.
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/required.hpp"
#include "verbatim/verbs/completion.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/events.hpp"

namespace verbatim {

class Context;
class QueuePair;

namespace detail {
struct Raw;
struct ContextState;
struct CompletionQueueState;
struct QueuePairObject;
}  // namespace detail

/// What happens when a queue pair needs more room than is left.
enum class CompletionQueueGrowth : std::uint8_t {
  fixed,   ///< `limit_exceeded`, with the depth needed and the present depth.
  resize,  ///< The queue is made deeper, if the device can.
};

struct CompletionQueueOptions {
  Required<std::uint32_t> depth;  ///< Completions it can hold. The caller decides on the size.
  std::uint32_t vector = 0;       ///< Completion vector (interrupt), below the device's count.
  std::optional<CompletionChannel> channel{};  ///< Needed for wait() and arm().
  CompletionQueueGrowth growth = CompletionQueueGrowth::fixed;
};

/// Which completions raise an event.
enum class Arm : std::uint8_t { any, solicited_only };

class CompletionQueue {
 public:
  /// Moves up to `out.size()` completions into `out` and returns the count; 0 means nothing yet.
  /// Fails only if the queue itself is broken: a failed request is a Completion with an error
  /// status.
  [[nodiscard]] VERBATIM_HOT Result<std::size_t> poll(std::span<Completion> out) noexcept {
    const int count = raw_->context->ops.poll_cq(raw_, room_in(out), wc(out));
    if (count <= 0) [[unlikely]]
      return poll_nothing(*state_, count, out);
    return static_cast<std::size_t>(count);
  }

  /// poll(), but sleeps on the channel until there is something. It arms, polls again, sleeps,
  /// takes and acknowledges events, so no wake-up is lost. If nothing came it is `timed_out`, and
  /// nothing else.
  [[nodiscard]] Result<std::size_t> wait(std::span<Completion> out,
                                         std::chrono::nanoseconds timeout);

  /// Asks for one event on the channel at the next completion. Poll once more after arming: on
  /// some devices an earlier completion raises no event. `wait()` does all of that.
  [[nodiscard]] Result<void> arm(Arm which = Arm::any) noexcept;
  /// Whether `CompletionChannel::wait` has seen an event of this queue since the last call.
  [[nodiscard]] bool take_signal() noexcept;

  [[nodiscard]] Context context() const noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept;  ///< As the device granted it.
  [[nodiscard]] std::uint32_t reserved()
      const noexcept;  ///< By queue pairs and shared receive queues.
  /// Makes the queue deeper (or shallower, not below what is reserved).
  [[nodiscard]] Result<void> resize(std::uint32_t depth);
  /// Events for this queue so far: an overrun is `completion_queue_error`.
  [[nodiscard]] EventFlags events() const noexcept;

 private:
  friend class Context;
  friend class QueuePair;
  friend struct detail::QueuePairObject;
  friend struct detail::Raw;
  friend std::string to_string(const CompletionQueue& queue);
  static constexpr std::size_t kMaxBatch = std::numeric_limits<int>::max();

  explicit CompletionQueue(std::shared_ptr<detail::CompletionQueueState> state) noexcept;
  static int room_in(std::span<Completion> out) noexcept {
    return out.size() <= kMaxBatch ? static_cast<int>(out.size()) : int{kMaxBatch};
  }
  static ibv_wc* wc(std::span<Completion> out) noexcept {
    // A Completion is just an ibv_wc, so an array of one is an array of the other.
    return reinterpret_cast<ibv_wc*>(out.data());
  }
  /// Static: otherwise the compiler would compute the address of `this` before each poll.
  VERBATIM_COLD static Result<std::size_t> poll_nothing(detail::CompletionQueueState& state,
                                                        int count,
                                                        std::span<Completion> out) noexcept;

  ibv_cq* raw_;
  std::shared_ptr<detail::CompletionQueueState> state_;
};

/// "completion queue 3 on mlx5_0, depth 256, 192 reserved".
[[nodiscard]] std::string to_string(const CompletionQueue& queue);

}  // namespace verbatim
