# SPDX-License-Identifier: MIT OR Apache-2.0
# Finds <pmix.h> and defines PmixHeaders::PmixHeaders. Headers only: the library is loaded at run
# time, where a launcher serves PMIx.

find_path(PmixHeaders_INCLUDE_DIR pmix.h
  # Debian's package keeps versions apart.
  HINTS "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include")
mark_as_advanced(PmixHeaders_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PmixHeaders
  REQUIRED_VARS PmixHeaders_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libpmix-dev, which has <pmix.h>")

if(PmixHeaders_FOUND AND NOT TARGET PmixHeaders::PmixHeaders)
  add_library(PmixHeaders::PmixHeaders INTERFACE IMPORTED)
  target_include_directories(PmixHeaders::PmixHeaders INTERFACE "${PmixHeaders_INCLUDE_DIR}")
endif()
