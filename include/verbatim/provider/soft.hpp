// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The provider of the software device "soft0": RDMA between processes of one user.
///
/// Needs no hardware, no kernel module and no root. `VERBATIM_SOFT=0` hides it.
#include "verbatim/provider/provider.hpp"

namespace verbatim {

[[nodiscard]] const Provider& soft_provider();

}  // namespace verbatim
