// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A global identifier: the network address of a port, 16 bytes in network order.
#include "verbatim/base/language.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace verbatim {

struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  [[nodiscard]] bool is_zero() const noexcept;
  [[nodiscard]] bool is_link_local() const noexcept;           ///< fe80::/10
  [[nodiscard]] bool is_ipv4_mapped() const noexcept;          ///< ::ffff:a.b.c.d
  [[nodiscard]] std::uint64_t subnet_prefix() const noexcept;  ///< The first 8 bytes, host order.
  friend bool operator==(const Gid&, const Gid&) noexcept = default;
  friend auto operator<=>(const Gid&, const Gid&) noexcept = default;
};

/// As IPv6 (`::ffff:10.0.0.1` for mapped addresses).
[[nodiscard]] std::string to_string(const Gid& gid);

/// How packets with this GID are framed. The values are the verbs' own.
enum class GidType : std::uint8_t { infiniband = 0, roce_v1 = 1, roce_v2 = 2 };

/// A row of a port's GID table.
struct GidEntry {
  Gid gid{};
  std::uint32_t index = 0;
  std::uint8_t port = 0;
  GidType type = GidType::infiniband;
  std::uint32_t interface_index = 0;  ///< The network interface behind it, or 0.
};

}  // namespace verbatim
