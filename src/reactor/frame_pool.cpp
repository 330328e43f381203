// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/detail/frame_pool.hpp"

namespace verbatim::detail {

void FramePool::put_slowly(void* frame, std::size_t number) noexcept {
  static constinit thread_local bool is_over = false;  // The thread is ending.
  struct Cleaner {
    ~Cleaner() {
      is_over = true;
      for (Frame*& first : lists)
        while (first != nullptr) ::operator delete(std::exchange(first, first->next));
    }
  };
  if (is_over || lists[number] != nullptr) return ::operator delete(frame);
  static thread_local const Cleaner cleaner;
  lists[number] = new (frame) Frame{nullptr, 1};
}

}  // namespace verbatim::detail
