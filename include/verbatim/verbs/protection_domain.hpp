// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A protection domain: memory and queue pairs that may be used together.
///
/// Ownership: a cheap, shared handle. Keeps its Context alive; what is created from it keeps it
/// alive. Threads:   any.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/required.hpp"
#include "verbatim/verbs/access.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/memory_region.hpp"
#include "verbatim/verbs/shared_region.hpp"

namespace verbatim {

class AddressHandle;
class SharedReceiveQueue;
struct AddressOptions;
struct SharedReceiveQueueOptions;

namespace detail {
struct Raw;
struct Allocation;
struct DomainState;
}  // namespace detail

/// Memory of another device, shared through a file descriptor.
struct DmabufOptions {
  Required<int> fd;
  std::uint64_t offset = 0;  ///< Into the dmabuf.
  Required<std::uint64_t> length;
  std::uint64_t iova = 0;  ///< The address that work requests and peers use for the first byte.
  AccessFlags access = Access::local_write;
};

class ProtectionDomain {
 public:
  [[nodiscard]] Context context() const noexcept;

  /// Allocates registered memory that the buffer owns. `bytes` must not be 0.
  [[nodiscard]] Result<Buffer> allocate(std::size_t bytes, BufferOptions options = {}) const;
  /// Room for `count` objects of type T, all bytes zero: see Buffer::as().
  template <BufferElement T>
  [[nodiscard]] Result<Buffer> allocate(std::size_t count, BufferOptions options = {}) const {
    // Too many: the call refuses, with a number that shows it.
    const std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(T);
    return allocate(std::min(count, most) * sizeof(T), options);
  }
  /// Allocates memory that peers may use with `remote` rights.
  [[nodiscard]] Result<SharedRegion> allocate_shared(std::size_t bytes, AccessFlags remote,
                                                     BufferOptions options = {}) const;

  /// Borrowed memory for local use: a container, one object or a span. It must outlive the region.
  template <NamedMemory R>
  [[nodiscard]] Result<MemoryRegion> register_local(R& range VERBATIM_LIFETIMEBOUND) const {
    static_assert(!detail::kIsConstMemory<R>,
                  "verbatim: register_local() of const memory: use register_read_only()");
    return register_bytes(std::as_writable_bytes(detail::as_span(range)), Access::local_write);
  }
  template <class T, std::size_t N>
  [[nodiscard]] Result<MemoryRegion> register_local(
      std::span<T, N> range VERBATIM_LIFETIMEBOUND) const {
    return register_bytes(std::as_writable_bytes(range), Access::local_write);
  }
  template <DyingMemory R>
  Result<MemoryRegion> register_local(R&&) const {
    static_assert(!DyingMemory<R>,
                  "verbatim: register_local() of a temporary: name it, it must outlive the region");
    std::unreachable();
  }

  /// Borrowed memory that the device only reads; the mapping itself may be read-only.
  template <NamedMemory R>
  [[nodiscard]] Result<MemoryRegion> register_read_only(
      const R& range VERBATIM_LIFETIMEBOUND) const {
    return register_bytes(writable(std::as_bytes(detail::as_span(range))), {});
  }
  template <class T, std::size_t N>
  [[nodiscard]] Result<MemoryRegion> register_read_only(
      std::span<T, N> range VERBATIM_LIFETIMEBOUND) const {
    return register_bytes(writable(std::as_bytes(range)), {});
  }
  template <DyingMemory R>
  Result<MemoryRegion> register_read_only(R&&) const {
    static_assert(!DyingMemory<R>,
                  "verbatim: register_read_only() of a temporary: name it, it must outlive the "
                  "region");
    std::unreachable();
  }

  /// Borrowed memory that peers may use with `remote` rights until the region is destroyed.
  template <class T, std::size_t N>
  [[nodiscard]] Result<SharedRegion> register_shared(
      std::span<T, N> range VERBATIM_LIFETIMEBOUND,
      AccessFlags remote = Access::remote_read | Access::remote_write) const {
    return share_borrowed(std::as_writable_bytes(range), remote);
  }
  template <NamedMemory R>
  [[nodiscard]] Result<SharedRegion> register_shared(
      R& range VERBATIM_LIFETIMEBOUND,
      AccessFlags remote = Access::remote_read | Access::remote_write) const {
    return share_borrowed(std::as_writable_bytes(detail::as_span(range)), remote);
  }

  /// Borrowed memory with the caller's own flags, passed to the device unchanged.
  [[nodiscard]] Result<MemoryRegion> register_custom(
      std::span<std::byte> range VERBATIM_LIFETIMEBOUND, AccessFlags access) const {
    return register_bytes(range, access);
  }
  [[nodiscard]] Result<MemoryRegion> register_dmabuf(const DmabufOptions& options) const;

  [[nodiscard]] Result<SharedReceiveQueue> create_shared_receive_queue(
      const SharedReceiveQueueOptions& options) const;
  /// Where datagrams go. `QueuePair::address_handle(peer)` finds the path itself.
  [[nodiscard]] Result<AddressHandle> create_address_handle(const AddressOptions& options) const;

  friend bool operator==(const ProtectionDomain&, const ProtectionDomain&) noexcept = default;

 private:
  friend class Context;
  friend class QueuePair;
  friend struct detail::Raw;
  explicit ProtectionDomain(std::shared_ptr<detail::DomainState> state) noexcept;

  /// Registration takes a pointer to non-const for any access; without local_write the device does
  /// not write through it.
  static std::span<std::byte> writable(std::span<const std::byte> bytes) noexcept {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] Result<MemoryRegion> register_bytes(std::span<std::byte> bytes,
                                                    AccessFlags access) const;
  /// Out of line, because Allocation is incomplete here.
  [[nodiscard]] Result<SharedRegion> share_borrowed(std::span<std::byte> bytes,
                                                    AccessFlags remote) const;
  [[nodiscard]] Result<SharedRegion> share(std::unique_ptr<detail::Allocation> memory,
                                           std::span<std::byte> bytes, AccessFlags remote) const;

  std::shared_ptr<detail::DomainState> state_;
};

}  // namespace verbatim
