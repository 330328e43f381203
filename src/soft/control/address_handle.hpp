// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Address handles: where datagrams go.
///
/// Control verbs that create and free them (AddressHandle in shared/objects.hpp). Any thread; no
/// locks. Not hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_ah* create_address_handle(ibv_pd* domain, ibv_ah_attr* attributes) noexcept;
int destroy_address_handle(ibv_ah* handle) noexcept;

}  // namespace verbatim::engine
