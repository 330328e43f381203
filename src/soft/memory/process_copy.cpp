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

/// The call itself, past the function of its name: sanitizers look into that one, and this is DMA.
VERBATIM_UNSEEN Copied call(long number, Peer& owner, const iovec& local, const iovec* remote,
                            unsigned long vectors) noexcept {
  const std::uint32_t pid = owner.live_pid();
  if (pid == 0) return Copied::no;
  const long copied = syscall(number, pid, &local, 1ul, remote, vectors, 0ul);
  return copied == static_cast<long>(local.iov_len) ? Copied::yes : Copied::no;
}

}  // namespace

VERBATIM_UNSEEN Copied write_process(const Location& to, const std::byte* from,
                                     std::size_t size) noexcept {
  const std::size_t last = size > 8 ? 8 : 0;
  auto* const address = reinterpret_cast<std::byte*>(to.address);
  const iovec remote[] = {vector_of(address, size - last),
                          vector_of(address + (size - last), last)};
  return call(SYS_process_vm_writev, *to.owner, vector_of(from, size), remote, last > 0 ? 2 : 1);
}

VERBATIM_UNSEEN Copied read_process(const Location& from, std::byte* to,
                                    std::size_t size) noexcept {
  const iovec remote = vector_of(reinterpret_cast<const void*>(from.address), size);
  return call(SYS_process_vm_readv, *from.owner, vector_of(to, size), &remote, 1);
}

VERBATIM_UNSEEN void write_if_mapped(std::byte* to, const std::byte* from,
                                     std::size_t size) noexcept {
  const iovec local = vector_of(from, size);
  const iovec remote = vector_of(to, size);
  const long copied =
      syscall(SYS_process_vm_writev, static_cast<long>(getpid()), &local, 1ul, &remote, 1ul, 0ul);
  // Where the call itself is denied, the memory is believed to be there.
  if (copied < 0 && errno != EFAULT) copy_bytes(to, from, size);
}

}  // namespace verbatim::engine
