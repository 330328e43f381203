// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A port of a device, as it was when queried.
#include <cstdint>
#include <string_view>

#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"

namespace verbatim {

/// The values are the verbs' own.
enum class PortState : std::uint8_t {
  nop = 0,
  down = 1,
  initializing = 2,
  armed = 3,
  active = 4,
  active_deferred = 5,
};
[[nodiscard]] const char* to_string(PortState state) noexcept;

enum class LinkLayer : std::uint8_t { unspecified = 0, infiniband = 1, ethernet = 2 };
[[nodiscard]] const char* to_string(LinkLayer layer) noexcept;

/// The largest packet payload. The values are the wire codes.
enum class MaximumTransferUnit : std::uint8_t {
  bytes_256 = 1,
  bytes_512 = 2,
  bytes_1024 = 3,
  bytes_2048 = 4,
  bytes_4096 = 5,
};
[[nodiscard]] constexpr std::uint32_t byte_count(MaximumTransferUnit mtu) noexcept {
  return 128u << static_cast<unsigned>(mtu);
}
/// From the wire code, 1 to 5.
[[nodiscard]] Result<MaximumTransferUnit> mtu_from_code(unsigned code) noexcept;

/// From the verbs' codes of width and speed, in Mbit/s; 0 for a code that is not known.
[[nodiscard]] std::uint32_t link_rate_mbps(unsigned width_code, unsigned speed_code) noexcept;

struct Port {
  std::uint8_t number = 0;
  PortState state = PortState::nop;
  LinkLayer link_layer = LinkLayer::unspecified;
  Lid lid{};
  MaximumTransferUnit active_mtu = MaximumTransferUnit::bytes_256;
  MaximumTransferUnit max_mtu = MaximumTransferUnit::bytes_256;
  std::uint32_t rate_mbps = 0;  ///< Of the link; 0: unknown. Software devices make it up.
  std::uint32_t max_message_bytes = 0;
  std::uint32_t gid_count = 0;
  std::uint16_t partition_key_count = 0;
  bool grh_required = false;  ///< Packets need the global header even within a subnet.
};

}  // namespace verbatim
