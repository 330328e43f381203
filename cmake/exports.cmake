# SPDX-License-Identifier: MIT OR Apache-2.0
# What a shared library of ours exports (exports/<library>.map, which tools/exports.py writes), and
# the code that it is made of.

# verbatim_shareable(target): the same code for static and shared libraries. A static one can become
# part of a user's shared library, and ccache has each source only once. Nobody replaces single
# functions of ours, so calls between them stay direct.
function(verbatim_shareable target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
endfunction()

# verbatim_exports(target): hides everything else, and gives what is left a version.
function(verbatim_exports target)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")
    return()
  endif()
  set(map "${PROJECT_SOURCE_DIR}/exports/${target}.map")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
  # The map also names what only checked builds have. Not every linker knows the option, nor minds.
  include(CheckLinkerFlag)
  set(CMAKE_REQUIRED_QUIET ON)
  check_linker_flag(CXX "LINKER:--undefined-version" VERBATIM_LINKER_HAS_UNDEFINED_VERSION)
  if(VERBATIM_LINKER_HAS_UNDEFINED_VERSION)
    target_link_options(${target} PRIVATE LINKER:--undefined-version)
  endif()
endfunction()
