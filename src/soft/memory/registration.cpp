// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/registration.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <new>

#include "soft/memory/access_guard.hpp"
#include "soft/memory/memory_object.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {
namespace {

/// Whether every page of the range is mapped with these rights, as /proc/self/maps tells.
bool maps_allow(std::uintptr_t start, std::uintptr_t end, bool writable) noexcept {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;  // No way to ask: let the program find out.
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
  char rights[5] = {};
  // Lines come in the order of addresses: walk as long as they continue each other.
  while (start < end && std::fscanf(maps, "%lx-%lx %4s%*[^\n]", &first, &last, rights) == 3) {
    if (last <= start) continue;
    if (first > start || rights[0] != 'r' || (writable && rights[1] != 'w')) break;
    start = last;
  }
  std::fclose(maps);
  return start >= end;
}

/// Whether the pages are there and allow it. A device finds out by pinning them; so do we, and as
/// there, they are in memory afterwards.
bool is_mapped(void* address, std::size_t length, bool writable) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(address) + length;
  if (end < start) return false;
  auto* const pages = reinterpret_cast<void*>(start);
  if (madvise(pages, end - start, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  // EINVAL: a kernel before 5.14, memory of a special kind, or rights that do not suffice.
  return errno == EINVAL && maps_allow(start, end, writable);
}

}  // namespace

bool is_registered(Engine& engine, std::uint64_t address, std::uint64_t length) noexcept {
  for (std::uint32_t index = 0; index < kRegions; ++index) {
    if (engine.regions.at(index) == nullptr) continue;
    const SharedRegion& region = engine.own().trusted_regions()[index];
    const std::uint64_t offset = address - region.address;
    if (address >= region.address && offset <= region.length && length <= region.length - offset)
      return true;
  }
  return false;
}

namespace {

/// Why a registration would be refused, as an errno; 0: it would not.
int check_registration(void* address, std::size_t length, unsigned access) noexcept {
  const unsigned remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (length == 0 || ((access & remote_writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0))
    return EINVAL;
  // A device pins pages and so finds out what is not there: touch nothing, ask the kernel.
  return is_mapped(address, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0) ? 0 : EFAULT;
}

/// Keys that the region has not had yet: requests with the old ones are refused.
void new_key(Engine& engine, ibv_mr& raw) noexcept {
  // The tag differs from the last one in this place, so a stale key is found out.
  const std::uint32_t tag = (engine.region_tags[raw.handle % 1024].fetch_add(1) + 1) & 0xff;
  raw.lkey = raw.rkey = raw.handle << 8 | tag;
}

/// Writes what the public structure says, and the rest, where requesters look.
void publish(Region& region, std::uint64_t base, unsigned access) noexcept {
  const ibv_mr& raw = region.raw;
  const auto address = reinterpret_cast<std::uintptr_t>(raw.addr);
  const auto [object, offset] = object_of(address, raw.length);
  for (SharedRegion* const copy : {region.trusted, region.shared}) {
    copy->domain = reinterpret_cast<Domain*>(raw.pd)->id;
    copy->access = access;
    copy->object = object;
    copy->base = base;
    copy->length = raw.length;
    copy->address = address;
    copy->object_offset = offset;
    copy->key.store(raw.rkey, std::memory_order_release);
  }
}

/// Kills the key and waits for the requesters that saw it: they are inside one of the domain's
/// queue pairs. Not 0: one of them does not leave, and the key is what it was.
int revoke_key(Engine& engine, Region& region) noexcept {
  region.trusted->key.store(0);
  region.shared->key.store(0);
  count_change(engine.segment());
  const int busy = wait_for_requesters(engine, reinterpret_cast<Domain*>(region.raw.pd)->id);
  if (busy != 0) {
    region.trusted->key.store(region.raw.rkey);
    region.shared->key.store(region.raw.rkey);
  }
  return busy;
}

}  // namespace

ibv_mr* register_memory(ibv_pd* raw_domain, void* address, std::size_t length, std::uint64_t base,
                        unsigned access) noexcept {
  Engine& engine = *Context::of(raw_domain->context).engine;
  if (const int refused = check_registration(address, length, access)) {
    errno = refused;
    return nullptr;
  }
  auto* const region = new (std::nothrow) Region{};
  const std::uint32_t index =
      region != nullptr ? engine.regions.reserve(2 + (engine.tag() >> 11) % 256) : kRegions;
  if (index == kRegions || !engine.own().back(&engine.segment().regions[index], 64)) {
    if (index != kRegions) engine.regions.remove(index);
    delete region;
    errno = ENOMEM;
    return nullptr;
  }
  region->trusted = &engine.own().trusted_regions()[index];
  region->shared = &engine.segment().regions[index];
  region->raw = {.context = raw_domain->context,
                 .pd = raw_domain,
                 .addr = address,
                 .length = length,
                 .handle = index,
                 .lkey = 0,
                 .rkey = 0};
  new_key(engine, region->raw);
  publish(*region, base, access);
  engine.regions.show(index, region);
  reinterpret_cast<Domain*>(raw_domain)->users.fetch_add(1);
  return &region->raw;
}

int reregister_memory(ibv_mr* raw, int flags, ibv_pd* new_domain, void* address, std::size_t length,
                      int access) noexcept {
  Region& region = *reinterpret_cast<Region*>(raw);
  Engine& engine = *Context::of(raw->context).engine;
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  const unsigned rights = changes_access ? static_cast<unsigned>(access) : region.trusted->access;
  int refused = 0;
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (changes_domain && (new_domain == nullptr || new_domain->context != raw->context)) ||
      (!changes_access && access != 0))
    refused = EINVAL;
  if (refused == 0)
    refused = check_registration(moves ? address : raw->addr, moves ? length : raw->length, rights);
  if (refused == 0) refused = revoke_key(engine, region);
  if (refused != 0) {
    errno = refused;
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (changes_domain) {
    reinterpret_cast<Domain*>(new_domain)->users.fetch_add(1);
    reinterpret_cast<Domain*>(raw->pd)->users.fetch_sub(1);
    raw->pd = new_domain;
  }
  std::uint64_t base = region.trusted->base;
  if (moves) {
    raw->addr = address;
    raw->length = length;
    base = (rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(address);
    // Other rights or another domain leave the keys as they are: drivers do that, and programs
    // rely on it.
    new_key(engine, *raw);
  }
  publish(region, base, rights);
  return 0;
}

int deregister_memory(ibv_mr* raw) noexcept {
  auto* const region = reinterpret_cast<Region*>(raw);
  Engine& engine = *Context::of(raw->context).engine;
  if (const int busy = revoke_key(engine, *region)) return busy;
  engine.regions.remove(raw->handle);
  reinterpret_cast<Domain*>(raw->pd)->users.fetch_sub(1);
  delete region;
  return 0;
}

}  // namespace verbatim::engine
