# SPDX-License-Identifier: MIT OR Apache-2.0
# Install rules, by component; each is a package of cmake/package.cmake, and can be installed alone
# with `cmake --install BUILD --component NAME`:
#   library      libverbatim.so (a static library is part of dev)
#   dev          headers, CMake package, pkg-config file
#   network      libverbatim_network.so
#   network-dev  the same as dev, for verbatim::network
#   preload      the program verbatim, and the libraries for LD_PRELOAD
#   licence      the texts; a Debian package has its own way to say it
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(verbatim_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/verbatim")

# verbatim_install_library(runtime development targets file): one library and its part of the
# CMake package.
function(verbatim_install_library runtime development targets file)
  install(TARGETS ${targets} EXPORT ${file}
    LIBRARY COMPONENT ${runtime} NAMELINK_COMPONENT ${development}
    ARCHIVE COMPONENT ${development}
    FILE_SET HEADERS COMPONENT ${development})
  install(EXPORT ${file} NAMESPACE verbatim:: DESTINATION "${verbatim_package_dir}"
    COMPONENT ${development})
endfunction()

# Relative to where the file lies, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH verbatim_pc_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
set(verbatim_pc_cflags "")
if(VERBATIM_CHECKED)
  set(verbatim_pc_cflags "-DVERBATIM_CHECKED=1")
endif()
# Whoever links a static library also links what it needs.
set(verbatim_pc_sodium ", libsodium")
if(BUILD_SHARED_LIBS)
  set(verbatim_pc_sodium "")
endif()
function(verbatim_install_pc name component)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in"
    "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT ${component})
endfunction()

verbatim_install_library(library dev "verbatim;verbatim_asio" verbatimTargets)
verbatim_install_pc(verbatim dev)
if(TARGET verbatim_network)
  verbatim_install_library(network network-dev verbatim_network verbatimNetworkTargets)
  verbatim_install_pc(verbatim-network network-dev)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/FindSodium.cmake"
    DESTINATION "${verbatim_package_dir}" COMPONENT network-dev)
endif()

if(TARGET verbatim_preload)
  install(TARGETS verbatim_preload
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT preload)
  # Apart from other libraries: only who asks for it is to find this libibverbs.
  install(TARGETS verbatim_libibverbs
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/verbatim" COMPONENT preload NAMELINK_SKIP)
endif()
if(TARGET verbatim_cli)
  # The linker looks in /usr by itself; elsewhere the program knows where its libraries lie.
  if(BUILD_SHARED_LIBS AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    file(RELATIVE_PATH verbatim_to_libraries
      "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(verbatim_cli PROPERTIES
      INSTALL_RPATH "$ORIGIN/${verbatim_to_libraries}")
  endif()
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
  DESTINATION "${verbatim_package_dir}" COMPONENT dev)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE-MIT" "${PROJECT_SOURCE_DIR}/LICENSE-APACHE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT licence)
