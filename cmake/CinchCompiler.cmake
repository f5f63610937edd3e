# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers and compiler cache for every target of this build.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Only what is marked CINCH_API leaves the shared library.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(CINCH_CCACHE ccache)
mark_as_advanced(CINCH_CCACHE)
if(CINCH_CCACHE)
  foreach(language IN ITEMS C CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${CINCH_CCACHE}")
    endif()
  endforeach()
endif()

if(CINCH_WITH_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 100-virtual)
  endif()
  if(NOT CMAKE_CUDA_RUNTIME_LIBRARY)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  endif()
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake before 3.26 does not know that nvcc has C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()

# Linked by every target of ours, never by what users build against us.
add_library(cinch_warnings INTERFACE)
set(CINCH_WARNING_FLAGS -Wall -Wextra -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # g++ leaves this out of -Wconversion for C++; both compilers judge by the same rules.
  list(APPEND CINCH_WARNING_FLAGS -Wno-sign-conversion)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms inside its own headers: "text" + std::string (gcc bug 105651), and
  # vector::insert at -O3 (gcc bug 107852).
  list(APPEND CINCH_WARNING_FLAGS -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CINCH_WARNINGS_AS_ERRORS)
  list(APPEND CINCH_WARNING_FLAGS -Werror)
endif()
target_compile_options(
  cinch_warnings INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${CINCH_WARNING_FLAGS}>"
                           "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")

if(CINCH_SANITIZE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False alarms in instrumented code, e.g. all over <regex>; the plain build keeps the warning.
    target_compile_options(cinch_warnings INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-maybe-uninitialized>")
  endif()
  list(JOIN CINCH_SANITIZE "," sanitizers)
  # -O1 -g1: instrumented SIMD code takes minutes to compile at -O2, for no other findings.
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${sanitizers};-fno-omit-frame-pointer;-O1;-g1>"
                      "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>")
  add_link_options(-fsanitize=${sanitizers})
  if("thread" IN_LIST CINCH_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ warns that it cannot model fences; our fences stand beside atomics that it does model.
    add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-tsan>")
  endif()
endif()
if(CINCH_BUILD_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "CINCH_BUILD_FUZZ needs clang; configure with --preset fuzz")
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>")
endif()
