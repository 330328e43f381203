// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/slab.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>
#include <memory>
#include <random>
#include <utility>

#if VERBATIM_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace verbatim::detail {
namespace {

std::size_t bytes(std::uint32_t slots) noexcept { return std::size_t{slots} * sizeof(Slot); }

}  // namespace

Result<Slab> Slab::reserve(std::uint32_t slots) {
  if (slots > kMaxSlots)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = "reserve",
                                 .field = "operations",
                                 .value = slots,
                                 .limit = kMaxSlots});
  const std::uint32_t count = std::bit_ceil(std::max(slots, 1u));
  void* const memory = mmap(nullptr, bytes(count), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return std::unexpected(os_failure("mmap", errno));
  return Slab{static_cast<Slot*>(memory), count};
}

Slab::Slab(Slot* slots, std::uint32_t count) noexcept : slots_(slots), count_(count) {
  std::random_device random;
  first_id_ = (std::uint64_t{random()} << kIndexBits) | kGeneration;
  free_.emplace(0u, count);
#if VERBATIM_ASAN
  __lsan_register_root_region(slots_, bytes(count_));
#endif
}
Slab::Slab(Slab&& other) noexcept
    : slots_(std::exchange(other.slots_, nullptr)),
      count_(other.count_),
      made_(other.made_),
      first_id_(other.first_id_),
      free_(std::move(other.free_)) {}

Slab::~Slab() {
  if (slots_ == nullptr) return;
  std::destroy_n(slots_, made_);
#if VERBATIM_ASAN
  __lsan_unregister_root_region(slots_, bytes(count_));
#endif
  munmap(slots_, bytes(count_));
}

void Slab::make_slots_up_to(std::uint32_t end) noexcept {
  for (; made_ < end; ++made_) {
    Slot* const slot = std::construct_at(slots_ + made_);
    slot->id = first_id_ | made_;
  }
}

Result<std::span<Slot>> Slab::claim(std::uint32_t count) {
  const auto run =
      std::ranges::find_if(free_, [count](const auto& each) { return each.second >= count; });
  if (run == free_.end())
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = "claim",
                                 .field = "operations",
                                 .value = count,
                                 .limit = count_});
  const auto [first, length] = *run;
  free_.erase(run);
  if (length > count) free_.emplace(first + count, length - count);
  make_slots_up_to(first + count);
  return std::span{slots_ + first, count};
}

void Slab::give_back(std::span<Slot> run) noexcept {
  auto first = static_cast<std::uint32_t>(run.data() - slots_);
  auto length = static_cast<std::uint32_t>(run.size());
  for (Slot& slot : run) {
    slot.queue = nullptr;
    slot.scope = nullptr;
    slot.flight = {};  // The device no longer uses it.
  }
  // Merges the run with its free neighbours.
  const auto behind = free_.lower_bound(first);
  if (behind != free_.begin()) {
    const auto before = std::prev(behind);
    if (before->first + before->second == first) {
      first = before->first;
      length += before->second;
      free_.erase(before);
    }
  }
  if (behind != free_.end() && behind->first == first + length) {
    length += behind->second;
    free_.erase(behind);
  }
  free_.emplace(first, length);
}

}  // namespace verbatim::detail
