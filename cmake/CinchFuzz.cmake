# SPDX-License-Identifier: Apache-2.0
# How fuzz targets are registered.
#
#   cinch_add_fuzz_target(NAME fuzz_<area> SOURCES <files> [LIBRARIES <targets>]
#                         [DICTIONARY <file>] [MAX_LENGTH <bytes>])
#
# The kept corpus is tests/fuzz/corpus/<area>. Every build replays it as the test
# fuzz_<area>_corpus, so a crash that was found once stays fixed under any compiler. With
# CINCH_BUILD_FUZZ the target is libFuzzer's, and the test fuzz_<area>_short also searches for
# CINCH_FUZZ_SECONDS. New inputs go to <build>/fuzz/<area>, never into the source tree; to keep
# searching: tests/fuzz/fuzz_<area> <build>/fuzz/<area> tests/fuzz/corpus/<area>

set(CINCH_FUZZ_SECONDS 10 CACHE STRING "How long each fuzz target searches as a test, in seconds")

function(cinch_add_fuzz_target)
  cmake_parse_arguments(PARSE_ARGV 0 fuzz "" "NAME;DICTIONARY;MAX_LENGTH" "SOURCES;LIBRARIES")
  if(fuzz_UNPARSED_ARGUMENTS OR NOT fuzz_NAME MATCHES "^fuzz_" OR NOT fuzz_SOURCES)
    message(FATAL_ERROR "cinch_add_fuzz_target: needs NAME fuzz_<area> and SOURCES; "
                        "unknown: ${fuzz_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT fuzz_MAX_LENGTH)
    set(fuzz_MAX_LENGTH 4096)
  endif()
  string(REGEX REPLACE "^fuzz_" "" area ${fuzz_NAME})
  set(corpus "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${area}")
  set(found "${PROJECT_BINARY_DIR}/fuzz/${area}")
  file(MAKE_DIRECTORY "${found}")

  add_executable(${fuzz_NAME} ${fuzz_SOURCES})
  target_include_directories(${fuzz_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${fuzz_NAME} PRIVATE ${fuzz_LIBRARIES} cinch_warnings)
  if(CINCH_BUILD_FUZZ)
    target_link_options(${fuzz_NAME} PRIVATE -fsanitize=fuzzer)
    set(limits -timeout=20 -rss_limit_mb=2048 -max_len=${fuzz_MAX_LENGTH} "-artifact_prefix=${found}/")
    if(fuzz_DICTIONARY)
      list(APPEND limits "-dict=${CMAKE_CURRENT_SOURCE_DIR}/${fuzz_DICTIONARY}")
    endif()
    add_test(NAME ${fuzz_NAME}_corpus COMMAND ${fuzz_NAME} ${limits} -runs=0 "${corpus}")
    add_test(NAME ${fuzz_NAME}_short COMMAND ${fuzz_NAME} ${limits} -max_total_time=${CINCH_FUZZ_SECONDS}
                                             "${found}" "${corpus}")
    math(EXPR timeout "${CINCH_FUZZ_SECONDS} + 120")
    cinch_set_test_properties(${fuzz_NAME}_short TIMEOUT ${timeout} LABELS fuzz)
  else()
    target_sources(${fuzz_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc")
    add_test(NAME ${fuzz_NAME}_corpus COMMAND ${fuzz_NAME} "${corpus}")
  endif()
  cinch_set_test_properties(${fuzz_NAME}_corpus LABELS unit)
endfunction()
