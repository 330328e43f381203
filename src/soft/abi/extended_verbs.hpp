// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The extended verbs: completions read field by field, requests built call by call.
///
/// Owns the requests that are being built. Any thread; from ibv_wr_start to ibv_wr_complete the
/// program holds `build_lock` of that queue pair. Reading takes the locks of poll(). Hot.
#include <infiniband/verbs.h>

#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// Puts the extended verbs into a context, where the inline functions of verbs.h find them.
void fill_extended(verbs_context& context) noexcept;

/// The extended view of a queue pair, or nullptr if it was created without one.
[[nodiscard]] ibv_qp_ex* to_extended(ibv_qp* queue_pair) noexcept;

}  // namespace verbatim::engine
