// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Pages for providers whose devices reach any memory of the process.
#include <infiniband/verbs.h>

#include <cstddef>

#include "verbatim/provider/provider.hpp"

namespace verbatim::detail {

/// Zeroed, page-aligned, not inherited by a forked child. nullptr with errno on failure.
void* allocate_pages(ibv_context*, std::size_t bytes, HugePages huge_pages);
int free_pages(ibv_context*, void* address, std::size_t bytes);

}  // namespace verbatim::detail
