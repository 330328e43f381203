// SPDX-License-Identifier: MIT OR Apache-2.0
// Queries of a device, its port, its addresses and its partition keys.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "preload/dispatch.hpp"
#include "soft/abi/context_operations.hpp"
#include "soft/abi/scripted_verbs.hpp"
#include "soft/control/device.hpp"

namespace verbatim::preload {
namespace {

/// libibverbs does not publish this type, but exports a function that uses it.
enum GidTypeInSysfs { ib_or_roce_v1, roce_v2 };

int query_device(ibv_context* context, ibv_device_attr* attributes) noexcept {
  ibv_device_attr_ex extended;
  const int failed = engine::kScripted<engine::query_device>(context, &extended);
  if (failed == 0) *attributes = extended.orig_attr;
  return failed;
}

/// The exported function is older than the last fields of ibv_port_attr, so its callers pass the
/// old size.
int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return engine::query_port_sized(context, port, reinterpret_cast<ibv_port_attr*>(attributes),
                                  offsetof(ibv_port_attr, port_cap_flags2));
}

/// Returns an errno; ENODATA for an unused place in the table.
int find_gid(ibv_context* context, std::uint32_t port, std::uint32_t index,
             ibv_gid_entry& entry) noexcept {
  if (port != 1 || index >= engine::kGidTable) return EINVAL;
  ibv_gid_entry table[engine::kGidTable];
  const ssize_t count = engine::query_gid_table(context, table, std::size(table));
  for (ssize_t i = 0; i < count; ++i) {
    if (table[i].gid_index != index) continue;
    entry = table[i];
    return 0;
  }
  return ENODATA;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) noexcept {
  ibv_gid_entry entry{};
  const int failed = find_gid(context, port, static_cast<std::uint32_t>(index), entry);
  if (failed != 0 && failed != ENODATA) return minus_one(failed);
  *gid = entry.gid;  // The verb returns all zeros for an unused place.
  return 0;
}

void copy_entry(void* to, const ibv_gid_entry& from, std::size_t size) noexcept {
  std::memset(to, 0, size);
  std::memcpy(to, &from, std::min(size, sizeof from));
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                 ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) noexcept {
  if (flags != 0) return EINVAL;
  ibv_gid_entry found{};
  const int failed = find_gid(context, port, index, found);
  if (failed == 0) copy_entry(entry, found, size);
  return failed;
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max,
                        std::uint32_t flags, std::size_t size) noexcept {
  if (flags != 0) return -EINVAL;
  ibv_gid_entry table[engine::kGidTable];
  const ssize_t count = engine::query_gid_table(context, table, std::size(table));
  if (static_cast<std::size_t>(count) > max) return -EINVAL;  // As the kernel does.
  // The caller's entries may be longer or shorter than ours.
  for (ssize_t i = 0; i < count; ++i)
    copy_entry(reinterpret_cast<std::byte*>(entries) + static_cast<std::size_t>(i) * size, table[i],
               size);
  return count;
}

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                   GidTypeInSysfs* type) noexcept {
  ibv_gid_entry entry{};
  if (const int failed = find_gid(context, port, index, entry)) return minus_one(failed);
  *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? roce_v2 : ib_or_roce_v1;
  return 0;
}

int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* key) noexcept {
  return minus_one(engine::query_partition_key(context, port, index, key));
}

int find_pkey(ibv_context* context, std::uint8_t port, __be16 key) noexcept {
  __be16 only = 0;
  if (query_pkey(context, port, 0, &only) != 0) return -1;
  return only == key ? 0 : minus_one(EINVAL);
}

int query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) noexcept {
  ibv_port_attr attributes;
  if (port > UINT8_MAX) return EINVAL;
  const int failed = engine::query_port(context, static_cast<std::uint8_t>(port), &attributes);
  if (failed == 0) *speed = engine::kPortSpeedMbps / 100;
  return failed;
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;
namespace preload = verbatim::preload;

VERBATIM_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  return dispatch<"ibv_query_device", "IBVERBS_1.1", &preload::query_device>(context, attributes);
}

VERBATIM_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port,
                                   _compat_ibv_port_attr* attributes) {
  return dispatch<"ibv_query_port", "IBVERBS_1.1", &preload::query_port>(context, port, attributes);
}

VERBATIM_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t port, int index,
                                  ibv_gid* gid) {
  return dispatch<"ibv_query_gid", "IBVERBS_1.1", &query_gid>(context, port, index, gid);
}

VERBATIM_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) {
  return dispatch<"_ibv_query_gid_ex", "IBVERBS_1.11", &query_gid_ex>(context, port, index, entry,
                                                                      flags, size);
}

VERBATIM_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                             std::size_t max, std::uint32_t flags,
                                             std::size_t size) {
  return dispatch<"_ibv_query_gid_table", "IBVERBS_1.11", &preload::query_gid_table>(
      context, entries, max, flags, size);
}

/// rdma-core exports this in the private version node of each release. The node's name changes, so
/// we export the function in no version node.
VERBATIM_EXPORT int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index,
                                       GidTypeInSysfs* type) {
  static constinit Original<int(ibv_context*, std::uint8_t, unsigned, GidTypeInSysfs*)> original{
      "ibv_query_gid_type"};
  return is_soft(context) ? query_gid_type(context, port, index, type)
                          : original(context, port, index, type);
}

VERBATIM_EXPORT int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index,
                                   __be16* key) {
  return dispatch<"ibv_query_pkey", "IBVERBS_1.1", &query_pkey>(context, port, index, key);
}

VERBATIM_EXPORT int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 key) {
  return dispatch<"ibv_get_pkey_index", "IBVERBS_1.5", &find_pkey>(context, port, key);
}

VERBATIM_EXPORT int ibv_query_port_speed(ibv_context* context, std::uint32_t port,
                                         std::uint64_t* speed) {
  return dispatch<"ibv_query_port_speed", "IBVERBS_1.16", &query_port_speed>(context, port, speed);
}

/// Programs read a device's attributes through libibverbs, too, and librdmacm reads the kernel's
/// attributes. The hooks of path_hooks.cpp tell them apart.
VERBATIM_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                        std::size_t size) {
  char path[512];
  const int wanted = std::snprintf(path, sizeof path, "%s/%s", directory, file);
  if (wanted < 0 || static_cast<std::size_t>(wanted) >= sizeof path || size == 0)
    return minus_one(ENAMETOOLONG);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = read(fd, buffer, size);
  const int failure = errno;
  close(fd);
  if (length < 0) return minus_one(failure);
  // Returns a string without the final newline. A text that fills the buffer loses its last
  // character.
  if (length > 0 && (buffer[length - 1] == '\n' || static_cast<std::size_t>(length) == size))
    --length;
  buffer[length] = '\0';
  return static_cast<int>(length);
}
