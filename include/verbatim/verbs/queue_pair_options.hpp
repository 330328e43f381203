// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The options of a queue pair. Four fields are required; the rest have defaults.
///
/// If the caller asks for more than the device's limit, it is an error; a default is lowered to the
/// limit. `QueuePair::limits()` returns what the device really granted.
#include <cstdint>
#include <optional>

#include "verbatim/base/ids.hpp"
#include "verbatim/base/required.hpp"
#include "verbatim/verbs/access.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/endpoint.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"
#include "verbatim/verbs/timers.hpp"

namespace verbatim {

/// How packets leave. The library chooses what is left out: see negotiate.hpp.
struct RouteOptions {
  std::optional<std::uint8_t> port{};           ///< Default: the first ACTIVE one.
  std::optional<std::uint32_t> gid_index{};     ///< Offer this address only.
  std::optional<PartitionKey> partition_key{};  ///< Default: the port's first full membership.
  std::uint8_t service_level = 0;               ///< 0 to 15.
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  ///< 20 bits.
  std::uint8_t hop_limit = 64;
};

struct QueuePairOptions {
  Required<ProtectionDomain> domain;
  Required<CompletionQueue> send_completions;     ///< For sends, writes, reads.
  Required<CompletionQueue> receive_completions;  ///< For receives; may be the same.
  Required<AccessFlags> access;                   ///< What the peer may do through this queue pair.
  QueuePairType type = QueuePairType::reliable_connection;
  std::optional<SharedReceiveQueue> shared_receive_queue{};

  std::optional<std::uint32_t> max_send_requests{};     ///< Default 128.
  std::optional<std::uint32_t> max_receive_requests{};  ///< Default 128; none with a shared queue.
  std::optional<std::uint32_t> max_send_elements{};     ///< Per request. Default 4.
  std::optional<std::uint32_t> max_receive_elements{};  ///< Per request. Default 4.
  std::optional<std::uint32_t> max_inline_bytes{};      ///< Default 64, if the device supports it.

  std::optional<MaximumTransferUnit> mtu{};       ///< At most this. Default: the port's.
  std::optional<std::uint8_t> max_read_atomic{};  ///< Both ways. Default 16, or the device's.
  std::optional<PacketSequenceNumber> psn{};      ///< Default: random.
  AckTimeout ack_timeout{};
  MaxAckRetries max_ack_retries{};
  MaxRnrRetries max_rnr_retries{};
  MinRnrTimer min_rnr_timer{};
  RouteOptions route{};
  QueueKey queue_key{0x11111111};  ///< For datagrams: the key that a sender must present.
};

/// As the device granted them.
struct QueuePairLimits {
  std::uint32_t max_send_requests = 0;
  std::uint32_t max_receive_requests = 0;
  std::uint32_t max_send_elements = 0;
  std::uint32_t max_receive_elements = 0;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_message_bytes = 0;
};

}  // namespace verbatim
