// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/process_copy.hpp"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "soft/memory/copy.hpp"

namespace verbatim::engine {
namespace {

VERBATIM_UNSEEN iovec vector_of(const void* address, std::size_t size) noexcept {
  return {const_cast<void*>(address), size};
}

/// Up to this size, the extra copy that the kernel makes for the file costs less than asking
/// whether the process is alive.
constexpr std::size_t kMostByFile = kPage;

// These are direct system calls. Sanitizers intercept the library functions of the same names, and
// must not check these copies, because they stand for DMA.

/// Copies through /proc/<pid>/mem of the owner. If the result is `no`, the caller tries again by
/// pid.
VERBATIM_UNSEEN Copied call_by_file(long number, const Location& at, const iovec* local,
                                    unsigned long vectors, std::size_t size) noexcept {
  if (size > kMostByFile) return Copied::no;
  const int file = at.owner->memory_file();
  if (file < 0) return Copied::no;
  const long copied = syscall(number, file, local, vectors, at.address, 0ul);
  return copied == static_cast<long>(size) ? Copied::yes : Copied::no;
}

VERBATIM_UNSEEN Copied call_by_pid(long number, const Location& at, const iovec& local,
                                   const iovec* remote, unsigned long vectors) noexcept {
  const std::uint32_t pid = at.owner->live_pid();
  if (pid == 0) return Copied::no;
  const long copied = syscall(number, pid, &local, 1ul, remote, vectors, 0ul);
  return copied == static_cast<long>(local.iov_len) ? Copied::yes : Copied::no;
}

}  // namespace

VERBATIM_UNSEEN Copied write_process(const Location& to, const std::byte* from,
                                     std::size_t size) noexcept {
  const std::size_t last = size > 8 ? 8 : 0;
  const unsigned long vectors = last > 0 ? 2 : 1;
  const iovec local[] = {vector_of(from, size - last), vector_of(from + (size - last), last)};
  if (call_by_file(SYS_pwritev, to, local, vectors, size) == Copied::yes) return Copied::yes;
  auto* const address = reinterpret_cast<std::byte*>(to.address);
  const iovec remote[] = {vector_of(address, size - last),
                          vector_of(address + (size - last), last)};
  return call_by_pid(SYS_process_vm_writev, to, vector_of(from, size), remote, vectors);
}

VERBATIM_UNSEEN Copied read_process(const Location& from, std::byte* to,
                                    std::size_t size) noexcept {
  const iovec local = vector_of(to, size);
  if (call_by_file(SYS_preadv, from, &local, 1, size) == Copied::yes) return Copied::yes;
  const iovec remote = vector_of(reinterpret_cast<const void*>(from.address), size);
  return call_by_pid(SYS_process_vm_readv, from, local, &remote, 1);
}

VERBATIM_UNSEEN void write_if_mapped(std::byte* to, const std::byte* from,
                                     std::size_t size) noexcept {
  const iovec local = vector_of(from, size);
  const iovec remote = vector_of(to, size);
  const long copied =
      syscall(SYS_process_vm_writev, static_cast<long>(getpid()), &local, 1ul, &remote, 1ul, 0ul);
  // If the system call itself is denied, assume that the memory is mapped.
  if (copied < 0 && errno != EFAULT) copy_bytes(to, from, size);
}

}  // namespace verbatim::engine
