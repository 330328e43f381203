# SPDX-License-Identifier: MIT OR Apache-2.0
# How a job starts: configurations, the environment, PMIx, `verbatim run`.
verbatim_test(bootstrap_tests LANE network PLAIN
  LIBRARIES verbatim::network verbatim_test_support
  SOURCES
    bootstrap_test.cpp
    ../support/command.cpp
    network_config_test.cpp
    pmix_test.cpp)
target_link_libraries(bootstrap_tests PRIVATE nlohmann_json::nlohmann_json)

# A rank, as a launcher starts it.
add_executable(rank_program rank_program.cpp)
target_link_libraries(rank_program PRIVATE verbatim::network)
verbatim_warnings(rank_program)
add_library(empty_pmix SHARED empty_pmix.c)
set_target_properties(empty_pmix PROPERTIES OUTPUT_NAME pmix VERSION 2
  LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/empty_pmix")
add_dependencies(bootstrap_tests rank_program empty_pmix)
target_compile_definitions(bootstrap_tests PRIVATE
  VERBATIM_EMPTY_PMIX="$<TARGET_FILE_DIR:empty_pmix>"
  VERBATIM_RANK_PROGRAM="$<TARGET_FILE:rank_program>")

if(TARGET verbatim_cli)
  verbatim_test(run_tests LANE network PLAIN SOURCES ../support/command.cpp run_test.cpp)
  add_dependencies(run_tests verbatim_cli rank_program)
  target_compile_definitions(run_tests PRIVATE
    VERBATIM_PROGRAM="$<TARGET_FILE:verbatim_cli>"
    VERBATIM_RANK_PROGRAM="$<TARGET_FILE:rank_program>")
endif()
