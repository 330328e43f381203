# SPDX-License-Identifier: MIT OR Apache-2.0
# How a process learns who it is: a part of verbatim_network.

target_sources(verbatim_network
  PRIVATE
    bootstrap.cpp
    bootstrap_address.cpp
    bootstrap_config.cpp
    bootstrap_pmix.cpp
    config.cpp
    config_json.cpp
    pmix.cpp
    pmix_card.cpp
  PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES
    "${PROJECT_SOURCE_DIR}/include/verbatim/network/bootstrap.hpp"
    "${PROJECT_SOURCE_DIR}/include/verbatim/network/network_config.hpp")
target_link_libraries(verbatim_network PRIVATE
  $<BUILD_INTERFACE:PmixHeaders::PmixHeaders> ${CMAKE_DL_LIBS})
