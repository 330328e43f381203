# SPDX-License-Identifier: MIT OR Apache-2.0
# Finds <infiniband/verbs.h> and defines VerbsHeaders::VerbsHeaders. Headers only: Verbatim loads
# libibverbs at run time. Installed with the package, whose users need the header as well.

find_path(VerbsHeaders_INCLUDE_DIR infiniband/verbs.h)
mark_as_advanced(VerbsHeaders_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(VerbsHeaders
  REQUIRED_VARS VerbsHeaders_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libibverbs-dev, which has <infiniband/verbs.h>")

if(VerbsHeaders_FOUND AND NOT TARGET VerbsHeaders::VerbsHeaders)
  add_library(VerbsHeaders::VerbsHeaders INTERFACE IMPORTED)
  target_include_directories(VerbsHeaders::VerbsHeaders INTERFACE "${VerbsHeaders_INCLUDE_DIR}")
endif()
