# SPDX-License-Identifier: MIT OR Apache-2.0
# An overlay port: it builds the sources that it lies in. <infiniband/verbs.h> is the system's, as
# no port has it.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  FEATURES
    network VERBATIM_BUILD_NETWORK)
# Without the program verbatim: vcpkg moves programs away from the libraries that it looks for.
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${FEATURE_OPTIONS}
    -DVERBATIM_BUILD_CLI=OFF
    -DVERBATIM_BUILD_PRELOAD=OFF
    -DVERBATIM_INSTALL=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME verbatim CONFIG_PATH lib/cmake/verbatim)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE")
