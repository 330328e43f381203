# SPDX-License-Identifier: MIT OR Apache-2.0
# VERBATIM_SANITIZE, for the whole build: a program and the libraries in it must agree.

if(VERBATIM_SANITIZE STREQUAL "address")
  set(verbatim_sanitize_flags -fsanitize=address,undefined)
elseif(VERBATIM_SANITIZE STREQUAL "thread")
  set(verbatim_sanitize_flags -fsanitize=thread)
elseif(NOT VERBATIM_SANITIZE STREQUAL "")
  message(FATAL_ERROR
    "VERBATIM_SANITIZE is '${VERBATIM_SANITIZE}': it can be empty, address or thread")
endif()

if(VERBATIM_SANITIZE)
  # UBSan only prints by default; a test has to fail.
  list(APPEND verbatim_sanitize_flags -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options(${verbatim_sanitize_flags})
  add_link_options(${verbatim_sanitize_flags})
endif()
