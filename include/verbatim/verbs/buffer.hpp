// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registered memory that this object owns: the default way to have memory for RDMA.
///
/// 64-byte aligned, zeroed, not inherited by forked children, registered for local use only.
///
/// Ownership: move-only and null after a move; keeps its ProtectionDomain alive. Deregistered
///            before it is unmapped.
/// Threads:   one at a time.
#include <cstddef>
#include <memory>
#include <span>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/elements.hpp"
#include "verbatim/verbs/memory_region.hpp"

namespace verbatim {

namespace detail {
struct Allocation;
}

struct BufferOptions {
  HugePages huge_pages = HugePages::off;
};

class Buffer {
 public:
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  /// False after a move: the buffer is elsewhere.
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Calls `use` with the bytes, which are not to be kept beyond the call.
  template <class F>
  decltype(auto) with(F&& use) & {
    return std::forward<F>(use)(bytes());
  }
  template <class F>
  decltype(auto) with(F&& use) const& {
    return std::forward<F>(use)(bytes());
  }
  [[nodiscard]] std::span<std::byte> bytes() & VERBATIM_LIFETIMEBOUND {
    check(data_ != nullptr, "Buffer::bytes(): the buffer was moved away");
    return {data_, size_};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const& VERBATIM_LIFETIMEBOUND {
    check(data_ != nullptr, "Buffer::bytes(): the buffer was moved away");
    return {data_, size_};
  }
  void bytes() && = delete;

  /// The registration of the whole buffer.
  [[nodiscard]] const MemoryRegion& region() const& VERBATIM_LIFETIMEBOUND { return region_; }
  void region() && = delete;

  /// `size` bytes from `offset` on; the rest of the buffer where `size` is left out.
  [[nodiscard]] GatherElement gather(std::size_t offset = 0,
                                     std::size_t size = std::dynamic_extent) const&;
  [[nodiscard]] ScatterElement scatter(std::size_t offset = 0,
                                       std::size_t size = std::dynamic_extent) &;

 private:
  friend class ProtectionDomain;
  Buffer(std::unique_ptr<detail::Allocation> memory, MemoryRegion region) noexcept;
  [[nodiscard]] std::span<std::byte> part(std::size_t offset, std::size_t size) const;

  std::byte* data_;
  std::size_t size_;
  std::unique_ptr<detail::Allocation> memory_;  // Before region_: unmapped after deregistration.
  MemoryRegion region_;
};

}  // namespace verbatim
