// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/process_copy.hpp"

#include <sys/uio.h>

namespace verbatim::engine {
namespace {

iovec vector_of(const void* address, std::size_t size) noexcept {
  return {const_cast<void*>(address), size};
}

}  // namespace

/// The last 8 bytes in a vector of their own: the kernel copies them last.
bool write_process(const Location& to, const std::byte* from, std::size_t size) noexcept {
  const std::size_t last = size > 8 ? 8 : 0;
  auto* const address = reinterpret_cast<std::byte*>(to.address);
  const iovec local = vector_of(from, size);
  const iovec remote[] = {vector_of(address, size - last),
                          vector_of(address + (size - last), last)};
  return process_vm_writev(static_cast<pid_t>(to.owner->pid()), &local, 1, remote, last > 0 ? 2 : 1,
                           0) == static_cast<ssize_t>(size);
}

bool read_process(const Location& from, std::byte* to, std::size_t size) noexcept {
  const iovec local = vector_of(to, size);
  const iovec remote = vector_of(reinterpret_cast<const void*>(from.address), size);
  return process_vm_readv(static_cast<pid_t>(from.owner->pid()), &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(size);
}

}  // namespace verbatim::engine
