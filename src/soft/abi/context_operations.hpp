// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the inline functions of verbs.h find in a context; they mostly call it without a
/// check.
///
/// A program may be compiled with an older or newer verbs.h than this library. Two rules of that
/// header keep this safe, and we keep them too: `verbs_context` grows at its front, so `sz` counts
/// from its end; and structures that grow at their end come with the size that the program knows.
///
/// Owns nothing: the tables belong to the context. Any thread; takes no lock itself. The data verbs
/// behind it are hot; filling it is not.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

/// Fills every pointer that may be called. What we do not implement returns EOPNOTSUPP.
void fill_operations(verbs_context& context) noexcept;

/// Opens a device so that programs can call what is in its context.
ibv_context* open_filled(ibv_device* device);

/// Like query_port and query_device (device.hpp), for a caller whose structure has `size` bytes:
/// writes no byte beyond them, and zeroes fields that we do not know.
int query_port_sized(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                     std::size_t size) noexcept;
int query_device_sized(ibv_context* context, const ibv_query_device_ex_input* input,
                       ibv_device_attr_ex* attributes, std::size_t size) noexcept;

}  // namespace verbatim::engine
