// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The addresses of the devices' ports, and how to find the device of an address.
///
/// Each device has one port. On InfiniBand its LID is the device's index + 1, its GID fe80::/64 and
/// a number; on Ethernet it also has the IPv4-mapped GID of 127.0.0.<index + 1>.
///
/// Owns nothing. Any thread; pure functions, no locks. Not hot: used when a queue pair connects,
/// and once per datagram.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace verbatim::engine {

inline constexpr std::uint32_t kNoDevice = ~std::uint32_t{0};

/// fe80::/64 and a number of our own, the same in every process.
[[nodiscard]] inline ibv_gid link_local_gid(std::uint32_t device) noexcept {
  ibv_gid gid{};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0x80;
  gid.raw[8] = 0x02;
  gid.raw[9] = 'v';
  gid.raw[10] = 'b';
  gid.raw[15] = static_cast<std::uint8_t>(device + 1);
  return gid;
}

/// ::ffff:127.0.0.n
[[nodiscard]] inline ibv_gid mapped_gid(std::uint32_t device) noexcept {
  ibv_gid gid{};
  const std::uint8_t tail[] = {0xff, 0xff, 127, 0, 0, static_cast<std::uint8_t>(device + 1)};
  std::copy(std::begin(tail), std::end(tail), gid.raw + 10);
  return gid;
}

/// The device that an address leads to, or kNoDevice. For a global address the GID decides; on
/// InfiniBand the LID must lead there, too.
[[nodiscard]] inline std::uint32_t device_of(const ibv_ah_attr& address, bool ethernet) noexcept {
  if (address.is_global == 0) return address.dlid == 0 ? kNoDevice : address.dlid - 1u;
  const std::uint32_t device = address.grh.dgid.raw[15] - 1u;
  const auto is = [&](const ibv_gid& gid) {
    return std::equal(std::begin(gid.raw), std::end(gid.raw), address.grh.dgid.raw);
  };
  if (device > 255 || (!is(link_local_gid(device)) && !is(mapped_gid(device)))) return kNoDevice;
  return ethernet || address.dlid - 1u == device ? device : kNoDevice;
}

}  // namespace verbatim::engine
