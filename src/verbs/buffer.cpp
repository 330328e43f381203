// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/buffer.hpp"

#include "verbatim/verbs/detail/access.hpp"
#include "verbs/domain_state.hpp"

namespace verbatim {

namespace detail {
namespace {

constinit BufferHome system_home{[](BufferHome&, BufferBlock& block) noexcept { delete &block; }};

}  // namespace

BufferBlock::BufferBlock(std::unique_ptr<Allocation> allocated, MemoryRegion registered) noexcept
    : data(static_cast<std::byte*>(allocated->address)),
      size(registered.length()),
      key(Raw::key(registered)),
      home(&system_home),
      memory(std::move(allocated)),
      region(std::move(registered)) {}

BufferBlock::BufferBlock(BufferHome& of, std::span<std::byte> part,
                         MemoryRegion registered) noexcept
    : data(part.data()),
      size(part.size()),
      key(Raw::key(registered)),
      home(&of),
      region(std::move(registered)) {}

BufferBlock::~BufferBlock() = default;

}  // namespace detail

void Buffer::free_block(detail::BufferBlock* block) noexcept {
  // The buffer was moved away and destroyed inside its own with(), which still uses the bytes.
  if (block->views != 0) [[unlikely]] {
    block->is_dropped = true;
    return;
  }
  block->home->take_back(*block->home, *block);
}

std::span<std::byte> Buffer::part(std::size_t offset, std::size_t size, Where where) const {
  check(block_ != nullptr, "Buffer: the buffer was moved away", where);
  const std::size_t whole = block_->size;
  if (offset > whole) contract_violated("Buffer: offset beyond the buffer", offset, whole, where);
  if (size == std::dynamic_extent) size = whole - offset;
  if (size > whole - offset)
    contract_violated("Buffer: size beyond the buffer", size, whole - offset, where);
  return std::span{block_->data, whole}.subspan(offset, size);
}

GatherElement Buffer::gather(std::size_t offset, std::size_t size, Where where) const& {
  const auto bytes = part(offset, size, where);
  return block_->region.gather(std::span{bytes}, where);
}

ScatterElement Buffer::scatter(std::size_t offset, std::size_t size, Where where) & {
  const auto bytes = part(offset, size, where);
  return block_->region.scatter(std::span{bytes}, where);
}

}  // namespace verbatim
