// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Tells every checker what the device does with a buffer in flight: two hooks.
///
/// A checker sees what the processor does with memory, never what the device does, so to it a
/// receive buffer changes by magic and a send buffer may be scribbled on at will. Whoever posts
/// work calls posted() before the device is told and completed() when the completion was polled;
/// the model then speaks for the device. docs/safety.md lists what each build finds.
///
/// Where no checker is compiled in, kModelled is false, the types are empty and the functions do
/// nothing. A program and the library must agree about that, as they must about sanitizers.
///
/// Threads: any, for different Flights. The calls for one Flight must be ordered by their caller,
/// whose slot it lies in. Memory that the device is given must outlive the flight.
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
/// queue completes in any order, and needs one per slot. The name shows in reports; it is copied.
class Queue {
 public:
  /// One that is never posted to.
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

/// One per operation slot, used again and again. It remembers what the operation in flight covers.
/// Destroying it in flight says that the device has let go, as when its queue pair is destroyed.
class Flight {
 public:
  constexpr Flight() noexcept = default;
  constexpr ~Flight() {  // So that a slot can be a constant: g++ asks for it.
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

/// Before the device is told. Misuse that shows now ends in the contract handler: memory that
/// overlaps an operation in flight (readers may overlap readers), or a Flight that is in flight.
/// `where` is the line of the program that posted, for this and for later reports.
void posted(Queue& queue, Flight& flight, Direction direction, std::span<const Range> ranges,
            const std::source_location& where) noexcept;

/// The device refused the post after all, and has not touched the memory.
void withdrawn(Flight& flight) noexcept;

/// The completion was polled. `bytes` is how much the device wrote, in the order of the ranges;
/// what lies behind is undefined. It says nothing when the device reads.
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
