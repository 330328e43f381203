// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the inline functions of verbs.h find in a context: they call it, mostly unchecked.
///
/// A program may be compiled with an older or newer verbs.h than this. The header keeps that safe
/// by two rules, which we keep too: `verbs_context` grows at its front, so `sz` counts from its
/// end; and structures that grow at their end come with the size that the program knows.
///
/// Owns nothing: the tables are the context's. Any thread; takes no lock itself. The data verbs
/// behind it are hot; filling it is not.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

/// Fills every pointer that may be called. What we do not have answers EOPNOTSUPP.
void fill_operations(verbs_context& context) noexcept;

/// Opens a device so that programs can call what is in its context.
ibv_context* open_filled(ibv_device* device);

/// As query_port and query_device (device.hpp), for a caller whose structure has `size` bytes: no
/// byte beyond them is written, and what we do not know of is zero.
int query_port_sized(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                     std::size_t size) noexcept;
int query_device_sized(ibv_context* context, const ibv_query_device_ex_input* input,
                       ibv_device_attr_ex* attributes, std::size_t size) noexcept;

}  // namespace verbatim::engine
