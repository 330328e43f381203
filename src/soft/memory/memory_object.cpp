// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/memory_object.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

namespace verbatim::engine {
namespace {

/// Allocations up to this size share memory objects.
constexpr std::size_t kSmallBytes = std::size_t{256} * 1024;
/// The size of the first shared object. Each further one is twice as large, up to a bound. This
/// reserves addresses, not memory.
constexpr std::size_t kFirstShared = std::size_t{4} << 20;
constexpr unsigned kMostDoublings = 6;

std::uint32_t pages_of(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kPage - 1) / kPage);
}

/// Throws the failure in errno, after closing the descriptor.
[[noreturn]] void give_up(int fd) {
  const int failure = errno;
  close(fd);
  throw std::system_error{failure, std::generic_category()};
}

}  // namespace

MemoryObjects::~MemoryObjects() {
  while (!abandoned_.load() && !objects_.empty()) remove(objects_.begin());
}

void MemoryObjects::abandon() noexcept {
  // The child does not have these mappings. Whatever lies at their addresses now is not ours.
  for (const auto& [address, object] : objects_)
    if (object.fd >= 0) close(object.fd);
  abandoned_.store(true);
  mutex_.unlock();
}

MemoryObjects::All::iterator MemoryObjects::make(std::size_t bytes, bool huge) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
  const int fd = memfd_create("verbatim", flags);
  if (fd < 0) throw std::system_error{errno, std::generic_category()};
  if (const int failure = set_file_size(fd, bytes)) {
    errno = failure;
    give_up(fd);
  }
  struct stat info{};
  // Peers map only objects that nobody can shrink while they use them.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0 || fstat(fd, &info) != 0) give_up(fd);
  void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) give_up(fd);
  try {
    if (madvise(address, bytes, MADV_DONTFORK) != 0)
      throw std::system_error{errno, std::generic_category()};
    const auto made = objects_.try_emplace(reinterpret_cast<std::uintptr_t>(address)).first;
    made->second.bytes = bytes;
    made->second.published = publish_locked(fd, info.st_ino, bytes);
    if (made->second.published != 0) {
      made->second.fd = fd;
    } else {
      close(fd);  // The table is full: this stays ordinary memory.
    }
    return made;
  } catch (...) {
    munmap(address, bytes);
    close(fd);
    throw;
  }
}

void MemoryObjects::remove(All::iterator object) noexcept {
  if (object->second.published != 0) withdraw_locked(object->second.published);
  if (object->second.fd >= 0) close(object->second.fd);
  munmap(reinterpret_cast<void*>(object->first), object->second.bytes);
  objects_.erase(object);
}

void* MemoryObjects::allocate_small(std::uint32_t pages) {
  for (auto& [address, object] : objects_) {
    if (!object.pages) continue;
    if (const auto first = object.pages->take(pages))
      return reinterpret_cast<void*>(address + *first * kPage);
  }
  const std::size_t bytes = kFirstShared << std::min(shared_objects_, kMostDoublings);
  auto map = std::make_unique<PageMap>(pages_of(bytes));
  const auto made = make(bytes, false);
  made->second.pages = std::move(map);
  ++shared_objects_;
  const auto first = made->second.pages->take(pages);
  return reinterpret_cast<void*>(made->first + first.value_or(0) * kPage);
}

void* MemoryObjects::allocate(std::size_t bytes, ObjectPages pages) noexcept {
  if (abandoned_.load()) {
    errno = EOWNERDEAD;
    return nullptr;
  }
  try {
    const std::lock_guard lock{mutex_};
    if (pages == ObjectPages::ordinary && bytes > 0 && bytes <= kSmallBytes)
      return allocate_small(pages_of(bytes));
    const auto made = make(bytes, pages == ObjectPages::reserved_huge);
    void* const address = reinterpret_cast<void*>(made->first);
    if (pages == ObjectPages::transparent_huge)
      madvise(address, bytes, MADV_HUGEPAGE);  // Only a hint; ordinary pages work too.
    return address;
  } catch (const std::system_error& failure) {
    errno = failure.code().value();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
  }
  return nullptr;
}

int MemoryObjects::free_small(All::iterator object, std::uint64_t offset,
                              std::uint32_t pages) noexcept {
  if (offset % kPage != 0 ||
      !object->second.pages->give(static_cast<std::uint32_t>(offset / kPage), pages))
    return EINVAL;
  auto* const memory = reinterpret_cast<std::byte*>(object->first) + offset;
  if (object->second.pages->is_empty() && shared_objects_ > 1) {
    --shared_objects_;
    remove(object);
  } else if (madvise(memory, pages * kPage, MADV_REMOVE) != 0) {
    std::memset(memory, 0, pages * kPage);
  }
  return 0;
}

int MemoryObjects::free(void* address, std::size_t bytes) noexcept {
  // A forked child has nothing to free, because the memory stayed with the parent.
  if (abandoned_.load()) return 0;
  const std::lock_guard lock{mutex_};
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto object = objects_.upper_bound(at);
  if (object == objects_.begin()) return EINVAL;
  --object;
  if (object->second.pages && at - object->first < object->second.bytes)
    return free_small(object, at - object->first, pages_of(bytes));
  if (object->first != at) return EINVAL;
  remove(object);
  return 0;
}

MemoryObjects::Place MemoryObjects::find(std::uint64_t address, std::uint64_t length) noexcept {
  if (abandoned_.load()) return {};
  const std::lock_guard lock{mutex_};
  const auto after = objects_.upper_bound(address);
  bool overlaps =
      after != objects_.end() && after->first - address < length && after->second.published != 0;
  if (after != objects_.begin()) {
    const auto& [start, object] = *std::prev(after);
    const std::uint64_t offset = address - start;
    if (offset < object.bytes && object.published != 0) {
      if (length <= object.bytes - offset) return {object.published, offset};
      overlaps = true;
    }
  }
  return {overlaps ? kPartlyObject : 0, 0};
}

std::uint32_t MemoryObjects::publish(int fd, std::uint64_t inode, std::uint64_t bytes) noexcept {
  if (abandoned_.load()) return 0;
  const std::lock_guard lock{mutex_};
  return publish_locked(fd, inode, bytes);
}

std::uint32_t MemoryObjects::publish_locked(int fd, std::uint64_t inode,
                                            std::uint64_t bytes) noexcept {
  const auto word = std::ranges::find_if(places_, [](std::uint64_t each) { return ~each != 0; });
  if (word == places_.end()) return 0;
  const auto bit = static_cast<unsigned>(std::countr_one(*word));
  const auto index = static_cast<std::uint32_t>(word - places_.begin()) * 64 + bit;
  MemoryObject& object = own_.shared().objects[index];
  if (!own_.back(&object, sizeof object)) return 0;
  *word |= std::uint64_t{1} << bit;
  object.bytes = bytes;
  __atomic_store_n(&object.inode, inode, __ATOMIC_RELAXED);
  object.fd.store(static_cast<std::uint32_t>(fd) + 1, std::memory_order_release);
  return index + 1;
}

void MemoryObjects::withdraw(std::uint32_t index_plus_one) noexcept {
  if (abandoned_.load()) return;
  const std::lock_guard lock{mutex_};
  withdraw_locked(index_plus_one);
}

void MemoryObjects::withdraw_locked(std::uint32_t index_plus_one) noexcept {
  const std::uint32_t index = index_plus_one - 1;
  MemoryObject& object = own_.shared().objects[index];
  object.fd.store(0);
  __atomic_store_n(&object.inode, 0, __ATOMIC_RELAXED);
  places_[index / 64] &= ~(std::uint64_t{1} << index % 64);
}

}  // namespace verbatim::engine
