// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/timer_heap.hpp"

namespace verbatim::detail {

Timer::~Timer() {
  if (heap != nullptr) heap->remove(*this);
}

TimerHeap::~TimerHeap() {
  for (Timer* const timer : entries_) timer->heap = nullptr;
}

void TimerHeap::set(Timer& timer, Nanoseconds when) {
  if (when == kNever) {
    remove(timer);
    return;
  }
  const bool later = when > timer.when;
  timer.when = when;
  if (timer.heap == nullptr) {
    entries_.push_back(&timer);
    timer.heap = this;
    timer.place = entries_.size() - 1;
    rise(timer);
  } else if (later) {
    sink(timer);
  } else {
    rise(timer);
  }
}

void TimerHeap::remove(Timer& timer) noexcept {
  timer.when = kNever;
  if (timer.heap == nullptr) return;
  timer.heap = nullptr;
  Timer* const last = entries_.back();
  entries_.pop_back();
  if (last == &timer) return;
  put(*last, timer.place);
  rise(*last);
  sink(*last);
}

Timer* TimerHeap::take_due(Nanoseconds now) noexcept {
  if (entries_.empty() || entries_.front()->when > now) return nullptr;
  Timer* const timer = entries_.front();
  remove(*timer);
  return timer;
}

void TimerHeap::put(Timer& timer, std::size_t place) noexcept {
  entries_[place] = &timer;
  timer.place = place;
}

void TimerHeap::rise(Timer& timer) noexcept {
  std::size_t place = timer.place;
  while (place > 0) {
    const std::size_t above = (place - 1) / 2;
    if (entries_[above]->when <= timer.when) break;
    put(*entries_[above], place);
    place = above;
  }
  put(timer, place);
}

void TimerHeap::sink(Timer& timer) noexcept {
  std::size_t place = timer.place;
  for (;;) {
    std::size_t below = 2 * place + 1;
    if (below >= entries_.size()) break;
    if (below + 1 < entries_.size() && entries_[below + 1]->when < entries_[below]->when) ++below;
    if (timer.when <= entries_[below]->when) break;
    put(*entries_[below], place);
    place = below;
  }
  put(timer, place);
}

}  // namespace verbatim::detail
