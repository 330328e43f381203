// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/provider/system.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "base/environment.hpp"
#include "base/fork_handlers.hpp"
#include "base/once.hpp"
#include "provider/memory.hpp"

// verbs.h defines macros with these two names; this file means the exported functions.
#undef ibv_query_port
#undef ibv_reg_mr

namespace verbatim {
namespace {

// Loading libibverbs and listing its devices takes locks of the loader and of libibverbs. A child
// that is forked meanwhile would wait for them for ever, or find a library that is half loaded. So
// a fork waits for the end.
constinit std::mutex unforked;
const detail::ForkHandlers kForkHandlers{[] { unforked.lock(); }, [] { unforked.unlock(); },
                                         [] { unforked.unlock(); }};

/// The entry points that our table does not contain unchanged.
struct Library {
  ibv_device** (*get_device_list)(int*) = detail::kMissing;
  int (*query_device)(ibv_context*, ibv_device_attr*) = detail::kMissing;
  int (*query_port)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) = detail::kMissing;
  int (*query_gid)(ibv_context*, std::uint8_t, int, ibv_gid*) = detail::kMissing;
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, std::size_t, std::uint32_t,
                             std::size_t) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int) = detail::kMissing;
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned) = nullptr;
  int (*fork_init)() = detail::kMissing;
  ibv_fork_status (*is_fork_initialized)() = nullptr;
};
Library library;

ibv_device** get_device_list(int* count) {
  const std::lock_guard lock{unforked};
  return library.get_device_list(count);
}

int query_device(ibv_context* context, ibv_device_attr_ex* attributes) {
  std::memset(attributes, 0, sizeof *attributes);
  if (verbs_context* const extended = __extension__ verbs_get_ctx_op(context, query_device_ex)) {
    const int failed = extended->query_device_ex(context, nullptr, attributes, sizeof *attributes);
    if (failed != EOPNOTSUPP && failed != ENOSYS) return failed;
    std::memset(attributes, 0, sizeof *attributes);
  }
  return library.query_device(context, &attributes->orig_attr);
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  std::memset(attributes, 0, sizeof *attributes);
  if (verbs_context* const extended = __extension__ verbs_get_ctx_op(context, query_port))
    return extended->query_port(context, port, attributes, sizeof *attributes);
  // The old entry point fills only a prefix of the structure.
  return library.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

/// rdma-core before version 32 cannot read the whole table, so this reads it row by row, and the
/// types from sysfs.
ssize_t query_gid_rows(ibv_context* context, std::uint8_t port, int rows, ibv_gid_entry* entries,
                       std::size_t max) {
  std::size_t count = 0;
  const std::string types = std::string{context->device->ibdev_path} + "/ports/" +
                            std::to_string(port) + "/gid_attrs/types/";
  for (int row = 0; row < rows && count < max; ++row) {
    ibv_gid_entry entry{};
    if (library.query_gid(context, port, row, &entry.gid) != 0) return -errno;
    if (std::all_of(std::begin(entry.gid.raw), std::end(entry.gid.raw),
                    [](std::uint8_t byte) { return byte == 0; }))
      continue;
    entry.gid_index = static_cast<std::uint32_t>(row);
    entry.port_num = port;
    std::string type;
    std::getline(std::ifstream{types + std::to_string(row)}, type);
    entry.gid_type = type == "RoCE v2" ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    entries[count++] = entry;
  }
  return static_cast<ssize_t>(count);
}

ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max) {
  if (library.query_gid_table != nullptr)
    return library.query_gid_table(context, entries, max, 0, sizeof *entries);
  ibv_device_attr_ex device;
  if (const int failed = query_device(context, &device)) return -failed;
  std::size_t count = 0;
  for (std::uint8_t port = 1; port <= device.orig_attr.phys_port_cnt; ++port) {
    ibv_port_attr attributes;
    if (const int failed = query_port(context, port, &attributes)) return -failed;
    const ssize_t rows =
        query_gid_rows(context, port, attributes.gid_tbl_len, entries + count, max - count);
    if (rows < 0) return rows;
    count += static_cast<std::size_t>(rows);
  }
  return static_cast<ssize_t>(count);
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t length, unsigned access) {
  // Only the newer call accepts optional flags: it drops those that the kernel does not know.
  if (library.reg_mr_iova2 != nullptr)
    return library.reg_mr_iova2(domain, address, length, reinterpret_cast<std::uintptr_t>(address),
                                access);
  return library.reg_mr(domain, address, length,
                        static_cast<int>(access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE}));
}

/// A device with a parent device on a bus is hardware. One without is created by a kernel driver.
Transport transport(ibv_device* device) {
  std::error_code ignored;
  const auto parent = std::filesystem::path{device->ibdev_path} / "device";
  return std::filesystem::exists(parent, ignored) ? Transport::hardware
                                                  : Transport::kernel_software;
}

const char* unavailable_reason = nullptr;

ibv_device** no_devices(int* count) {
  *count = 0;
  errno = 0;
  return nullptr;
}

template <class Function>
void load(void* handle, const char* version, const char* name, Function*& slot) {
  if (void* const found = dlvsym(handle, name, version)) slot = reinterpret_cast<Function*>(found);
}

void load_objects(void* handle, Provider& table) {
  load(handle, "IBVERBS_1.1", "ibv_get_async_event", table.get_async_event);
  load(handle, "IBVERBS_1.1", "ibv_ack_async_event", table.ack_async_event);
  load(handle, "IBVERBS_1.1", "ibv_alloc_pd", table.alloc_pd);
  load(handle, "IBVERBS_1.1", "ibv_dealloc_pd", table.dealloc_pd);
  load(handle, "IBVERBS_1.12", "ibv_reg_dmabuf_mr", table.reg_dmabuf_mr);
  load(handle, "IBVERBS_1.1", "ibv_rereg_mr", table.rereg_mr);
  load(handle, "IBVERBS_1.1", "ibv_dereg_mr", table.dereg_mr);
  load(handle, "IBVERBS_1.0", "ibv_create_comp_channel", table.create_comp_channel);
  load(handle, "IBVERBS_1.0", "ibv_destroy_comp_channel", table.destroy_comp_channel);
  load(handle, "IBVERBS_1.1", "ibv_get_cq_event", table.get_cq_event);
  load(handle, "IBVERBS_1.1", "ibv_ack_cq_events", table.ack_cq_events);
  load(handle, "IBVERBS_1.1", "ibv_create_cq", table.create_cq);
  load(handle, "IBVERBS_1.1", "ibv_resize_cq", table.resize_cq);
  load(handle, "IBVERBS_1.1", "ibv_destroy_cq", table.destroy_cq);
  load(handle, "IBVERBS_1.1", "ibv_create_qp", table.create_qp);
  load(handle, "IBVERBS_1.1", "ibv_modify_qp", table.modify_qp);
  load(handle, "IBVERBS_1.1", "ibv_query_qp", table.query_qp);
  load(handle, "IBVERBS_1.14", "ibv_query_qp_data_in_order", table.query_qp_data_in_order);
  load(handle, "IBVERBS_1.1", "ibv_destroy_qp", table.destroy_qp);
  load(handle, "IBVERBS_1.1", "ibv_create_srq", table.create_srq);
  load(handle, "IBVERBS_1.1", "ibv_modify_srq", table.modify_srq);
  load(handle, "IBVERBS_1.1", "ibv_query_srq", table.query_srq);
  load(handle, "IBVERBS_1.1", "ibv_destroy_srq", table.destroy_srq);
  load(handle, "IBVERBS_1.1", "ibv_create_ah", table.create_ah);
  load(handle, "IBVERBS_1.1", "ibv_destroy_ah", table.destroy_ah);
}

void load_devices(void* handle, Provider& table) {
  load(handle, "IBVERBS_1.1", "ibv_get_device_list", library.get_device_list);
  load(handle, "IBVERBS_1.1", "ibv_free_device_list", table.free_device_list);
  load(handle, "IBVERBS_1.1", "ibv_get_device_guid", table.get_device_guid);
  load(handle, "IBVERBS_1.1", "ibv_open_device", table.open_device);
  load(handle, "IBVERBS_1.1", "ibv_close_device", table.close_device);
  load(handle, "IBVERBS_1.1", "ibv_query_pkey", table.query_pkey);
  load(handle, "IBVERBS_1.1", "ibv_query_device", library.query_device);
  load(handle, "IBVERBS_1.1", "ibv_query_port", library.query_port);
  load(handle, "IBVERBS_1.1", "ibv_query_gid", library.query_gid);
  load(handle, "IBVERBS_1.11", "_ibv_query_gid_table", library.query_gid_table);
  load(handle, "IBVERBS_1.1", "ibv_reg_mr", library.reg_mr);
  load(handle, "IBVERBS_1.8", "ibv_reg_mr_iova2", library.reg_mr_iova2);
  load(handle, "IBVERBS_1.1", "ibv_fork_init", library.fork_init);
  load(handle, "IBVERBS_1.13", "ibv_is_fork_initialized", library.is_fork_initialized);
}

Provider load_table() {
  Provider table{.name = "system", .unavailable = [] { return unavailable_reason; }};
  table.get_device_list = &no_devices;
  const std::lock_guard lock{unforked};
  const char* const named = environment("VERBATIM_LIBIBVERBS");
  // Never closed, because the threads and atexit handlers of its providers would outlive it.
  void* const handle = dlopen(named != nullptr ? named : "libibverbs.so.1", RTLD_NOW);
  if (handle == nullptr) {
    unavailable_reason = "libibverbs.so.1 not found";
    return table;
  }
  load_devices(handle, table);
  load_objects(handle, table);
  table.get_device_list = &get_device_list;
  table.query_device = &query_device;
  table.query_port = &query_port;
  table.query_gid_table = &query_gid_table;
  table.reg_mr = &reg_mr;
  table.transport = &transport;
  table.alloc_memory = &detail::allocate_pages;
  table.free_memory = &detail::free_pages;
  // Called before the first registration, because otherwise a fork could move pinned pages away
  // from their owner. Not called if the kernel copies pinned pages at fork, because then it only
  // costs memory.
  if (library.is_fork_initialized == nullptr || library.is_fork_initialized() != IBV_FORK_UNNEEDED)
    library.fork_init();
  return table;
}

}  // namespace

const Provider& system_provider() {
  static constinit detail::Once<Provider> table;
  return table(&load_table);
}

}  // namespace verbatim
