# SPDX-License-Identifier: Apache-2.0
# How tests are registered.
#
#   cinch_add_test(NAME <name> SOURCES <files> [LIBRARIES <targets>] [LABELS <labels>]
#                  [TIMEOUT <seconds>] [ENVIRONMENT <NAME=value>...] [ARGUMENTS <args>]
#                  [TSAN_FILTER <GoogleTest filter>] [SERIAL])
#
# Labels that move a test out of the short suite: long, nightly, gpu, multi_gpu. `threads` makes it
# part of the tsan run, narrowed by TSAN_FILTER to the cases that use threads; `no_sanitizer` keeps
# it out of the asan run. SERIAL: the test wants the machine to itself.

# Builds what the tsan preset runs, and nothing else.
add_custom_target(threads_tests)

set(CINCH_TEST_ENVIRONMENT
    "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
    "ASAN_OPTIONS=detect_stack_use_after_return=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/asan.supp"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
if("thread" IN_LIST CINCH_SANITIZE)
  # UCX patches the process's memory calls as soon as it is loaded; the thread sanitizer does not
  # survive that where a thread ends.
  list(APPEND CINCH_TEST_ENVIRONMENT UCX_MEM_MMAP_HOOK_MODE=none UCX_MEM_MALLOC_HOOKS=no
       UCX_MEM_MALLOC_RELOC=no)
endif()

# Gives an already added ctest test the environment and time limit that all of ours have.
function(cinch_set_test_properties name)
  cmake_parse_arguments(PARSE_ARGV 1 test "SERIAL" "TIMEOUT" "LABELS;ENVIRONMENT")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  if(NOT test_LABELS)
    set(test_LABELS unit)
  endif()
  set_tests_properties(
    ${name} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}"
                       ENVIRONMENT "${CINCH_TEST_ENVIRONMENT};${test_ENVIRONMENT}")
  if(test_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

function(cinch_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "SERIAL" "NAME;TIMEOUT;TSAN_FILTER"
                        "SOURCES;LIBRARIES;LABELS;ENVIRONMENT;ARGUMENTS")
  if(test_UNPARSED_ARGUMENTS OR NOT test_NAME OR NOT test_SOURCES)
    message(FATAL_ERROR "cinch_add_test: needs NAME and SOURCES; unknown: ${test_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${test_NAME} ${test_SOURCES})
  target_include_directories(${test_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${test_NAME} PRIVATE CINCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${test_NAME} PRIVATE ${test_LIBRARIES} cinch_warnings GTest::gmock
                                             GTest::gtest_main)
  if("threads" IN_LIST test_LABELS)
    add_dependencies(threads_tests ${test_NAME})
  endif()
  if(test_TSAN_FILTER AND "thread" IN_LIST CINCH_SANITIZE)
    list(APPEND test_ARGUMENTS "--gtest_filter=${test_TSAN_FILTER}")
  endif()
  add_test(NAME ${test_NAME} COMMAND ${test_NAME} ${test_ARGUMENTS})
  set(serial)
  if(test_SERIAL)
    set(serial SERIAL)
  endif()
  cinch_set_test_properties(${test_NAME} ${serial} TIMEOUT "${test_TIMEOUT}" LABELS
                            ${test_LABELS} ENVIRONMENT ${test_ENVIRONMENT})
endfunction()
