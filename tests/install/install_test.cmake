# SPDX-License-Identifier: Apache-2.0
# Run by ctest; see CMakeLists.txt beside it for the variables.

set(prefix "${WORK_DIR}/prefix")
file(REMOVE_RECURSE "${WORK_DIR}")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")

# find_package(cinch) from a project that knows nothing of this source tree.
run("${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${WORK_DIR}/build" -D "CMAKE_PREFIX_PATH=${prefix}"
    -D "CMAKE_C_COMPILER=${C_COMPILER}" -D "CMAKE_CXX_COMPILER=${CXX_COMPILER}")
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/consumer_c")
run("${WORK_DIR}/build/consumer_cxx")

# pkg-config, whose file must follow a prefix chosen at install time.
find_program(pkg_config pkg-config REQUIRED)
execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${prefix}/${LIBRARY_DIR}/pkgconfig"
          "${pkg_config}" --cflags --libs cinch
  OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
run("${C_COMPILER}" -std=c11 "${CONSUMER_DIR}/main.c" -o "${WORK_DIR}/consumer_pkg_config" ${flags}
    "-Wl,-rpath,${prefix}/${LIBRARY_DIR}")
run("${WORK_DIR}/consumer_pkg_config")

# Every public header stands alone in strict C11 and in C++20.
file(GLOB headers RELATIVE "${prefix}/include" "${prefix}/include/cinch/*.h")
file(GLOB wrappers RELATIVE "${prefix}/include" "${prefix}/include/cinch/*.hpp")
if(NOT headers)
  message(FATAL_ERROR "no header was installed")
endif()
foreach(header IN LISTS headers)
  file(WRITE "${WORK_DIR}/header.c" "#include \"${header}\"\nint cinch_header_check;\n")
  run("${C_COMPILER}" -std=c11 -pedantic -Wall -Wextra -Wstrict-prototypes -Werror
      "-I${prefix}/include" -fsyntax-only "${WORK_DIR}/header.c")
endforeach()
foreach(header IN LISTS headers wrappers)
  file(WRITE "${WORK_DIR}/header.cc" "#include \"${header}\"\n#include \"${header}\"\n")
  run("${CXX_COMPILER}" -std=c++20 -pedantic -Wall -Wextra -Wconversion -Werror
      "-I${prefix}/include" -fsyntax-only "${WORK_DIR}/header.cc")
endforeach()
