// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registered memory that this object owns: the default kind of memory for RDMA.
///
/// 64-byte aligned, zeroed, not inherited by forked children, registered for local use only.
///
/// Ownership: move-only and null after a move; keeps its ProtectionDomain alive. Deregistered
///            before it is unmapped. clang finds a use after a move (-Wconsumed), else check()
///            does.
/// Threads:   one at a time.
#include <cstddef>
#include <memory>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/elements.hpp"
#include "verbatim/verbs/memory_region.hpp"

namespace verbatim {

namespace detail {
struct Allocation;
struct BufferBlock;

/// Where blocks go when their Buffer is dropped.
struct BufferHome {
  void (*take_back)(BufferHome& home, BufferBlock& block) noexcept;
};

/// A buffer's memory and registration. The block keeps its address, so that a Buffer is one
/// pointer: every operation moves it in and out again.
struct BufferBlock {
  BufferBlock(std::unique_ptr<Allocation> allocated, MemoryRegion registered) noexcept;
  /// A part of memory that the home owns.
  BufferBlock(BufferHome& of, std::span<std::byte> part, MemoryRegion registered) noexcept;
  ~BufferBlock();
  BufferBlock(const BufferBlock&) = delete;
  BufferBlock& operator=(const BufferBlock&) = delete;

  std::byte* data;
  std::size_t size;
  std::uint32_t key;                   ///< The region's, kept beside what the data path reads.
  std::uint32_t views = 0;             ///< How many with() calls access the bytes now.
  bool is_dropped = false;             ///< Its Buffer is gone: the last view frees it.
  BufferHome* home;                    ///< The home of a stand-alone Buffer frees it.
  BufferBlock* next = nullptr;         ///< For the home.
  std::unique_ptr<Allocation> memory;  // Before region: unmapped after deregistration.
  MemoryRegion region;
};
}  // namespace detail

/// What a Buffer can be viewed as. Pointers and views are excluded: what they refer to is
/// elsewhere.
template <class T>
concept BufferElement =
    std::is_object_v<T> && std::is_trivially_copyable_v<T> && !std::is_const_v<T> &&
    !std::is_pointer_v<T> && !std::ranges::view<T> && alignof(T) <= 64;

struct BufferOptions {
  HugePages huge_pages = HugePages::off;
};

class VERBATIM_CONSUMABLE Buffer {
 public:
  using Where =
      std::source_location;  ///< The caller's line: a use of a moved-from buffer is reported there.

  Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  VERBATIM_RESTORES Buffer& operator=(Buffer&& other) noexcept {
    detail::BufferBlock* const former = std::exchange(block_, std::exchange(other.block_, nullptr));
    if (former != nullptr && former != block_) [[unlikely]]
      free_block(former);
    return *this;
  }
  ~Buffer() {
    if (block_ != nullptr) [[unlikely]]
      free_block(block_);
  }

  /// False after a move.
  [[nodiscard]] explicit operator bool() const noexcept { return block_ != nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return block_ != nullptr ? block_->size : 0; }
  /// Whether a with() accesses the bytes now. Not for a moved-from buffer.
  [[nodiscard]] bool is_seen() const noexcept { return block_->views != 0; }

  /// Calls `use` with the bytes, which must not be kept beyond the call. Posting the buffer from
  /// inside is a programming error that is found.
  template <class F>
  VERBATIM_UNCONSUMED_ONLY decltype(auto) with(F&& use, Where where = Where::current()) & {
    const std::span<std::byte> seen = bytes(where);
    const View view{*block_};
    return std::forward<F>(use)(seen);
  }
  template <class F>
  VERBATIM_UNCONSUMED_ONLY decltype(auto) with(F&& use, Where where = Where::current()) const& {
    const std::span<const std::byte> seen = bytes(where);
    const View view{*block_};
    return std::forward<F>(use)(seen);
  }
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] std::span<std::byte>
      bytes(Where where = Where::current()) & VERBATIM_LIFETIMEBOUND {
    check(block_ != nullptr, "Buffer::bytes(): the buffer was moved away", where);
    return {block_->data, block_->size};
  }
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] std::span<const std::byte> bytes(
      Where where = Where::current()) const& VERBATIM_LIFETIMEBOUND {
    check(block_ != nullptr, "Buffer::bytes(): the buffer was moved away", where);
    return {block_->data, block_->size};
  }
  void bytes() && = delete;

  /// The bytes as objects of type T, as many as fit. In a new buffer all bytes are zero, whatever
  /// the members' initializers say.
  template <BufferElement T>
      VERBATIM_UNCONSUMED_ONLY [[nodiscard]] std::span<T> as(Where where = Where::current()) &
      VERBATIM_LIFETIMEBOUND {
    const std::span<std::byte> all = bytes(where);
    return {reinterpret_cast<T*>(all.data()), all.size() / sizeof(T)};
  }
  template <BufferElement T>
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] std::span<const T> as(
      Where where = Where::current()) const& VERBATIM_LIFETIMEBOUND {
    const std::span<const std::byte> all = bytes(where);
    return {reinterpret_cast<const T*>(all.data()), all.size() / sizeof(T)};
  }
  template <class T>
  void as() && = delete;

  /// The registration of the whole buffer.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] const MemoryRegion& region(
      Where where = Where::current()) const& VERBATIM_LIFETIMEBOUND {
    check(block_ != nullptr, "Buffer::region(): the buffer was moved away", where);
    return block_->region;
  }
  void region() && = delete;

  /// `size` bytes from `offset` on; without `size`, the rest of the buffer.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] GatherElement gather(
      std::size_t offset, std::size_t size = std::dynamic_extent,
      Where where = Where::current()) const&;
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] ScatterElement scatter(
      std::size_t offset, std::size_t size = std::dynamic_extent, Where where = Where::current()) &;
  // The whole buffer.
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] VERBATIM_HOT GatherElement
  gather(Where where = Where::current()) const& {
    return GatherElement{whole(where)};
  }
  VERBATIM_UNCONSUMED_ONLY [[nodiscard]] VERBATIM_HOT ScatterElement
  scatter(Where where = Where::current()) & {
    return ScatterElement{whole(where)};
  }

 private:
  friend class ProtectionDomain;
  friend struct detail::Raw;
  /// Counts an access to the bytes.
  class View {
   public:
    explicit View(detail::BufferBlock& block) noexcept : block_(block) { ++block_.views; }
    ~View() {
      if (--block_.views == 0 && std::exchange(block_.is_dropped, false)) [[unlikely]]
        free_block(&block_);
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;

   private:
    detail::BufferBlock& block_;
  };

  explicit Buffer(detail::BufferBlock* block) noexcept : block_(block) {}
  [[gnu::noinline]] static void free_block(detail::BufferBlock* block) noexcept;
  /// The bounds need no check, but that the length fits 32 bits does.
  [[nodiscard]] VERBATIM_HOT ibv_sge whole(Where where) const {
    check(block_ != nullptr, "Buffer: the buffer was moved away", where);
    check(block_->size <= UINT32_MAX, "Buffer: too long for one element", where);
    return {reinterpret_cast<std::uintptr_t>(block_->data),
            static_cast<std::uint32_t>(block_->size), block_->key};
  }
  [[nodiscard]] std::span<std::byte> part(std::size_t offset, std::size_t size, Where where) const;

  detail::BufferBlock* block_;
};

}  // namespace verbatim
