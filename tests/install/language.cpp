// SPDX-License-Identifier: MIT OR Apache-2.0
// One public header, as lane `install` names it, for a compiler that cannot compile it.
#include VERBATIM_HEADER
