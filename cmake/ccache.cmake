# SPDX-License-Identifier: MIT OR Apache-2.0
# Compilers run through ccache, where there is one and nobody has chosen something else.
find_program(VERBATIM_CCACHE ccache)
mark_as_advanced(VERBATIM_CCACHE)
if(VERBATIM_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${VERBATIM_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${VERBATIM_CCACHE}")
endif()
