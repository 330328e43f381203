// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/context.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>

#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/context_state.hpp"
#include "verbs/life_log.hpp"

namespace verbatim {
namespace detail {
namespace {

/// The verbs use int for counts. None of these numbers is negative.
std::uint32_t count(int value) noexcept {
  return value < 0 ? 0u : static_cast<std::uint32_t>(value);
}

void set_services(const ibv_device& device, const ibv_device_attr& attributes,
                  Capabilities& capabilities) {
  if (device.transport_type == IBV_TRANSPORT_IB) {
    capabilities.reliable_connection = true;
    capabilities.unreliable_connection = true;
    capabilities.unreliable_datagram = true;
  } else if (device.transport_type == IBV_TRANSPORT_IWARP) {
    // iWARP connections carry MPA, which only the connection manager can set up. iWARP has no
    // datagrams.
    capabilities.no_connection_reason = "iWARP needs rdma_cm";
  } else {
    capabilities.no_connection_reason = "device has only SRD/UD";
    capabilities.unreliable_datagram = true;
  }
  capabilities.atomics = attributes.atomic_cap != IBV_ATOMIC_NONE;
  capabilities.shared_receive_queue = attributes.max_srq > 0;
  // Some drivers that can resize do not set the flag for it. So this is false only if nothing is
  // known about the device.
  capabilities.resize_completion_queue = attributes.max_cqe > 0;
  capabilities.memory_windows = (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
}

Capabilities capabilities_of(const ibv_device& device, const ibv_device_attr_ex& extended) {
  const ibv_device_attr& a = extended.orig_attr;
  Capabilities capabilities;
  set_services(device, a, capabilities);
  capabilities.on_demand_paging = (extended.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
  capabilities.port_count = a.phys_port_cnt;
  capabilities.max_queue_pairs = count(a.max_qp);
  capabilities.max_requests = count(a.max_qp_wr);
  capabilities.max_elements = count(a.max_sge);
  capabilities.max_read_elements = count(a.max_sge_rd);
  capabilities.max_completion_queues = count(a.max_cq);
  capabilities.max_completion_queue_depth = count(a.max_cqe);
  capabilities.max_memory_regions = count(a.max_mr);
  capabilities.max_region_bytes = a.max_mr_size;
  capabilities.max_read_atomic_initiator = count(a.max_qp_init_rd_atom);
  capabilities.max_read_atomic_responder = count(a.max_qp_rd_atom);
  capabilities.max_shared_receive_requests = count(a.max_srq_wr);
  capabilities.max_shared_receive_elements = count(a.max_srq_sge);
  capabilities.vendor_id = a.vendor_id;
  capabilities.vendor_part_id = a.vendor_part_id;
  capabilities.firmware_version.assign(a.fw_ver, strnlen(a.fw_ver, sizeof a.fw_ver));
  return capabilities;
}

}  // namespace

std::string_view name_of(const ibv_context* raw) noexcept {
  return {raw->device->name, strnlen(raw->device->name, sizeof raw->device->name)};
}

void log_teardown(const char* operation, int os_error) noexcept {
  if (log_enabled()) log(LogLevel::error, to_string(os_failure(operation, os_error)));
}

OpenDevice::~OpenDevice() {
  if (abandoned) return;
  const ObjectName name = log_enabled() ? name_of_object(raw) : ObjectName{};
  if (const int failed = provider.close_device(raw))
    log_teardown("ibv_close_device", os_error_of(failed));
  else if (name.text.front() != '\0')
    log_life("closed", name);
}

ContextState::ContextState(const Provider& table, Device from, ibv_context* context,
                           ContextOptions options)
    : origin(std::move(from)),
      device{table, context},
      provider(table),
      raw(context),
      transport(table.transport(context->device)),
      fork(context),
      events(table, context, std::move(options)) {}

ContextState::~ContextState() {
  if (!fork.in_child()) return;
  events.abandon_thread();
  device.abandoned = true;
}

Result<Context> ContextState::open(const Provider& table, Device origin, ibv_device* device,
                                   ContextOptions options) {
  ibv_context* const raw = table.open_device(device);
  if (raw == nullptr) {
    const Error failure = os_failure("ibv_open_device", errno).with_text(device->name);
    return std::unexpected(table.open_failure().value_or(failure));
  }
  auto state = std::make_shared<ContextState>(table, std::move(origin), raw, std::move(options));
  ibv_device_attr_ex attributes{};
  if (const int failed = table.query_device(raw, &attributes))
    return std::unexpected(os_failure("ibv_query_device", os_error_of(failed)));
  state->capabilities = capabilities_of(*device, attributes);
  state->guid = {.bytes =
                     std::bit_cast<std::array<std::uint8_t, 8>>(table.get_device_guid(device))};
  if (log_enabled()) log_life("opened", name_of_object(raw));
  return Context{std::move(state)};
}

Result<Port> ContextState::query_port(std::uint8_t number) const {
  VERBATIM_TRY(usable("ibv_query_port"));
  if (number == 0 || number > capabilities.port_count)
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = "ibv_query_port",
                                 .field = "port",
                                 .value = number,
                                 .limit = capabilities.port_count}
                               .with_text(name_of(raw)));
  ibv_port_attr a{};
  if (const int failed = provider.query_port(raw, number, &a))
    return std::unexpected(os_failure("ibv_query_port", os_error_of(failed)));
  return Port{
      .number = number,
      .state = static_cast<PortState>(a.state),
      .link_layer = static_cast<LinkLayer>(a.link_layer),
      .lid = Lid{a.lid},
      .active_mtu = mtu_from_code(a.active_mtu).value_or(MaximumTransferUnit::bytes_256),
      .max_mtu = mtu_from_code(a.max_mtu).value_or(MaximumTransferUnit::bytes_256),
      .rate_mbps = link_rate_mbps(a.active_width, a.active_speed),
      .max_message_bytes = a.max_msg_sz,
      .gid_count = count(a.gid_tbl_len),
      .partition_key_count = a.pkey_tbl_len,
      .grh_required = (a.flags & IBV_QPF_GRH_REQUIRED) != 0,
  };
}

Result<std::vector<GidEntry>> ContextState::query_gid_table(std::uint8_t port) const {
  // The verb reads the tables of all ports at once.
  std::size_t room = 0;
  for (std::uint8_t number = 1; number <= capabilities.port_count; ++number)
    room += VERBATIM_TRY(query_port(number)).gid_count;
  VERBATIM_TRY(query_port(port));
  std::vector<ibv_gid_entry> rows(room);
  const ssize_t found = provider.query_gid_table(raw, rows.data(), rows.size());
  if (found < 0)
    return std::unexpected(os_failure("ibv_query_gid_table", static_cast<int>(-found)));
  rows.resize(std::min(room, static_cast<std::size_t>(found)));
  std::vector<GidEntry> entries;
  for (const ibv_gid_entry& row : rows) {
    GidEntry entry{.index = row.gid_index,
                   .port = static_cast<std::uint8_t>(row.port_num),
                   .type = static_cast<GidType>(row.gid_type),
                   .interface_index = row.ndev_ifindex};
    std::copy(std::begin(row.gid.raw), std::end(row.gid.raw), entry.gid.bytes.begin());
    if (row.port_num == port && !entry.gid.is_zero()) entries.push_back(entry);
  }
  return entries;
}

Result<std::vector<PartitionKey>> ContextState::query_partition_keys(std::uint8_t port) const {
  const Port attributes = VERBATIM_TRY(query_port(port));
  std::vector<PartitionKey> keys;
  for (int index = 0; index < attributes.partition_key_count; ++index) {
    __be16 key = 0;
    if (const int failed = provider.query_pkey(raw, port, index, &key))
      return std::unexpected(os_failure("ibv_query_pkey", os_error_of(failed)));
    keys.push_back(PartitionKey{static_cast<std::uint16_t>(key << 8 | key >> 8)});
  }
  return keys;
}

}  // namespace detail

Context::Context(std::shared_ptr<detail::ContextState> state) noexcept : state_(std::move(state)) {}

std::string_view Context::name() const noexcept { return detail::name_of(state_->raw); }
const Device& Context::device() const noexcept { return state_->origin; }
Guid Context::guid() const noexcept { return state_->guid; }
Transport Context::transport() const noexcept { return state_->transport; }
std::uint64_t Context::fabric_id() const noexcept {
  return state_->provider.fabric_id(state_->raw);
}
const Capabilities& Context::capabilities() const noexcept { return state_->capabilities; }

Result<Port> Context::query_port(std::uint8_t port) const { return state_->query_port(port); }

Result<Port> Context::first_active_port() const {
  for (std::uint8_t number = 1; number <= capabilities().port_count; ++number) {
    const Port port = VERBATIM_TRY(query_port(number));
    if (port.state == PortState::active) return port;
  }
  const Port first = VERBATIM_TRY(query_port(1));
  return std::unexpected(
      Error{.code = Errc::not_ready, .operation = "ibv_query_port", .field = "port", .value = 1}
          .with_text(to_string(first.state)));
}

Result<std::vector<GidEntry>> Context::query_gid_table(std::uint8_t port) const {
  return state_->query_gid_table(port);
}
Result<std::vector<PartitionKey>> Context::query_partition_keys(std::uint8_t port) const {
  return state_->query_partition_keys(port);
}

Result<int> Context::numa_node() const {
  const Error none = Error{.code = Errc::not_found, .operation = "numa_node"}.with_text(name());
  std::ifstream file{std::string{state_->raw->device->ibdev_path} + "/device/numa_node"};
  int node = -1;
  if (!(file >> node) || node < 0) return std::unexpected(none);
  return node;
}

EventFlags Context::events() const noexcept { return state_->events.device_events(); }
int Context::event_fd() const noexcept { return state_->raw->async_fd; }
Result<std::size_t> Context::dispatch_events() const {
  VERBATIM_TRY(state_->usable("ibv_get_async_event"));
  return state_->events.dispatch();
}

}  // namespace verbatim
