// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/device.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "base/environment.hpp"
#include "base/once.hpp"
#include "soft/control/events.hpp"
#include "soft/faults/hook.hpp"
#include "soft/shared/addresses.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/settings.hpp"

namespace verbatim::engine {
namespace {

std::uint32_t device_count() noexcept { return are_devices_hidden() ? 0 : wanted_devices(); }

bool ethernet_chosen() noexcept { return environment("VERBATIM_SOFT_LINK", "ib") == "eth"; }

/// The devices live as long as the process, because programs keep pointers to them.
constinit std::array<Device, kMaxDevices> the_devices{};

std::array<Device, kMaxDevices>& all_devices() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    for (std::uint32_t i = 0; i < kMaxDevices; ++i) {
      Device& device = the_devices[i];
      device.index = i;
      device.raw.node_type = IBV_NODE_CA;
      device.raw.transport_type = IBV_TRANSPORT_IB;
      std::snprintf(device.raw.name, sizeof device.raw.name, "soft%u", i);
      std::snprintf(device.raw.dev_name, sizeof device.raw.dev_name, "uverbs-soft%u", i);
      // The place where the kernel would describe the device. src/preload provides these files;
      // without it they do not exist.
      std::snprintf(device.raw.ibdev_path, sizeof device.raw.ibdev_path, "%s/%s", kSystemDevices,
                    device.raw.name);
      std::snprintf(device.raw.dev_path, sizeof device.raw.dev_path, "%s/%s", kSystemVerbs,
                    device.raw.dev_name);
      device.gid = link_local_gid(i);
    }
  });
  return the_devices;
}

}  // namespace

bool is_soft(const ibv_device* device) noexcept {
  // Compared as integers, because the order of pointers to different objects is undefined.
  const auto at = reinterpret_cast<std::uintptr_t>(device);
  const auto begin = reinterpret_cast<std::uintptr_t>(the_devices.data());
  return at - begin < sizeof the_devices;
}

const Device* find_device(std::uint32_t index) noexcept {
  return index < device_count() ? &all_devices()[index] : nullptr;
}

bool are_ports_ethernet() noexcept {
  static constinit detail::Once<bool> chosen;
  return chosen(&ethernet_chosen);
}

std::uint16_t lid_of(const Device& device) noexcept {
  return are_ports_ethernet() ? 0 : static_cast<std::uint16_t>(device.index + 1);
}

ibv_device** get_device_list(int* count) noexcept {
  const std::uint32_t devices = device_count();
  auto** const list = new (std::nothrow) ibv_device*[devices + 1]();
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  for (std::uint32_t i = 0; i < devices; ++i) list[i] = &all_devices()[i].raw;
  *count = static_cast<int>(devices);
  return list;
}

void free_device_list(ibv_device** list) noexcept { delete[] list; }

__be64 get_device_guid(ibv_device* device) noexcept {
  __be64 guid;
  std::memcpy(&guid, reinterpret_cast<Device*>(device)->gid.raw + 8, sizeof guid);
  return guid;
}

namespace {
thread_local std::optional<Error> last_failure;
}

std::optional<Error> open_failure() noexcept { return last_failure; }

ibv_context* open_device(ibv_device* raw, FillOperations fill) {
  last_failure.reset();
  auto engine = Engine::get();
  if (!engine) {
    last_failure = engine.error();
    errno = engine.error().os_error != 0 ? engine.error().os_error : EACCES;
    return nullptr;
  }
  auto context = std::make_unique<Context>();
  context->engine = *std::move(engine);
  context->device = reinterpret_cast<Device*>(raw);
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) {
    const int failure = errno;
    context.reset();  // This may be the last context, and then the engine removes its files.
    errno = failure;
    return nullptr;
  }
  ibv_context& handle = context->extended.context;
  handle.device = raw;
  handle.cmd_fd = -1;
  handle.async_fd = fd;
  handle.num_comp_vectors = 1;
  handle.abi_compat = __VERBS_ABI_IS_EXTENDED;
  fill(context->extended);
  try {
    context->engine->add_context(context.get());  // It may get events from now on.
  } catch (const std::bad_alloc&) {
    close(fd);
    throw;
  }
  return &context.release()->extended.context;
}

int close_device(ibv_context* raw) noexcept {
  Context& context = Context::of(raw);
  if (context.objects.load() != 0) return EBUSY;
  context.engine->remove_context(&context);
  close(raw->async_fd);
  delete &context;
  return 0;
}

int query_device(ibv_context* raw, ibv_device_attr_ex* extended) noexcept {
  *extended = {};
  ibv_device_attr& a = extended->orig_attr;
  std::snprintf(a.fw_ver, sizeof a.fw_ver, "soft-%08x", layout_version());
  a.node_guid = get_device_guid(raw->device);
  a.sys_image_guid = a.node_guid;
  a.max_mr_size = ~std::uint64_t{0} >> 1;
  a.page_size_cap = kPage;
  a.vendor_id = 0x56424d;  // No vendor has it, so vendor code does not recognise us.
  a.vendor_part_id = 1;
  a.max_qp = kQueuePairs - 2;
  a.max_qp_wr = kMaxRequests;
  a.max_sge = kMaxElements;
  a.max_sge_rd = kMaxElements;
  a.max_cq = kCompletionQueues - 2;
  a.max_cqe = kMaxCompletions;
  a.max_mr = kRegions - 2;
  a.max_pd = 1 << 16;
  a.max_qp_rd_atom = kMaxReadAtomic;
  a.max_res_rd_atom = kMaxReadAtomic;
  a.max_qp_init_rd_atom = kMaxReadAtomic;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_ah = 1 << 20;
  a.max_srq = kSharedQueues - 2;
  a.max_srq_wr = kMaxRequests;
  a.max_srq_sge = kMaxElements;
  a.max_pkeys = 1;
  a.phys_port_cnt = 1;
  extended->phys_port_cnt_ex = 1;
  extended->completion_timestamp_mask = ~std::uint64_t{0};
  extended->hca_core_clock = 1'000'000;  // In kHz; time stamps count nanoseconds.
  return 0;
}

int query_port(ibv_context* raw, std::uint8_t port, ibv_port_attr* attributes) noexcept {
  return describe_port(*Context::of(raw).device, port, attributes);
}

int describe_port(const Device& device, std::uint8_t port, ibv_port_attr* attributes) noexcept {
  if (port != 1) return EINVAL;
  const bool ethernet = are_ports_ethernet();
  *attributes = {};
  attributes->state = port_down_until() > now_ns() ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = kGidTable;
  attributes->max_msg_sz = kMaxMessage;
  attributes->pkey_tbl_len = 1;
  attributes->lid = lid_of(device);
  attributes->sm_lid = ethernet ? 0 : 1;
  attributes->max_vl_num = 1;
  attributes->active_width = 2;
  attributes->active_speed = 32;
  attributes->phys_state = 5;
  attributes->link_layer = ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

bool is_usable(const ibv_ah_attr& address) noexcept {
  if (address.is_global == 0) return !are_ports_ethernet();
  return address.grh.sgid_index < (are_ports_ethernet() ? 2 : 1);  // As many as describe_gids has.
}

ssize_t query_gid_table(ibv_context* raw, ibv_gid_entry* entries, std::size_t max) noexcept {
  return describe_gids(*Context::of(raw).device, entries, max);
}

ssize_t describe_gids(const Device& device, ibv_gid_entry* entries, std::size_t max) noexcept {
  const bool ethernet = are_ports_ethernet();
  std::size_t count = 0;
  if (count < max)
    entries[count++] = {
        .gid = device.gid,
        .gid_index = 0,
        .port_num = 1,
        .gid_type = ethernet ? std::uint32_t{IBV_GID_TYPE_ROCE_V2} : std::uint32_t{IBV_GID_TYPE_IB},
        .ndev_ifindex = 0};
  if (ethernet && count < max) {
    entries[count++] = {.gid = mapped_gid(device.index),
                        .gid_index = 1,
                        .port_num = 1,
                        .gid_type = IBV_GID_TYPE_ROCE_V2,
                        .ndev_ifindex = 0};
  }
  return static_cast<ssize_t>(count);
}

int query_partition_key(ibv_context*, std::uint8_t port, int index, __be16* key) noexcept {
  if (port != 1 || index != 0) return EINVAL;
  *key = 0xffff;
  return 0;
}

std::uint64_t fabric_id(ibv_context* raw) noexcept {
  return Context::of(raw).engine->directory().fabric_id();
}

}  // namespace verbatim::engine
