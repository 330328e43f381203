// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/region_cache.hpp"

#include <algorithm>
#include <bit>

#include "verbatim/base/try.hpp"

namespace verbatim {

RegionCache::RegionCache(ProtectionDomain domain, const RegionCacheOptions& options)
    : domain_(std::move(domain)),
      max_bytes_(options.bytes),
      shift_(static_cast<unsigned>(64 - std::bit_width(std::max(options.entries, 1u)))),
      all_(options.entries),
      heads_(std::size_t{1} << (64 - shift_), kNone) {
  for (std::uint32_t at = options.entries; at-- > 0;) all_[at].next = std::exchange(free_, at);
}

Result<std::shared_ptr<const MemoryRegion>> RegionCache::enter(
    const volatile void* object, std::weak_ptr<const volatile void> owner,
    std::span<std::byte> bytes, bool is_read_only) {
  if (bytes.empty())
    return std::unexpected(
        Error{.code = Errc::invalid_argument, .operation = "RegionCache::find", .field = "size"});
  // Compared with a registration, checking all entries is cheap.
  for (std::uint32_t at = 0; at < all_.size(); ++at)
    if (all_[at].object != nullptr && all_[at].owner.expired()) drop(at);
  const bool is_kept = !all_.empty() && bytes.size() <= max_bytes_;
  while (is_kept && (free_ == kNone || bytes.size() > max_bytes_ - total_bytes_)) drop(oldest_);
  auto region = std::make_shared<const MemoryRegion>(VERBATIM_TRY(
      is_read_only ? domain_.register_read_only(bytes) : domain_.register_local(bytes)));
  if (!is_kept) return region;
  const std::uint32_t at = free_;
  Entry& entry = all_[at];
  free_ = entry.next;
  entry.object = object;
  entry.owner = std::move(owner);
  entry.bytes = bytes;
  entry.region = region;
  entry.is_read_only = is_read_only;
  entry.next = std::exchange(heads_[place_of(object)], at);
  link_newest(at);
  ++count_;
  total_bytes_ += bytes.size();
  return region;
}

void RegionCache::touch(std::uint32_t at) noexcept {
  unlink(all_[at]);
  link_newest(at);
}

void RegionCache::link_newest(std::uint32_t at) noexcept {
  all_[at].newer = kNone;
  all_[at].older = std::exchange(newest_, at);
  (all_[at].older != kNone ? all_[all_[at].older].newer : oldest_) = at;
}

void RegionCache::unlink(const Entry& entry) noexcept {
  (entry.newer != kNone ? all_[entry.newer].older : newest_) = entry.older;
  (entry.older != kNone ? all_[entry.older].newer : oldest_) = entry.newer;
}

void RegionCache::drop(std::uint32_t at) noexcept {
  Entry& entry = all_[at];
  std::uint32_t* link = &heads_[place_of(entry.object)];
  while (*link != at) link = &all_[*link].next;
  *link = entry.next;
  unlink(entry);
  --count_;
  total_bytes_ -= entry.bytes.size();
  entry = Entry{};
  entry.next = std::exchange(free_, at);
}

void RegionCache::clear() noexcept {
  while (oldest_ != kNone) drop(oldest_);
}

}  // namespace verbatim
