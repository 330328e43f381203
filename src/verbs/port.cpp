// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/port.hpp"

namespace verbatim {

// The same words as in /sys/class/infiniband/*/ports/*/state, so that both can be searched for.
const char* to_string(PortState state) noexcept {
  switch (state) {
    case PortState::nop: return "NOP";
    case PortState::down: return "DOWN";
    case PortState::initializing: return "INIT";
    case PortState::armed: return "ARMED";
    case PortState::active: return "ACTIVE";
    case PortState::active_deferred: return "ACTIVE_DEFER";
  }
  return "unknown state";
}

const char* to_string(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::unspecified: return "unspecified";
    case LinkLayer::infiniband: return "InfiniBand";
    case LinkLayer::ethernet: return "Ethernet";
  }
  return "unknown link layer";
}

Result<MaximumTransferUnit> mtu_from_code(unsigned code) noexcept {
  constexpr auto kLargest = static_cast<unsigned>(MaximumTransferUnit::bytes_4096);
  if (code < static_cast<unsigned>(MaximumTransferUnit::bytes_256) || code > kLargest)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "mtu_from_code",
                                 .field = "mtu",
                                 .value = code,
                                 .limit = kLargest});
  return static_cast<MaximumTransferUnit>(code);
}

std::uint32_t link_rate_mbps(unsigned width_code, unsigned speed_code) noexcept {
  struct Row {
    unsigned code;
    std::uint32_t value;
  };
  static constexpr Row kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  // The rate of a lane for SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, as the kernel rounds it.
  static constexpr Row kLaneMbps[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                                      {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
  std::uint32_t rate = 0;
  for (const Row& speed : kLaneMbps)
    for (const Row& width : kLanes)
      if (speed.code == speed_code && width.code == width_code) rate = speed.value * width.value;
  return rate;
}

}  // namespace verbatim
