// SPDX-License-Identifier: MIT OR Apache-2.0
// The functions that lookup_outer.c intercepts.
int verbatim_test_depth(void) { return 1; }
int verbatim_test_depth_by_version(void) { return 1; }
