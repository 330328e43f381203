// SPDX-License-Identifier: MIT OR Apache-2.0
// In the place of a libibverbs: whoever loads it ends at once, with a status that tells.
#include <unistd.h>

namespace {

[[gnu::constructor]] void tell() { _exit(42); }

}  // namespace
