# SPDX-License-Identifier: Apache-2.0
# How a folder of src/ becomes a layer.
#
#   cinch_add_layer(<name> SOURCES <files> [LINKS <targets>] [PRIVATE_LINKS <targets>] [TOOLS_ONLY])
#
# makes the static, position-independent library cinch_<name>, which sees src/ and include/.
# LINKS are what its headers need (the layers below it), PRIVATE_LINKS what only its sources need.
# The layer is bundled into libcinch and into cinch_static; TOOLS_ONLY keeps it out of libcinch
# (code for the command line tool, benches and tests).

set_property(GLOBAL PROPERTY CINCH_LIBRARY_LAYERS "")
set_property(GLOBAL PROPERTY CINCH_TOOL_LAYERS "")
# What libcinch.so links besides its own layers.
set_property(GLOBAL PROPERTY CINCH_LIBRARY_LINKS "")

function(cinch_add_folder folder)
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
    add_subdirectory(${folder})
  endif()
endfunction()

function(cinch_add_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "TOOLS_ONLY" "" "SOURCES;LINKS;PRIVATE_LINKS")
  if(layer_UNPARSED_ARGUMENTS OR NOT layer_SOURCES)
    message(FATAL_ERROR "cinch_add_layer(${name}): needs SOURCES; unknown: ${layer_UNPARSED_ARGUMENTS}")
  endif()
  set(target cinch_${name})
  add_library(${target} STATIC ${layer_SOURCES})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                                              "${PROJECT_BINARY_DIR}/include")
  target_link_libraries(${target} PUBLIC cinch_features ${layer_LINKS}
                                  PRIVATE cinch_warnings ${layer_PRIVATE_LINKS})
  if(layer_TOOLS_ONLY)
    set_property(GLOBAL APPEND PROPERTY CINCH_TOOL_LAYERS ${target})
  else()
    set_property(GLOBAL APPEND PROPERTY CINCH_LIBRARY_LAYERS ${target})
    set(third_party ${layer_LINKS} ${layer_PRIVATE_LINKS})
    list(FILTER third_party EXCLUDE REGEX "^cinch_")
    set_property(GLOBAL APPEND PROPERTY CINCH_LIBRARY_LINKS ${third_party})
  endif()
endfunction()
