// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The local memory of a request, checked.
///
/// Owns nothing. In the thread that runs the request, under `queue_pair`; takes no lock. Hot.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/memory/pieces.hpp"
#include "soft/memory/reach.hpp"
#include "soft/requester/queue_pair.hpp"

namespace verbatim::engine {

/// Checks the elements of a request. `access` is what the device needs for them.
[[nodiscard]] inline ibv_wc_status collect(QueuePair& queue_pair, const ibv_send_wr& request,
                                           std::uint32_t access, Pieces& pieces) noexcept {
  Peer& self = *queue_pair.self;
  pieces.count = static_cast<std::uint32_t>(request.num_sge);
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    const ibv_sge& element = request.sg_list[i];
    pieces.total += element.length;
    if ((request.send_flags & IBV_SEND_INLINE) != 0) {
      pieces.all[i] = {reinterpret_cast<std::byte*>(element.addr), element.length};
      continue;
    }
    Location location;
    if (element.length > 0 &&
        !locate_here(self, {element.lkey, queue_pair.domain, access, element.addr, element.length},
                     location))
      return IBV_WC_LOC_PROT_ERR;
    pieces.all[i] = {location.direct, element.length};
  }
  return pieces.total > queue_pair.max_message ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

}  // namespace verbatim::engine
