# SPDX-License-Identifier: Apache-2.0
# The two library targets: cinch (libcinch.so, what users link) and cinch_static (every layer with
# its internal symbols, for the tests and for the self-contained command line tool).

configure_file("${PROJECT_SOURCE_DIR}/include/cinch/version.h.in"
               "${PROJECT_BINARY_DIR}/include/cinch/version.h" @ONLY)

get_property(library_layers GLOBAL PROPERTY CINCH_LIBRARY_LAYERS)
get_property(tool_layers GLOBAL PROPERTY CINCH_TOOL_LAYERS)

add_library(cinch_static INTERFACE)
target_link_libraries(cinch_static INTERFACE ${library_layers} ${tool_layers})

# libcinch.so takes the layers' object files rather than their archives: nothing in the library
# itself calls the C ABI, so an archive search would drop it.
set(layer_objects)
foreach(layer IN LISTS library_layers)
  list(APPEND layer_objects "$<TARGET_OBJECTS:${layer}>")
endforeach()
get_property(library_links GLOBAL PROPERTY CINCH_LIBRARY_LINKS)
list(REMOVE_DUPLICATES library_links)

add_library(cinch SHARED ${layer_objects})
add_library(cinch::cinch ALIAS cinch)
set_target_properties(
  cinch
  PROPERTIES VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}
             LINKER_LANGUAGE CXX
             LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/libcinch.map")
target_include_directories(
  cinch INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                  "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
                  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_link_libraries(cinch PRIVATE ${library_links})
target_link_options(cinch PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/libcinch.map")
if(NOT CINCH_SANITIZE)
  target_link_options(cinch PRIVATE "LINKER:-z,defs")
endif()
