// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/memory_object.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// Memory that allocate_object() gave out, by address. Registration finds its object here.
struct Object {
  std::uint64_t bytes;
  std::uint32_t index;
  int fd;
};
std::mutex objects_mutex;
std::map<std::uintptr_t, Object>& objects() {
  static std::map<std::uintptr_t, Object> all;
  return all;
}

}  // namespace

/// The object that holds the whole range: its index + 1 and the offset in it; 0: none does.
std::pair<std::uint32_t, std::uint64_t> object_of(std::uintptr_t address, std::uint64_t length) {
  const std::lock_guard lock{objects_mutex};
  auto after = objects().upper_bound(address);
  if (after == objects().begin()) return {0, 0};
  const auto& [start, object] = *std::prev(after);
  const std::uint64_t offset = address - start;
  if (offset > object.bytes || length > object.bytes - offset) return {0, 0};
  return {object.index + 1, offset};
}

void* allocate_object(Engine& engine, std::size_t bytes, bool huge_pages) noexcept {
  const unsigned huge = huge_pages ? MFD_HUGETLB : 0;
  const int fd = memfd_create("verbatim", MFD_CLOEXEC | huge);
  if (fd < 0) return nullptr;
  struct stat info{};
  void* address = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && fstat(fd, &info) == 0)
    address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED || madvise(address, bytes, MADV_DONTFORK) != 0) {
    const int failure = errno;
    if (address != MAP_FAILED) munmap(address, bytes);
    close(fd);
    errno = failure;
    return nullptr;
  }
  const std::lock_guard lock{objects_mutex};
  Segment& segment = engine.segment();
  for (std::uint32_t index = 0; index < kMemoryObjects; ++index) {
    MemoryObject& object = segment.objects[index];
    if (!engine.own().back(&object, sizeof object)) break;
    if (object.fd.load() != 0) continue;
    object.inode = info.st_ino;
    object.bytes = bytes;
    object.fd.store(static_cast<std::uint32_t>(fd) + 1, std::memory_order_release);
    objects().emplace(reinterpret_cast<std::uintptr_t>(address), Object{bytes, index, fd});
    return address;
  }
  // No room in the table: ordinary memory of ours then, which peers reach otherwise.
  close(fd);
  return address;
}

int free_object(Engine& engine, void* address, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock{objects_mutex};
    const auto found = objects().find(reinterpret_cast<std::uintptr_t>(address));
    if (found != objects().end()) {
      MemoryObject& object = engine.segment().objects[found->second.index];
      object.fd.store(0);
      object.inode = 0;
      close(found->second.fd);
      objects().erase(found);
    }
  }
  return munmap(address, bytes) == 0 ? 0 : errno;
}

}  // namespace verbatim::engine
