// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/dma_model.hpp"

#if VERBATIM_DMA_MODELLED

#include <execinfo.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>
#include <mutex>

#include "base/dma_backends.hpp"
#include "base/dma_checksum.hpp"
#include "base/dma_operation.hpp"
#include "base/dma_tracker.hpp"
#include "verbatim/base/check.hpp"

namespace verbatim::dma {
namespace detail {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

struct Model {
  Lock lock;
  Tracker tracker;
  std::atomic<std::size_t> ranges_in_flight{0};  // tracker.size(), without the lock.
};

/// Never destroyed, because a Flight may be one of the last objects of a program.
Model& model() {
  static Model* const immortal = new Model;
  return *immortal;
}

/// Whether this thread holds the lock. If so, a hook of the allocator would wait for itself.
thread_local bool at_work = false;

class AtWork {
 public:
  AtWork() noexcept : guard_(model().lock) { at_work = true; }
  ~AtWork() { at_work = false; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  std::lock_guard<Lock> guard_;
};

Operation* create() { return new Operation; }

Interval interval_of(const Range& range, const Operation& operation) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data);
  return {begin, begin + range.size, operation.direction, &operation};
}

const char* verb(Direction direction) noexcept {
  return direction == Direction::device_reads ? "reads" : "writes";
}

[[noreturn]] VERBATIM_COLD void overlap_found(const Interval& wanted, const Interval& other) {
  thread_local std::array<char, 1024> text;
  const std::source_location& here = wanted.operation->where;
  const std::source_location& there = other.operation->where;
  std::snprintf(
      text.data(), text.size(),
      "buffer overlaps an operation in flight: the device %s %zu bytes at %#zx, posted at "
      "%s:%u, and still %s %zu bytes at %#zx, posted at %s:%u; they share",
      verb(wanted.direction), wanted.end - wanted.begin, wanted.begin, here.file_name(),
      here.line(), verb(other.direction), other.end - other.begin, other.begin, there.file_name(),
      there.line());
  const std::uintptr_t shared =
      std::min(wanted.end, other.end) - std::max(wanted.begin, other.begin);
  contract_violated(text.data(), shared, 0, here);
}

[[noreturn]] VERBATIM_COLD void modification_found(const Operation& operation, std::size_t index) {
  thread_local std::array<char, 1024> text;
  const Range& range = operation.ranges[index];
  std::snprintf(
      text.data(), text.size(),
      "send buffer was modified while the device was reading it: %zu bytes at %#zx, posted "
      "at %s:%u; element",
      range.size, reinterpret_cast<std::uintptr_t>(range.data), operation.where.file_name(),
      operation.where.line());
  contract_violated(text.data(), index, operation.count, operation.where);
}

void track(Operation& operation) {
  Model& all = model();
  const AtWork locked;
  for (std::size_t i = 0; i < operation.count; ++i) {
    const Interval wanted = interval_of(operation.ranges[i], operation);
    if (const auto other = all.tracker.conflict(wanted)) overlap_found(wanted, *other);
    operation.tracked[i] = all.tracker.insert(wanted);
  }
  all.ranges_in_flight.store(all.tracker.size(), std::memory_order_relaxed);
}

void forget(Operation& operation) noexcept {
  Model& all = model();
  const AtWork locked;
  for (std::size_t i = 0; i < operation.count; ++i) all.tracker.erase(operation.tracked[i]);
  all.ranges_in_flight.store(all.tracker.size(), std::memory_order_relaxed);
  operation.in_flight = false;
}

void take_checksums(Operation& operation) noexcept {
  operation.summed = VERBATIM_IS_CHECKED && operation.direction == Direction::device_reads;
  if (operation.summed)
    std::ranges::transform(operation.covered(), operation.sums.begin(), checksum);
}

void compare_checksums(const Operation& operation) {
  for (std::size_t i = 0; operation.summed && i < operation.count; ++i)
    if (checksum(operation.ranges[i]) != operation.sums[i]) modification_found(operation, i);
}

void fill(Operation& operation, Direction direction, std::span<const Range> ranges,
          const std::source_location& where) {
  check(!operation.in_flight, "a Flight is posted once until it completes", where);
  operation.in_flight = true;
  operation.direction = direction;
  operation.where = where;
  operation.count = 0;
  for (const Range& range : ranges) {
    if (range.size == 0) continue;
    check(operation.count < kMaxRanges, "an operation has at most 32 ranges", where);
    operation.ranges[operation.count++] = range;
  }
}

/// Captures the stack, from the frame with this return address on.
void capture([[maybe_unused]] Stack& stack, [[maybe_unused]] const void* caller) noexcept {
#if VERBATIM_ASAN || VERBATIM_TSAN
  const int depth = ::backtrace(stack.frames.data(), static_cast<int>(stack.frames.size()));
  stack.depth = static_cast<std::size_t>(std::max(depth, 0));
  const auto captured = std::span{stack.frames}.first(stack.depth);
  const auto found = std::ranges::find(captured, caller);
  stack.first = found == captured.end() ? 0 : static_cast<std::size_t>(found - captured.begin());
#endif
}

/// Ends a flight. The order is that in which the memory returns to the program.
void land(Operation* operation, std::size_t bytes) {
  {
    const Unseen unseen;
    check(operation != nullptr && operation->in_flight, "a Flight lands once after each post");
    memcheck_completed(*operation, bytes);
    asan_completed(*operation);
    forget(*operation);
  }
  tsan_completed(*operation);
}

}  // namespace

const Operation* find_in_flight(const void* data, std::size_t size) noexcept {
  if (at_work || size == 0) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const AtWork locked;
  const auto found = model().tracker.overlap({.begin = begin, .end = begin + size});
  return found ? found->operation : nullptr;
}

bool anything_in_flight() noexcept {
  return model().ranges_in_flight.load(std::memory_order_relaxed) != 0;
}

}  // namespace detail

Queue::Queue(const char* name) noexcept : state_(detail::tsan_open(name)) {}

void Queue::release() noexcept { detail::tsan_close(state_); }

bool Flight::in_flight() const noexcept {
  const detail::Unseen unseen;
  return operation_ != nullptr && operation_->in_flight;
}

void Flight::release() noexcept {
  if (operation_ == nullptr) return;
  if (operation_->in_flight) withdrawn(*this);
  const detail::Unseen unseen;
  delete operation_;
}

void posted(Queue& queue, Flight& flight, Direction direction, std::span<const Range> ranges,
            const std::source_location& where) noexcept {
  {
    const detail::Unseen unseen;
    if (flight.operation_ == nullptr) flight.operation_ = detail::create();
    detail::Operation& operation = *flight.operation_;
    detail::fill(operation, direction, ranges, where);
    operation.queue = &queue;
    detail::capture(operation.stack, __builtin_return_address(0));
    detail::track(operation);
    operation.summed = false;
    if (detail::memcheck_posted(operation)) detail::take_checksums(operation);
    detail::asan_posted(operation);
  }
#if VERBATIM_TSAN
  detail::tsan_posted(*queue.state_, *flight.operation_);
#endif
}

void withdrawn(Flight& flight) noexcept { detail::land(flight.operation_, detail::kEverything); }

void completed(Flight& flight, std::size_t bytes) noexcept {
  {
    const detail::Unseen unseen;
    if (flight.operation_ != nullptr) detail::compare_checksums(*flight.operation_);
  }
  detail::land(flight.operation_, bytes);
}

}  // namespace verbatim::dma

#endif
