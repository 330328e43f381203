// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/shared_region.hpp"

#include "verbs/domain_state.hpp"

namespace verbatim {

SharedRegion::SharedRegion(std::unique_ptr<detail::Allocation> memory, std::span<std::byte> bytes,
                           MemoryRegion region, RemoteMemoryRegion remote) noexcept
    : memory_(std::move(memory)), bytes_(bytes), region_(std::move(region)), remote_(remote) {}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : memory_(std::move(other.memory_)),
      bytes_(std::exchange(other.bytes_, {})),
      region_(std::move(other.region_)),
      remote_(other.remote_) {}

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  region_ = std::move(other.region_);  // Deregisters before the memory is unmapped.
  memory_ = std::move(other.memory_);
  bytes_ = std::exchange(other.bytes_, {});
  remote_ = other.remote_;
  return *this;
}

SharedRegion::~SharedRegion() = default;

}  // namespace verbatim
