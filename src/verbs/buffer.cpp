// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/buffer.hpp"

#include "verbs/domain_state.hpp"

namespace verbatim {

Buffer::Buffer(std::unique_ptr<detail::Allocation> memory, MemoryRegion region) noexcept
    : data_(static_cast<std::byte*>(memory->address)),
      size_(region.length()),
      memory_(std::move(memory)),
      region_(std::move(region)) {}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      memory_(std::move(other.memory_)),
      region_(std::move(other.region_)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  // The registration goes first: the memory must not be unmapped under it.
  region_ = std::move(other.region_);
  memory_ = std::move(other.memory_);
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Buffer::~Buffer() = default;

std::span<std::byte> Buffer::part(std::size_t offset, std::size_t size) const {
  check(data_ != nullptr, "Buffer: the buffer was moved away");
  if (offset > size_)
    contract_violated("Buffer: offset beyond the buffer", offset, size_,
                      std::source_location::current());
  if (size == std::dynamic_extent) size = size_ - offset;
  if (size > size_ - offset)
    contract_violated("Buffer: size beyond the buffer", size, size_ - offset,
                      std::source_location::current());
  return std::span{data_, size_}.subspan(offset, size);
}

GatherElement Buffer::gather(std::size_t offset, std::size_t size) const& {
  return region_.gather(part(offset, size));
}

ScatterElement Buffer::scatter(std::size_t offset, std::size_t size) & {
  return region_.scatter(part(offset, size));
}

}  // namespace verbatim
