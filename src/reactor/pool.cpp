// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/pool.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <climits>
#include <ctime>

#include "base/timespec.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/sanitizers.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/block_stride.hpp"
#include "verbs/hidden_block.hpp"

namespace verbatim {
namespace detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kOwnTimeout{10};

/// The futex is the lower half of `returned`, which says "awaited".
std::uint32_t* futex_of(std::atomic<std::uintptr_t>& word) noexcept {
  static_assert(std::endian::native == std::endian::little);
  return reinterpret_cast<std::uint32_t*>(&word);
}
void sleep_while_awaited(std::atomic<std::uintptr_t>& word,
                         std::chrono::nanoseconds time) noexcept {
  const timespec limit = to_timespec(time);
  syscall(SYS_futex, futex_of(word), FUTEX_WAIT_PRIVATE,
          static_cast<std::uint32_t>(ReturnedBlocks::kAwaited), &limit, nullptr, 0);
}
/// Uses only the address. The pool may be gone, and then nobody sleeps there.
void wake(std::atomic<std::uintptr_t>& word) noexcept {
  syscall(SYS_futex, futex_of(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

PoolState::PoolState(ProtectionDomain in, const PoolOptions& chosen) noexcept
    : BufferHome{&PoolState::give_back}, domain(std::move(in)), options(chosen) {}

PoolState::~PoolState() {
  // The system may give the memory to another owner.
  if constexpr (VERBATIM_ASAN)
    for (const BufferBlock& block : blocks) arrive(block);
}

void PoolState::arrive(const BufferBlock& block) noexcept { show(block); }

Result<void> PoolState::grow(std::uint32_t count) {
  const auto refuse = [](Errc code, const char* field, std::uint64_t value, std::uint64_t limit) {
    return std::unexpected(
        Error{.code = code, .operation = "pool", .field = field, .value = value, .limit = limit});
  };
  if (options.bytes == 0) return refuse(Errc::invalid_argument, "bytes", 0, 0);
  if (count == 0) return refuse(Errc::invalid_argument, "count", 0, 0);
  const std::uint64_t limit = domain.context().capabilities().max_region_bytes;
  if (options.bytes > limit - std::min<std::uint64_t>(limit, kBlockAlignment))
    return refuse(Errc::limit_exceeded, "bytes", options.bytes, limit);
  const std::size_t stride = stride_of(options.bytes);
  if (count > limit / stride) return refuse(Errc::limit_exceeded, "count", count, limit / stride);
  if (count > UINT32_MAX - total)
    return refuse(Errc::limit_exceeded, "count", count, UINT32_MAX - total);
  arenas.push_back(
      VERBATIM_TRY(domain.allocate(stride * count, {.huge_pages = options.huge_pages})));
  Buffer& arena = arenas.back();
  // From the last to the first, so that they are taken in the order of their addresses.
  for (std::uint32_t i = count; i-- > 0;) {
    const std::span<std::byte> part = arena.bytes().subspan(i * stride, options.bytes);
    BufferBlock& block = blocks.emplace_back(*this, part, Raw::part_of(arena.region(), part));
    hide(block);
    block.next = std::exchange(free, &block);
  }
  total += count;
  return {};
}

void PoolState::give_back(BufferHome& home, BufferBlock& block) noexcept {
  auto& pool = static_cast<PoolState&>(home);
  if constexpr (VERBATIM_ASAN) hide(block);
  if (!pool.is_taker()) [[unlikely]] {
    pool.give_back_slowly(block);
    return;
  }
  block.next = std::exchange(pool.free, &block);
}

void PoolState::give_back_slowly(BufferBlock& block) noexcept {
  std::atomic<std::uintptr_t>& word = returned.word();
  for (;;) {
    switch (returned.put(block, [] {})) {
      case ReturnedBlocks::Put::queued:
        if (!give_to_first(block)) continue;  // The last waiter has left.
        break;
      case ReturnedBlocks::Put::last: delete this; break;
      case ReturnedBlocks::Put::awaited: wake(word); break;
      case ReturnedBlocks::Put::kept:
      case ReturnedBlocks::Put::closed: break;
    }
    return;
  }
}

bool PoolState::collect() noexcept {
  BufferBlock* const list = returned.take();
  if (list == nullptr) return false;
  BufferBlock* last = list;
  while (last->next != nullptr) last = last->next;
  last->next = std::exchange(free, list);
  return true;
}

Buffer PoolState::take_slowly(std::source_location where) {
  if (returned.is_queued()) return Raw::buffer(nullptr);
  if (thread.load(std::memory_order_relaxed) == 0)
    thread.store(this_thread(), std::memory_order_relaxed);
  check(is_taker(), "Pool: another thread took from it before", where);
  if (free == nullptr && !collect()) return Raw::buffer(nullptr);
  return take(where);
}

Result<Buffer> PoolState::wait(Deadline deadline) {
  if (deadline.kind() == Deadline::Kind::own) deadline = kOwnTimeout;
  const Clock::time_point end = deadline.end(Clock::now());
  if (returned.is_queued())
    return std::unexpected(Error{
        .code = Errc::would_block, .operation = "pool", .field = "coroutines wait for buffers"});
  for (;;) {
    if (returned.await()) {
      const Clock::time_point now = Clock::now();
      if (now < end)
        sleep_while_awaited(returned.word(),
                            std::min<std::chrono::nanoseconds>(end - now, std::chrono::hours{24}));
    }
    if (collect()) return take(std::source_location::current());
    if (Clock::now() >= end) return std::unexpected(all_are_out());
  }
}

Error PoolState::all_are_out() const noexcept {
  return {.code = Errc::timed_out,
          .operation = "pool",
          .field = "buffers that are out",
          .value = total,
          .limit = total};
}

void PoolState::close() noexcept {
  thread.store(0, std::memory_order_relaxed);
  std::uint32_t home = length_of(std::exchange(free, nullptr));
  close_queue();
  home += length_of(returned.close());
  if (returned.expect(total - home)) delete this;
}

}  // namespace detail

// ---- Pool ---------------------------------------------------------------------------------------

Result<Pool> Pool::create(const ProtectionDomain& domain, const PoolOptions& options) {
  Pool pool{new detail::PoolState{domain, options}};
  VERBATIM_TRY(pool.grow(options.count));
  return pool;
}

Result<Buffer> Pool::take(Deadline deadline, Where where) {
  if (Buffer buffer = state_->take(where)) return buffer;
  return state_->wait(deadline);
}

std::uint32_t Pool::free() const noexcept {
  [[maybe_unused]] const bool any = state_->collect();
  return detail::length_of(state_->free);
}

Pool::Pool(Pool&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {
  // The pool may have been handed to another thread. Until this thread takes again, its drops are
  // treated like those of any thread.
  if (state_ != nullptr && state_->is_taker()) state_->thread.store(0, std::memory_order_relaxed);
}

Pool& Pool::operator=(Pool&& other) noexcept {
  Pool moved{std::move(other)};
  std::swap(state_, moved.state_);
  return *this;
}

Pool::~Pool() {
  if (state_ != nullptr) state_->close();
}

// ---- Pools --------------------------------------------------------------------------------------

Pools::Pools(std::vector<Pool> pools)
    : pools_(std::move(pools)), end_(pools_.data() + pools_.size()) {
  for (std::size_t width = 0; width < first_.size(); ++width) {
    const std::size_t least = width == 0 ? 0 : std::size_t{1} << (width - 1);
    const auto at = std::ranges::lower_bound(pools_, least, {}, &Pool::bytes);
    first_[width] = pools_.data() + (at - pools_.begin());
  }
}

Result<Pools> Pools::create(const ProtectionDomain& domain, std::vector<PoolOptions> sizes) {
  if (sizes.empty())
    return std::unexpected(
        Error{.code = Errc::invalid_argument, .operation = "pools", .field = "no sizes"});
  std::ranges::sort(sizes, {}, &PoolOptions::bytes);
  std::vector<Pool> pools;
  for (const PoolOptions& each : sizes) {
    if (!pools.empty() && pools.back().bytes() == each.bytes)
      return std::unexpected(Error{.code = Errc::invalid_argument,
                                   .operation = "pools",
                                   .field = "the same size twice: bytes",
                                   .value = each.bytes});
    pools.push_back(VERBATIM_TRY(Pool::create(domain, each)));
  }
  return Pools{std::move(pools)};
}

Result<Buffer> Pools::take(std::size_t bytes, Deadline deadline, Where where) {
  const auto at = std::ranges::lower_bound(pools_, bytes, {}, &Pool::bytes);
  if (at == pools_.end())
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = "pools",
                                 .field = "bytes",
                                 .value = bytes,
                                 .limit = pools_.back().bytes()});
  return at->take(deadline, where);
}

}  // namespace verbatim
