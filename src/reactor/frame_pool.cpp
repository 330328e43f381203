// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/detail/frame_pool.hpp"

namespace verbatim::detail {

void FramePool::put_slowly(void* frame, std::size_t number) noexcept {
  static constinit thread_local bool is_over = false;  // The thread is ending.
  struct Cleaner {
    Cleaner() noexcept { lists.fill(&open_end); }
    ~Cleaner() {
      is_over = true;
      for (Frame*& first : lists) {
        while (first->next != nullptr) ::operator delete(std::exchange(first, first->next));
        first = &closed_end;
      }
    }
  };
  if (is_over || lists[number]->next != nullptr) return ::operator delete(frame);
  static thread_local const Cleaner cleaner;
  lists[number] = new (frame) Frame{&open_end, 1};
}

}  // namespace verbatim::detail
