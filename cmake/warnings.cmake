# SPDX-License-Identifier: MIT OR Apache-2.0
# Warnings for our own targets. Per target, never global: a project that includes this one keeps
# its own choice, and third-party headers are not our business.

# verbatim_warnings(target): turns the warnings on; errors too when VERBATIM_WERROR is set.
function(verbatim_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic
    -Wconversion -Wsign-conversion  # lengths and keys of the verbs interface are 32 bits wide
    -Wshadow -Wundef -Wimplicit-fallthrough
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wold-style-cast>
    # VERBATIM_TRY is a statement expression behind __extension__; clang warns all the same.
    $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-statement-expression-from-macro-expansion>
    # Of sources that are compiled together g++ takes all for headers, and warns of coroutines that
    # keep something of an anonymous namespace.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>
    $<$<BOOL:${VERBATIM_WERROR}>:-Werror>)
endfunction()

# verbatim_warnings_for_users(target): the warnings that see misuse of the library, as errors, for
# the targets that link this one. clang's -Wall has -Wdangling; the others are off by default.
function(verbatim_warnings_for_users target)
  target_compile_options(${target} INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wall -Werror=dangling-pointer>
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wconsumed -Werror=consumed
      -Wdangling -Werror=return-stack-address>)
  target_compile_definitions(${target} INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:_GLIBCXX_ASSERTIONS>)
endfunction()
