// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where the frames of coroutines come from: lists of this thread's, by size.
///
/// In steady state nothing is allocated. A frame that ends in another thread than it began in stays
/// there; a list keeps at most kMost, so that a thread that only ends them does not hoard.
///
/// In AddressSanitizer builds frames are allocated: it finds those that are used too late.
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
    Frame* next;          ///< Null: this is the end of the list, and no frame.
    std::uint32_t count;  ///< In the list, from here on.
  };
  static constexpr std::size_t kStep = 64;
  static constexpr std::size_t kClasses = 33;  ///< To 2 KiB.
  static constexpr std::uint32_t kMost = 16384;
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    return (bytes + kStep - 1) / kStep;
  }
  /// One too many, or the first of this thread: sees to it that the thread's end frees them.
  VERBATIM_COLD static void put_slowly(void* frame, std::size_t number) noexcept;

  static inline constinit Frame closed_end{nullptr, kMost};  ///< Of a list that takes no frame.
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
