# SPDX-License-Identifier: MIT OR Apache-2.0
# What is built. By default the library, and at the top level also what is installed with it; the
# presets of CMakePresets.json, which are for work on this project, add tests and benchmarks.
option(VERBATIM_BUILD_TESTS "Build the tests (needs GoogleTest)" OFF)
option(VERBATIM_BUILD_BENCH "Build the benchmarks" OFF)
option(VERBATIM_BUILD_EXAMPLES "Build the examples (needs Asio)" OFF)
option(VERBATIM_BUILD_PRELOAD "Build the library for LD_PRELOAD" ${PROJECT_IS_TOP_LEVEL})
option(VERBATIM_BUILD_CLI "Build the program verbatim (needs CLI11 and {fmt})"
  ${PROJECT_IS_TOP_LEVEL})
option(VERBATIM_BUILD_NETWORK "Build verbatim::network (needs libsodium, Asio and pmix.h)"
  ${PROJECT_IS_TOP_LEVEL})
option(VERBATIM_INSTALL "Add install rules" ${PROJECT_IS_TOP_LEVEL})
option(VERBATIM_WERROR "Treat warnings in our own code as errors" OFF)
# Public, because the checks are in headers: the library and its users must agree about them.
option(VERBATIM_CHECKED "Define VERBATIM_CHECKED=1: extra checks on the data path" OFF)
# For whoever links the library: manual/safety.md says what these warnings find.
option(VERBATIM_WARNINGS_FOR_USERS "Users of the target get warnings about dangling buffers" OFF)
option(VERBATIM_STRICT_LINEAR "For clang -Wconsumed, a forgotten Pending is an error" OFF)
option(VERBATIM_FUZZ "Build the decoders for libFuzzer (needs clang)" OFF)
set(VERBATIM_SANITIZE "" CACHE STRING "Sanitizer: empty, address (ASan and UBSan) or thread")
set_property(CACHE VERBATIM_SANITIZE PROPERTY STRINGS "" address thread)

# Without a build type CMake would build a slow library. A project around this one chooses its own.
get_property(verbatim_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT verbatim_multi_config)
  message(STATUS "CMAKE_BUILD_TYPE is not set: Release")
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
