# SPDX-License-Identifier: Apache-2.0
# How fuzz targets are registered.
#
#   cinch_add_fuzz_target(NAME fuzz_<area> SOURCES <files> [LIBRARIES <targets>]
#                         [DICTIONARY <file>] [MAX_LENGTH <bytes>] [SEEDS <folder>])
#
# The kept corpus is tests/fuzz/corpus/<area>; SEEDS are further inputs, never written to. Every
# build replays both as the test fuzz_<area>_corpus, so a crash that was found once stays fixed
# under any compiler. With CINCH_BUILD_FUZZ the target is libFuzzer's, and scripts/fuzz searches
# with it. New inputs go to build/fuzz/corpus/<area>, until scripts/fuzz --keep merges them.

# Builds every fuzz target and nothing else.
add_custom_target(fuzz_targets)
# For scripts/fuzz: one line a target, its area, its libFuzzer options and its seeds.
set_property(GLOBAL PROPERTY CINCH_FUZZ_TARGETS "")

function(cinch_add_fuzz_target)
  cmake_parse_arguments(PARSE_ARGV 0 fuzz "" "NAME;DICTIONARY;MAX_LENGTH;SEEDS" "SOURCES;LIBRARIES")
  if(fuzz_UNPARSED_ARGUMENTS OR NOT fuzz_NAME MATCHES "^fuzz_" OR NOT fuzz_SOURCES)
    message(FATAL_ERROR "cinch_add_fuzz_target: needs NAME fuzz_<area> and SOURCES; "
                        "unknown: ${fuzz_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT fuzz_MAX_LENGTH)
    set(fuzz_MAX_LENGTH 4096)
  endif()
  string(REGEX REPLACE "^fuzz_" "" area ${fuzz_NAME})
  set(corpus "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${area}")
  file(MAKE_DIRECTORY "${corpus}")

  add_executable(${fuzz_NAME} ${fuzz_SOURCES})
  target_include_directories(${fuzz_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${fuzz_NAME} PRIVATE ${fuzz_LIBRARIES} cinch_warnings)
  add_dependencies(fuzz_targets ${fuzz_NAME})
  set(options -timeout=20 -rss_limit_mb=2048 -max_len=${fuzz_MAX_LENGTH})
  if(fuzz_DICTIONARY)
    list(APPEND options "-dict=${CMAKE_CURRENT_SOURCE_DIR}/${fuzz_DICTIONARY}")
  endif()
  if(CINCH_BUILD_FUZZ)
    target_link_options(${fuzz_NAME} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${fuzz_NAME}_corpus COMMAND ${fuzz_NAME} ${options} -runs=0 "${corpus}" ${fuzz_SEEDS})
  else()
    target_sources(${fuzz_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc")
    add_test(NAME ${fuzz_NAME}_corpus COMMAND ${fuzz_NAME} "${corpus}" ${fuzz_SEEDS})
  endif()
  cinch_set_test_properties(${fuzz_NAME}_corpus LABELS fuzz)
  list(JOIN options " " options)
  set_property(GLOBAL APPEND_STRING PROPERTY CINCH_FUZZ_TARGETS "${area} ${options} ${fuzz_SEEDS}\n")
endfunction()

# To be called once, after the last target.
function(cinch_list_fuzz_targets)
  get_property(targets GLOBAL PROPERTY CINCH_FUZZ_TARGETS)
  file(GENERATE OUTPUT targets.txt CONTENT "${targets}")
endfunction()
