# SPDX-License-Identifier: Apache-2.0
# Fails unless the shared library LIBRARY exports exactly what the headers in HEADER_DIR declare.

execute_process(COMMAND "${NM}" --dynamic --defined-only --format=posix "${LIBRARY}"
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
set(exported)
foreach(line IN LISTS lines)
  string(REGEX REPLACE " .*" "" name "${line}")
  list(APPEND exported "${name}")
endforeach()

# Functions are declared as: CINCH_API <type> cinch_<name>(
set(declared)
file(GLOB headers "${HEADER_DIR}/*.h" "${HEADER_DIR}/version.h.in")
foreach(header IN LISTS headers)
  file(READ "${header}" text)
  string(REPLACE ";" " " text "${text}")
  string(REGEX MATCHALL "CINCH_API [^()#]*cinch_[a-z0-9_]+\\(" declarations "${text}")
  foreach(declaration IN LISTS declarations)
    string(REGEX REPLACE ".*[^a-z0-9_](cinch_[a-z0-9_]+)\\($" "\\1" name "${declaration}")
    list(APPEND declared "${name}")
  endforeach()
endforeach()

set(missing ${declared})
list(REMOVE_ITEM missing ${exported})
set(strangers ${exported})
list(REMOVE_ITEM strangers ${declared})
list(LENGTH declared count)
if(missing OR strangers OR count LESS 20)
  message(FATAL_ERROR "${LIBRARY}: declared but not exported: [${missing}]; "
                      "exported but not declared: [${strangers}]; declared: ${count}")
endif()
message(STATUS "${count} functions declared and exported")
