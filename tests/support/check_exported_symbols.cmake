# SPDX-License-Identifier: Apache-2.0
# Fails unless the shared library LIBRARY exports functions of the C ABI and nothing else.
execute_process(COMMAND "${NM}" --dynamic --defined-only --format=posix "${LIBRARY}"
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${symbols}")
set(strangers)
set(count 0)
foreach(line IN LISTS lines)
  string(REGEX REPLACE " .*" "" name "${line}")
  if(name MATCHES "^cinch_[a-z0-9_]+$")
    math(EXPR count "${count} + 1")
  else()
    list(APPEND strangers "${name}")
  endif()
endforeach()
if(strangers OR NOT count)
  message(FATAL_ERROR "${LIBRARY} exports ${count} functions of the C ABI and: ${strangers}")
endif()
message(STATUS "${count} exported functions, all of the C ABI")
