// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two hooks that tell every checker what the device does with a buffer in flight.
///
/// A checker sees what the processor does with memory, never what the device does. To it, a receive
/// buffer changes by magic, and writing to a send buffer in flight is harmless. The code that posts
/// work calls posted() before the device gets it, and completed() after it has polled the
/// completion. In between, the model tells the checkers what the device does. manual/safety.md
/// lists what each build finds.
///
/// If no checker is compiled in, kModelled is false, the types are empty and the functions do
/// nothing. A program and the library must agree about that, as they must about sanitizers.
///
/// Threads: any, for different Flights. The caller, whose slot holds the Flight, must order the
/// calls for one Flight. Memory given to the device must outlive the flight.
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>

#include "verbatim/base/sanitizers.hpp"

#if VERBATIM_IS_CHECKED || VERBATIM_ASAN || VERBATIM_TSAN || VERBATIM_MSAN
#define VERBATIM_DMA_MODELLED 1
#else
#define VERBATIM_DMA_MODELLED 0
#endif

namespace verbatim::dma {

/// What the device does with the memory: send and RDMA write read it; receive, RDMA read and the
/// result of an atomic write it.
enum class Direction : std::uint8_t { device_reads, device_writes };

struct Range {
  const std::byte* data;
  std::size_t size;
};

/// An operation has at most this many ranges.
inline constexpr std::size_t kMaxRanges = 32;

#if VERBATIM_DMA_MODELLED

inline constexpr bool kModelled = true;

namespace detail {
struct QueueState;
struct Operation;
}  // namespace detail
class Flight;

/// One per hardware queue that works in order: a send queue, a receive queue. A shared receive
/// queue completes in any order, and needs one per slot. Reports show the name, which is copied.
class Queue {
 public:
  /// A queue that is never posted to.
  constexpr Queue() noexcept = default;
  explicit Queue(const char* name) noexcept;
  constexpr ~Queue() {
    if (state_ != nullptr) release();
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

 private:
  friend void posted(Queue&, Flight&, Direction, std::span<const Range>,
                     const std::source_location&) noexcept;
  void release() noexcept;
  detail::QueueState* state_ = nullptr;
};

/// One per operation slot, reused for each operation. It remembers the memory of the operation in
/// flight. Destroying it in flight means that the device is done with the memory, as when its queue
/// pair is destroyed.
class Flight {
 public:
  constexpr Flight() noexcept = default;
  constexpr ~Flight() {  // g++ requires it, so that a slot can be a constant.
    if (operation_ != nullptr) release();
  }
  Flight(Flight&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  Flight& operator=(Flight&& other) noexcept {
    if (this != &other) {
      release();
      operation_ = std::exchange(other.operation_, nullptr);
    }
    return *this;
  }

  [[nodiscard]] bool in_flight() const noexcept;

 private:
  friend void posted(Queue&, Flight&, Direction, std::span<const Range>,
                     const std::source_location&) noexcept;
  friend void withdrawn(Flight&) noexcept;
  friend void completed(Flight&, std::size_t) noexcept;
  void release() noexcept;

  detail::Operation* operation_ = nullptr;  // Allocated at the first post.
};

/// Call it before the device gets the work. It reports misuse that is visible now to the contract
/// handler: memory that overlaps an operation in flight (two readers may overlap), or a Flight that
/// is already in flight. `where` is the line of the program that posted, for this report and later
/// ones.
void posted(Queue& queue, Flight& flight, Direction direction, std::span<const Range> ranges,
            const std::source_location& where) noexcept;

/// The device refused the post, and has not touched the memory.
void withdrawn(Flight& flight) noexcept;

/// The completion was polled. `bytes` is how much the device wrote, in the order of the ranges; the
/// rest is undefined. If the device reads, `bytes` is ignored.
void completed(Flight& flight, std::size_t bytes) noexcept;

#else

inline constexpr bool kModelled = false;

class Queue {
 public:
  constexpr Queue() noexcept = default;
  explicit Queue(const char*) noexcept {}
  ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
};

class Flight {
 public:
  Flight() noexcept = default;
  ~Flight() = default;
  Flight(Flight&&) noexcept = default;
  Flight& operator=(Flight&&) noexcept = default;
  [[nodiscard]] static bool in_flight() noexcept { return false; }
};

inline void posted(Queue&, Flight&, Direction, std::span<const Range>,
                   const std::source_location&) noexcept {}
inline void withdrawn(Flight&) noexcept {}
inline void completed(Flight&, std::size_t) noexcept {}

#endif

}  // namespace verbatim::dma
