// SPDX-License-Identifier: MIT OR Apache-2.0
#include "provider/memory.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace verbatim::detail {

void* allocate_pages(ibv_context*, std::size_t bytes, HugePages huge_pages) {
  const int huge = huge_pages == HugePages::reserved ? MAP_HUGETLB : 0;
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | huge, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  // If a child inherited these pages, copy-on-write could move the parent's copy away from the
  // device.
  if (madvise(address, bytes, MADV_DONTFORK) != 0) {
    const int failure = errno;
    munmap(address, bytes);
    errno = failure;
    return nullptr;
  }
  // Only a hint: a kernel without transparent huge pages returns EINVAL, and ordinary pages work
  // too.
  if (huge_pages == HugePages::transparent) madvise(address, bytes, MADV_HUGEPAGE);
  return address;
}

int free_pages(ibv_context*, void* address, std::size_t bytes) {
  return munmap(address, bytes) == 0 ? 0 : errno;
}

}  // namespace verbatim::detail
