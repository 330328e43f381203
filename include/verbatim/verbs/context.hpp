// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file An open device: its capabilities, its ports, and the objects created from it.
///
/// Ownership: a cheap, shared handle. Everything created from it keeps the device open, so handles
///            can be dropped in any order.
/// Threads:   any.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/device.hpp"
#include "verbatim/verbs/events.hpp"
#include "verbatim/verbs/gid.hpp"
#include "verbatim/verbs/port.hpp"

namespace verbatim {

class CompletionChannel;
class CompletionQueue;
class ProtectionDomain;
struct CompletionQueueOptions;

namespace detail {
struct Raw;
struct ContextState;
}  // namespace detail

/// What the device offers. The library consults it before every optional feature, so a missing
/// feature is a clear `unsupported` and never an EINVAL from the driver.
struct Capabilities {
  bool reliable_connection = false;
  bool unreliable_connection = false;
  bool unreliable_datagram = false;
  const char* no_connection_reason = "";  ///< Why the first two are false, or "".
  bool atomics = false;
  bool shared_receive_queue = false;
  bool resize_completion_queue = false;
  bool on_demand_paging = false;
  bool memory_windows = false;
  std::uint8_t port_count = 0;
  std::uint32_t max_queue_pairs = 0;
  std::uint32_t max_requests = 0;  ///< Per queue.
  std::uint32_t max_elements = 0;  ///< Scatter/gather elements per request.
  std::uint32_t max_read_elements = 0;
  std::uint32_t max_completion_queues = 0;
  std::uint32_t max_completion_queue_depth = 0;
  std::uint32_t max_memory_regions = 0;
  std::uint64_t max_region_bytes = 0;
  std::uint32_t max_read_atomic_initiator = 0;  ///< Reads and atomics in flight, as requester.
  std::uint32_t max_read_atomic_responder = 0;
  std::uint32_t max_shared_receive_requests = 0;
  std::uint32_t max_shared_receive_elements = 0;
  std::uint32_t vendor_id = 0;
  std::uint32_t vendor_part_id = 0;
  std::string firmware_version;
};

class Context {
 public:
  /// The device that was opened.
  [[nodiscard]] const Device& device() const noexcept;
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] Guid guid() const noexcept;
  [[nodiscard]] Transport transport() const noexcept;
  [[nodiscard]] std::uint64_t fabric_id() const noexcept;
  [[nodiscard]] const Capabilities& capabilities() const noexcept;

  /// Ports count from 1.
  [[nodiscard]] Result<Port> query_port(std::uint8_t port) const;
  /// The first ACTIVE port; `not_ready` with the state of port 1 if there is none.
  [[nodiscard]] Result<Port> first_active_port() const;
  /// The entries of the port's GID table that are in use.
  [[nodiscard]] Result<std::vector<GidEntry>> query_gid_table(std::uint8_t port) const;
  [[nodiscard]] Result<std::vector<PartitionKey>> query_partition_keys(std::uint8_t port) const;
  /// The device's NUMA node; `not_found` if the system names none.
  [[nodiscard]] Result<int> numa_node() const;

  [[nodiscard]] Result<ProtectionDomain> allocate_domain() const;
  [[nodiscard]] Result<CompletionQueue> create_completion_queue(
      const CompletionQueueOptions& options) const;
  [[nodiscard]] Result<CompletionChannel> create_completion_channel() const;

  /// Events for the device or a port so far.
  [[nodiscard]] EventFlags events() const noexcept;
  /// Readable when events wait. For `EventDelivery::manual`.
  [[nodiscard]] int event_fd() const noexcept;
  /// Reads all waiting events without blocking; returns how many there were.
  [[nodiscard]] Result<std::size_t> dispatch_events() const;

 private:
  friend class Device;
  friend struct detail::ContextState;
  friend class ProtectionDomain;
  friend class CompletionQueue;
  friend struct detail::Raw;
  explicit Context(std::shared_ptr<detail::ContextState> state) noexcept;
  std::shared_ptr<detail::ContextState> state_;
};

}  // namespace verbatim
