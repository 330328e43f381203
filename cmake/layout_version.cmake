# SPDX-License-Identifier: MIT OR Apache-2.0
# The version of what processes share (src/soft/shared/layout.hpp), from its text: whoever changes
# the layout cannot forget to change the version, and two builds that differ refuse each other.

# verbatim_layout_version(text out): a number that differs when the code does. Comments and white
# space are not code.
function(verbatim_layout_version text out)
  string(REGEX REPLACE "//[^\n]*" "" code "${text}")
  string(REGEX REPLACE "[ \t\r\n]+" " " code "${code}")
  string(SHA256 hash "${code}")
  string(SUBSTRING "${hash}" 0 8 first)
  set(${out} "0x${first}u" PARENT_SCOPE)
endfunction()
