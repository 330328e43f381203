// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What two peers tell each other before they talk: a versioned, self-describing record.
///
/// An Endpoint describes one queue pair and everything that must match. The caller carries it to
/// the peer by any means (bytes or JSON). `negotiate()` decides whether and how the two can talk.
/// Decoding trusts nothing: an unknown version, or a truncated or hostile record, is `malformed`,
/// and the error names the field.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/gid.hpp"
#include "verbatim/verbs/port.hpp"
#include "verbatim/verbs/timers.hpp"

namespace verbatim {

/// The values are the verbs' own.
enum class QueuePairType : std::uint8_t {
  reliable_connection = 2,
  unreliable_connection = 3,
  unreliable_datagram = 4,
};
[[nodiscard]] const char* to_string(QueuePairType type) noexcept;

/// The number of the first packet: 24 bits.
class PacketSequenceNumber {
 public:
  constexpr PacketSequenceNumber() noexcept = default;
  [[nodiscard]] static Result<PacketSequenceNumber> from_value(std::uint32_t value) noexcept;
  /// A packet of an earlier connection with the same queue pair number then falls outside the
  /// window of this one.
  [[nodiscard]] static PacketSequenceNumber random() noexcept;

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }
  friend constexpr bool operator==(PacketSequenceNumber, PacketSequenceNumber) noexcept = default;

 private:
  explicit constexpr PacketSequenceNumber(std::uint32_t value) noexcept : value_(value) {}
  std::uint32_t value_ = 0;
};

struct Endpoint {
  static constexpr std::uint16_t kVersion = 1;
  static constexpr std::size_t kMaxGids = 8;

  /// An address at which the peer can reach this side.
  struct CandidateGid {
    Gid gid;
    std::uint32_t index = 0;  ///< In this side's GID table, to use as the source.
    GidType type = GidType::infiniband;
    friend bool operator==(const CandidateGid&, const CandidateGid&) noexcept = default;
  };

  std::uint64_t nonce = 0;  ///< Random per queue pair and connection: distinguishes a reused queue
                            ///< pair number from the intended one.
  Transport transport = Transport::hardware;
  std::uint64_t fabric_id = 0;  ///< 0 on a real fabric.
  LinkLayer link_layer = LinkLayer::unspecified;
  Lid lid{};
  std::vector<CandidateGid> gids;  ///< At most kMaxGids, best first.
  bool grh_required = false;
  QueuePairType type = QueuePairType::reliable_connection;
  QpNumber queue_pair{};
  PacketSequenceNumber psn;
  PartitionKey partition_key{};
  QueueKey queue_key{};  ///< For datagrams.
  MaximumTransferUnit mtu = MaximumTransferUnit::bytes_256;
  std::uint8_t read_atomic_initiator = 0;  ///< Reads and atomics that this side may have in flight.
  std::uint8_t read_atomic_responder = 0;  ///< ... and those that it can serve at once.
  std::uint32_t max_message_bytes = 0;
  AckTimeout ack_timeout;
  MinRnrTimer min_rnr_timer;
  bool atomics = false;
  bool remote_write = false;  ///< Whether this side allows it.

  friend bool operator==(const Endpoint&, const Endpoint&) noexcept = default;
};

/// At most 512 bytes.
[[nodiscard]] std::vector<std::byte> encode(const Endpoint& endpoint);
[[nodiscard]] Result<Endpoint> decode_endpoint(std::span<const std::byte> bytes);

/// One JSON object with the same content, for configuration files and logs.
[[nodiscard]] std::string to_json(const Endpoint& endpoint);
[[nodiscard]] Result<Endpoint> endpoint_from_json(std::string_view json);

}  // namespace verbatim
