# SPDX-License-Identifier: MIT OR Apache-2.0
# Helpers to declare test programs and examples. Each is known to ctest, and is named together with
# its lane in <build>/tests.manifest (lines "lane<TAB>path"), from where ./test takes it.

# verbatim_test(name LANE lane [STRESSED] [PLAIN] SOURCES file... [LIBRARIES target...]): one
# GoogleTest program. STRESSED: VERBATIM_STRESS makes it take so many times as long, and it may.
# PLAIN: its own code is never optimized, as what it tests is the code of libraries and programs:
# cli_tests compiles in 33 s of processor time instead of 56.
function(verbatim_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STRESSED;PLAIN" "LANE" "SOURCES;LIBRARIES")
  add_executable(${name} ${arg_SOURCES})
  # gtest_main is an archive: a program with its own main() does not pull it in.
  target_link_libraries(${name} PRIVATE
    verbatim::verbatim ${arg_LIBRARIES} GTest::gmock GTest::gtest GTest::gtest_main)
  # Tests may look at private headers of small pure units, and share tests/support/.
  target_include_directories(${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  verbatim_warnings(${name})
  if(arg_PLAIN)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  verbatim_register(${name} ${arg_LANE} ${arg_STRESSED})
endfunction()

# verbatim_server(name): examples/name.cpp, which runs until it is stopped: tests/servers does.
function(verbatim_server name)
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE verbatim::verbatim)
  verbatim_warnings(${name})
endfunction()

# verbatim_example(name): examples/name.cpp, a program that exits with 0 when all went well.
function(verbatim_example name)
  verbatim_server(${name})
  verbatim_register(${name} examples FALSE)
endfunction()

# verbatim_register(target lane stressed): what the two helpers above have in common.
function(verbatim_register target lane stressed)
  # 77: "cannot run here", for instance where a device is needed and there is none.
  set(properties LABELS ${lane} SKIP_RETURN_CODE 77)
  if(stressed)
    # Known to ctest only when it runs, as VERBATIM_STRESS is.
    string(JOIN " " properties ${properties})
    set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}.ctest.cmake")
    file(GENERATE OUTPUT "${script}" CONTENT
"set(seconds 300)
if(\"\$ENV{VERBATIM_STRESS}\" MATCHES \"^[1-9][0-9]*$\")
  math(EXPR seconds \"300 * \$ENV{VERBATIM_STRESS}\")
endif()
add_test(${target} \"$<TARGET_FILE:${target}>\")
set_tests_properties(${target} PROPERTIES ${properties} TIMEOUT \${seconds})
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
  else()
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES ${properties} TIMEOUT 300)
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY verbatim_manifest
    "${lane}\t$<TARGET_FILE:${target}>\n")
endfunction()

# verbatim_write_manifest(): once, after everything is registered.
function(verbatim_write_manifest)
  get_property(lines GLOBAL PROPERTY verbatim_manifest)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/tests.manifest" CONTENT "${lines}")
endfunction()

# Examples of several ranks: examples/ builds them, tests/network starts them.
set(verbatim_rank_examples
  all_to_all broadcast_tree event_builder network network_barrier ring surviving)
