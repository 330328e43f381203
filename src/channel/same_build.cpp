// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/detail/same_build.hpp"

extern "C" const char VERBATIM_SAME_BUILD = '\0';
