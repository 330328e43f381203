// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The devices of this machine as plain data, and which of them open_device() takes and why.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/provider/provider.hpp"
#include "verbatim/verbs/device.hpp"
#include "verbatim/verbs/gid.hpp"
#include "verbatim/verbs/port.hpp"

namespace verbatim::cli {

struct GidReport {
  GidEntry entry{};
  std::string interface{};  ///< The network interface behind it, or "".
};

struct PortReport {
  Port port{};
  std::vector<GidReport> gids{};
  std::optional<Error> failure{};  ///< The port or its table could not be read.
};

struct DeviceReport {
  std::string name;
  Guid guid{};
  Transport transport = Transport::hardware;
  std::optional<Error> failure{};  ///< It could not be opened: there is nothing below.
  std::string firmware{};
  bool reliable_connection = false;
  std::string no_connection_reason{};
  std::optional<int> numa_node{};
  std::vector<PortReport> ports{};

  /// The built-in software device.
  [[nodiscard]] bool is_soft() const noexcept { return transport == Transport::soft; }
};

struct DevicesReport {
  std::vector<DeviceReport> devices{};
  std::optional<Error> failure{};  ///< They could not be listed.
  std::string no_libibverbs{};     ///< Why libibverbs is not there, or "".
  std::string named{};             ///< What VERBATIM_DEVICE says, or "".
  std::string asked_for{};         ///< The device that the command line names, or "".
  std::string taken{};             ///< What open_device() took, or "".
  std::optional<Error> refusal{};  ///< Why it took none.
};

/// Opens every device, and asks open_device() for the one that is asked for.
[[nodiscard]] DevicesReport report_devices(const std::string& asked_for = "");

/// Why open_device() takes this one, or does not.
[[nodiscard]] std::string why(const DevicesReport& report, const DeviceReport& device);

/// "software device of the kernel".
[[nodiscard]] std::string_view describe(Transport transport) noexcept;
/// "hardware", "kernel_software", "soft".
[[nodiscard]] std::string_view identifier_of(Transport transport) noexcept;
/// "RoCEv2", "RoCEv1", "InfiniBand".
[[nodiscard]] std::string_view to_string(GidType type) noexcept;
/// "100 Gbit/s", "2.5 Gbit/s", "unknown rate".
[[nodiscard]] std::string format_rate(std::uint32_t mbps);

}  // namespace verbatim::cli
