/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A libpmix.so.2 that has none of the functions. */
int verbatim_empty_pmix;
