// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A path in the device's form, for datagrams and for connected queue pairs.
#include <infiniband/verbs.h>

#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/negotiate.hpp"
#include "verbatim/verbs/queue_pair_options.hpp"

namespace verbatim::detail {

/// The device's structure has 8 bits for it: a higher one would turn into another.
inline constexpr std::uint32_t kMaxGidIndex = 255;

/// For options whose values fit.
[[nodiscard]] ibv_ah_attr address_vector(const AddressOptions& options) noexcept;

/// The agreed path, with the caller's choices for outgoing packets.
[[nodiscard]] inline AddressOptions address_of(const Path& path, std::uint8_t port,
                                               const RouteOptions& route) noexcept {
  return {.port = port,
          .remote_lid = path.remote_lid,
          .global = path.global,
          .remote_gid = path.remote_gid,
          .local_gid_index = path.local_gid_index,
          .service_level = route.service_level,
          .traffic_class = route.traffic_class,
          .flow_label = route.flow_label,
          .hop_limit = route.hop_limit};
}

}  // namespace verbatim::detail
