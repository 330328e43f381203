// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes the place of libibverbs: a process that loads it ends at once, with a special status.
#include <unistd.h>

namespace {

[[gnu::constructor]] void tell() { _exit(42); }

}  // namespace
