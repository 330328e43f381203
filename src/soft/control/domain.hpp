// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Protection domains.
///
/// Control verbs that create and free them (Domain in shared/objects.hpp). Any thread; no locks.
/// Not hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_pd* allocate_domain(ibv_context* context) noexcept;
int free_domain(ibv_pd* domain) noexcept;

}  // namespace verbatim::engine
