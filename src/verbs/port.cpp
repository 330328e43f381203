// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/port.hpp"

namespace verbatim {

// The words that /sys/class/infiniband/*/ports/*/state uses, so that both can be searched for.
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

}  // namespace verbatim
