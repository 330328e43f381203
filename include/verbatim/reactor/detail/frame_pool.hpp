// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where coroutine frames come from: lists of this thread, by size.
///
/// In steady state nothing is allocated. A frame that ends in another thread than it began in stays
/// there. A list keeps at most kMost, so that a thread that only ends frames does not hoard them.
///
/// In AddressSanitizer builds each frame is allocated, so that it finds frames that are used too
/// late.
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/sanitizers.hpp"

namespace verbatim::detail {

class FramePool {
 public:
  static void* take(std::size_t bytes) {
    const std::size_t number = class_of(bytes);
    if (VERBATIM_ASAN || number >= kClasses) [[unlikely]]
      return ::operator new(bytes);
    Frame*& first = lists[number];
    if (first->next == nullptr) [[unlikely]]
      return ::operator new(number * kStep);
    return std::exchange(first, first->next);
  }
  static void put(void* frame, std::size_t bytes) noexcept {
    const std::size_t number = class_of(bytes);
    if (VERBATIM_ASAN || number >= kClasses) [[unlikely]]
      return ::operator delete(frame);
    Frame* const first = lists[number];
    if (first->count >= kMost) [[unlikely]]
      return put_slowly(frame, number);
    lists[number] = new (frame) Frame{first, first->count + 1};
  }

 private:
  struct Frame {
    Frame* next;          ///< Null: this is the end of the list, not a frame.
    std::uint32_t count;  ///< Frames in the list, from here on.
  };
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kClasses = 33;  ///< Up to 2 KiB.
  static constexpr std::uint32_t kMost = 16384;
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    return (bytes + kStep - 1) / kStep;
  }
  /// One too many, or the first of this thread: makes sure that the thread's end frees them.
  VERBATIM_COLD static void put_slowly(void* frame, std::size_t number) noexcept;

  static inline constinit Frame closed_end{nullptr,
                                           kMost};  ///< The end of a list that takes no frame.
  static inline constinit Frame open_end{nullptr, 0};
  static constexpr std::array<Frame*, kClasses> all_closed() noexcept {
    std::array<Frame*, kClasses> ends{};
    ends.fill(&closed_end);
    return ends;
  }
  static constinit thread_local std::array<Frame*, kClasses> lists;
};
inline constinit thread_local std::array<FramePool::Frame*, FramePool::kClasses> FramePool::lists =
    FramePool::all_closed();

}  // namespace verbatim::detail
