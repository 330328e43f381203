# SPDX-License-Identifier: MIT OR Apache-2.0
# Debian packages, one for each component: `cpack -G DEB` in a build with the prefix /usr and shared
# libraries (preset `package`).
set(release "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME verbatim)
set(CPACK_PACKAGE_VENDOR "Verbatim contributors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
if(NOT CPACK_PACKAGE_CONTACT)  # Whoever hands packages on names himself here.
  set(CPACK_PACKAGE_CONTACT "Verbatim contributors <verbatim@localhost>")
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES ON)
# What dpkg wants; the default takes the umask of whoever packs.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL library dev)
# What `dpkg-shlibdeps` does not know yet: the libraries of the packages beside it.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
  "${PROJECT_BINARY_DIR}" "${PROJECT_BINARY_DIR}/src/network")

set(verbatim_triggers "${PROJECT_BINARY_DIR}/debian/triggers")
file(WRITE "${verbatim_triggers}" "activate-noawait ldconfig\n")

# verbatim_deb(component package section depends summary more): `depends` on packages of ours.
function(verbatim_deb component package section depends summary more)
  string(TOUPPER "${component}" name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME "${package}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_SECTION "${section}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  if(NOT package MATCHES "-dev$")
    set(CPACK_DEBIAN_${name}_PACKAGE_CONTROL_EXTRA "${verbatim_triggers}" PARENT_SCOPE)
  endif()
  set(CPACK_COMPONENT_${name}_DESCRIPTION "${summary}\n${more}" PARENT_SCOPE)
  # Debian wants its licence and its history with every package; `cmake --install` leaves them out.
  set(doc "${CMAKE_INSTALL_DATAROOTDIR}/doc/${package}")
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/debian/copyright" DESTINATION "${doc}"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  set(history "${PROJECT_BINARY_DIR}/debian/${package}/changelog")
  file(WRITE "${history}" "${package} (${PROJECT_VERSION}) unstable; urgency=medium\n\n"
    "  * See CHANGELOG.md of the sources.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000\n")
  execute_process(COMMAND gzip -9nf "${history}" COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${history}.gz" DESTINATION "${doc}" COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

set(exactly "(= ${PROJECT_VERSION})")
verbatim_deb(library "libverbatim${release}" libs ""
  "RDMA for C++: shared library"
  "Verbatim runs on InfiniBand and RoCE hardware, on Soft-RoCE, and on the\n\
software device that it brings along. libibverbs is loaded where it is\n\
installed.")
verbatim_deb(dev libverbatim-dev libdevel "libverbatim${release} ${exactly}, libibverbs-dev"
  "RDMA for C++: files for developers"
  "Headers, the CMake package verbatim and the pkg-config module verbatim.")
if(TARGET verbatim_network)
  list(APPEND CPACK_COMPONENTS_ALL network network-dev)
  verbatim_deb(network "libverbatim-network${release}" libs "libverbatim${release} ${exactly}"
    "RDMA for C++, ranks of a job: shared library"
    "Sessions, membership, barriers and losses of the ranks of a job.")
  verbatim_deb(network-dev libverbatim-network-dev libdevel
    "libverbatim-network${release} ${exactly}, libverbatim-dev ${exactly}"
    "RDMA for C++, ranks of a job: files for developers"
    "Headers, the CMake target verbatim::network and the pkg-config module\nverbatim-network.")
endif()
if(TARGET verbatim_cli)
  set(ours "libverbatim${release} ${exactly}")
  if(TARGET verbatim_network)
    string(APPEND ours ", libverbatim-network${release} ${exactly}")
  endif()
  list(APPEND CPACK_COMPONENTS_ALL preload)
  verbatim_deb(preload verbatim-tools net "${ours}"
    "RDMA for C++: programs"
    "The program verbatim, and libraries by which unchanged programs use the\n\
software device: verbatim preload -- ib_write_bw")
endif()
include(CPack)
