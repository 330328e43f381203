// EXPECT: could not convert|no viable conversion|conversion from
// SPDX-License-Identifier: MIT OR Apache-2.0
// Rights can be given up, not taken.
#include "verbatim/verbs/remote_memory.hpp"

using verbatim::Access;
using Readable = verbatim::RemoteSpan<int, Access::remote_read>;
using Both = verbatim::RemoteSpan<int, Access::remote_read | Access::remote_write>;

#ifdef CONTROL
Readable misuse(const Both& span) { return span; }
#else
Both misuse(const Readable& span) { return span; }
#endif
