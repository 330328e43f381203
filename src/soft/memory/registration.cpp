// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/registration.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <new>
#include <shared_mutex>

#include "soft/memory/access_guard.hpp"
#include "soft/memory/memory_object.hpp"
#include "soft/memory/reach.hpp"
#include "soft/memory/region_spans.hpp"
#include "soft/memory/relay.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {
namespace {

/// Whether /proc/self/maps shows every page of the range as mapped with these rights.
bool maps_allow(std::uintptr_t start, std::uintptr_t end, bool writable) noexcept {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;  // Cannot tell: assume that it is mapped.
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
  char rights[5] = {};
  // The lines are in the order of addresses. Continue while each begins where the last one ended.
  while (start < end && std::fscanf(maps, "%lx-%lx %4s%*[^\n]", &first, &last, rights) == 3) {
    if (last <= start) continue;
    if (first > start || rights[0] != 'r' || (writable && rights[1] != 'w')) break;
    start = last;
  }
  std::fclose(maps);
  return start >= end;
}

/// Whether the pages are there and allow the access. A hardware device finds out by pinning them.
/// This function populates them, so they are in memory afterwards, as after pinning.
bool is_mapped(void* address, std::size_t length, bool writable) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address) & ~(kPage - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(address) + length;
  if (end < start) return false;
  auto* const pages = reinterpret_cast<void*>(start);
  if (madvise(pages, end - start, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  // EINVAL: the kernel is older than 5.14, the memory is of a special kind, or the rights do not
  // suffice.
  return errno == EINVAL && maps_allow(start, end, writable);
}

/// Returns the errno with which a registration would be refused, or 0.
int check_registration(void* address, std::size_t length, unsigned access) noexcept {
  const unsigned remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (length == 0 || ((access & remote_writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0))
    return EINVAL;
  // A device pins the pages and so notices what is not there. An access of our own would fault, so
  // ask the kernel.
  return is_mapped(address, length, (access & IBV_ACCESS_LOCAL_WRITE) != 0) ? 0 : EFAULT;
}

/// Gives the region keys that it has not had before, so that requests with old keys are refused.
/// The tag counts up in each place of the table, and places are used in turn (IndexTable: from a
/// window of at least 64). A key therefore repeats only after millions of registrations. The first
/// tag is different for each process, so a key of the process that had the slot before means
/// nothing.
void new_key(Engine& engine, Region& region) noexcept {
  std::uint32_t& tag = region.trusted->tag;
  if (tag == 0) tag = (engine.tag() * 0x9e3779b9u ^ region.raw.handle * 0x85ebca6bu) >> 16;
  tag = (tag + 1) & ((1u << kRegionTagBits) - 1);
  if (tag == 0) tag = 1;
  region.raw.lkey = region.raw.rkey = region_key(region.raw.handle, tag);
  engine.segment().region_marks[region.raw.handle].store(0);  // No message is on its way to it yet.
}

/// Small messages may be on their way to the same memory through another region. Their senders mark
/// that region first, and then look for others (responder/deliver.cpp). So one of us sees the
/// other.
void inherit_marks(Engine& engine, const Region& region) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Word* const marks = engine.segment().region_marks;
  const SharedRegion* const all = engine.own().trusted_regions();
  // The private table first: a mark of a place that was never used may have no memory behind it.
  for (std::uint32_t i = 0; i < engine.regions.end(); ++i)
    if (overlap(all[i], *region.trusted))
      marks[region.raw.handle].fetch_or(marks[i].load() & kRidingMarks);
}

/// Writes the region to the tables in which requesters look it up.
void publish(Engine& engine, Region& region, std::uint64_t base, unsigned access) noexcept {
  const ibv_mr& raw = region.raw;
  const auto address = reinterpret_cast<std::uintptr_t>(raw.addr);
  const auto [object, offset] = engine.objects().find(address, raw.length);
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
  if (engine.segment().regions_overlap.load() != 0) inherit_marks(engine, region);
}

/// Waits for the requesters that may touch the region. They are inside a queue pair of its domain,
/// or inside one that was destroyed while a stopped process was inside.
int wait_for_requesters(Engine& engine, const Region& region, std::uint32_t key) noexcept {
  auto& domain = *reinterpret_cast<Domain*>(region.raw.pd);
  {
    const std::lock_guard lock{domain.mutex};
    if (domain.queue_pairs.empty() && engine.ghost_count.load() == 0) return 0;
    if (!order_requesters(engine)) return EBUSY;
    for (const std::uint32_t index : domain.queue_pairs)
      if (const int busy = wait_for_requester(engine, engine.segment().queue_pairs[index], key))
        return busy;
  }
  for (std::uint32_t i = 0; engine.ghost_count.load() != 0 && i < engine.receive_sides.end(); ++i) {
    if (engine.receive_sides.at(i) != nullptr) continue;
    SharedQueuePair* const ended = engine.self().queue_pair(i);
    if (ended == nullptr) continue;
    if (const int busy = wait_for_requester(engine, *ended, key)) return busy;
  }
  return 0;
}

/// Afterwards no thread places a payload whose region's key it looked up before.
void settle_all(Engine& engine) noexcept {
  const std::shared_lock alive{engine.lifetime};
  engine.settle();
}

/// Invalidates the key, and waits for the requesters that saw it: they are inside one of the
/// domain's queue pairs. Small messages in our rings arrived while the memory was registered, so
/// they are placed before our own copy of the key goes. If a requester does not leave, restores the
/// key and returns an errno.
int revoke_key(Engine& engine, Region& region) noexcept {
  const std::uint32_t key = region.raw.rkey;
  region.shared->key.store(0);
  count_change(engine.segment());
  int busy = wait_for_requesters(engine, region, key);
  if (busy == 0) settle_all(engine);
  region.trusted->key.store(0);
  count_change(engine.segment());
  // For our own threads, which looked at that copy: as responders and as requesters, for a peer
  // that may have given up meanwhile, and to place what came after the first time.
  if (busy == 0) busy = wait_for_requesters(engine, region, key);
  if (busy == 0) {
    wait_for_relay(engine);
    settle_all(engine);
  }
  if (busy == 0) busy = engine.wait_for_own_requests(reinterpret_cast<Domain*>(region.raw.pd)->id);
  if (busy != 0) {
    region.trusted->key.store(key);
    region.shared->key.store(key);
  }
  return busy;
}

/// Reserves a place in the table, with memory behind it. Returns an errno, or 0.
int reserve_place(Engine& engine, std::uint32_t& index) noexcept {
  index = engine.regions.reserve(2 + (engine.tag() >> 11) % 256);
  if (index == kRegions) return ENOMEM;
  const auto backed = engine.own().back_region(index);
  if (backed) return 0;
  engine.regions.remove(index);
  return errno_of(backed.error());
}

/// Remembers the range that the region covers.
void note_span(Engine& engine, const Region& region) noexcept {
  if (engine.spans().add(reinterpret_cast<std::uintptr_t>(region.raw.addr), region.raw.length))
    engine.segment().regions_overlap.store(1);
}
void forget_span(Engine& engine, const Region& region) noexcept {
  engine.spans().remove(reinterpret_cast<std::uintptr_t>(region.raw.addr));
}

/// Puts the region into that place, and gives it keys that were not in use before.
void move_in(Engine& engine, Region& region, std::uint32_t index) noexcept {
  region.trusted = &engine.own().trusted_regions()[index];
  region.shared = &engine.segment().regions[index];
  region.raw.handle = index;
  new_key(engine, region);
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
  std::uint32_t index = kRegions;
  if (const int failed = region == nullptr ? ENOMEM : reserve_place(engine, index)) {
    delete region;
    errno = failed;
    return nullptr;
  }
  region->raw = {.context = raw_domain->context,
                 .pd = raw_domain,
                 .addr = address,
                 .length = length,
                 .handle = index,
                 .lkey = 0,
                 .rkey = 0};
  move_in(engine, *region, index);
  note_span(engine, *region);
  publish(engine, *region, base, access);
  engine.regions.show(index, region);
  reinterpret_cast<Domain*>(raw_domain)->users.fetch_add(1);
  engine.reclaim();
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
  // The region moves to another place, because the keys of a single place would repeat too soon.
  std::uint32_t place = kRegions;
  if (refused == 0 && moves) refused = reserve_place(engine, place);
  if (refused == 0) refused = revoke_key(engine, region);
  if (refused != 0) {
    if (place != kRegions) engine.regions.remove(place);
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
    forget_span(engine, region);
    raw->addr = address;
    raw->length = length;
    note_span(engine, region);
    base = (rights & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<std::uintptr_t>(address);
    // A change of rights or domain alone keeps the keys. Drivers do the same, and programs rely on
    // it.
    engine.regions.remove(raw->handle);
    move_in(engine, region, place);
  }
  publish(engine, region, base, rights);
  if (moves) engine.regions.show(place, &region);
  return 0;
}

int deregister_memory(ibv_mr* raw) noexcept {
  auto* const region = reinterpret_cast<Region*>(raw);
  Engine& engine = *Context::of(raw->context).engine;
  if (const int busy = revoke_key(engine, *region)) return busy;
  forget_span(engine, *region);
  engine.regions.remove(raw->handle);
  reinterpret_cast<Domain*>(raw->pd)->users.fetch_sub(1);
  delete region;
  engine.reclaim();
  return 0;
}

}  // namespace verbatim::engine
