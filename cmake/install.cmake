# SPDX-License-Identifier: MIT OR Apache-2.0
# Install rules: the library, its public headers, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(verbatim_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/verbatim")

install(TARGETS verbatim verbatim_asio EXPORT verbatimTargets FILE_SET HEADERS)
if(TARGET verbatim_network)
  install(TARGETS verbatim_network EXPORT verbatimTargets FILE_SET HEADERS)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindSodium.cmake"
    DESTINATION "${verbatim_package_dir}")
endif()
install(EXPORT verbatimTargets NAMESPACE verbatim:: DESTINATION "${verbatim_package_dir}")

if(TARGET verbatim_preload)
  install(TARGETS verbatim_preload
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT preload)
  # Apart from other libraries: only who asks for it is to find this libibverbs.
  install(TARGETS verbatim_libibverbs
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/verbatim" COMPONENT preload NAMELINK_SKIP)
endif()
if(TARGET verbatim_cli)
  install(TARGETS verbatim_cli COMPONENT preload)
endif()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/verbatimConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/verbatimConfig.cmake"
  INSTALL_DESTINATION "${verbatim_package_dir}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/verbatimConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/verbatimConfig.cmake"
  "${PROJECT_BINARY_DIR}/verbatimConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/FindVerbsHeaders.cmake"
  DESTINATION "${verbatim_package_dir}")

# Relative to where the file lies, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH verbatim_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
set(verbatim_pc_cflags "")
if(VERBATIM_CHECKED)
  set(verbatim_pc_cflags "-DVERBATIM_CHECKED=1")
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/verbatim.pc.in"
  "${PROJECT_BINARY_DIR}/verbatim.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/verbatim.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(TARGET verbatim_network)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/verbatim-network.pc.in"
    "${PROJECT_BINARY_DIR}/verbatim-network.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/verbatim-network.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
install(FILES LICENSE-MIT LICENSE-APACHE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
