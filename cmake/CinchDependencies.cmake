# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from the distribution; docs/decisions/0001-libraries.md says why each.
# A layer links the imported targets named here and includes no third-party path of its own.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(hwy REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# cinch_features carries what this build can do, as 0 or 1, to every target of ours.
add_library(cinch_features INTERFACE)

set(CINCH_HAVE_UCX 0)
if(NOT CINCH_WITH_UCX STREQUAL "OFF")
  pkg_check_modules(ucx IMPORTED_TARGET ucx>=1.13)
  if(ucx_FOUND)
    set(CINCH_HAVE_UCX 1)
  elseif(CINCH_WITH_UCX STREQUAL "ON")
    message(FATAL_ERROR "UCX 1.13 or later was not found; install libucx-dev or set CINCH_WITH_UCX=OFF")
  else()
    message(STATUS "UCX was not found: building without transfers")
  endif()
endif()

set(CINCH_HAVE_CUDA 0)
if(CINCH_WITH_CUDA)
  set(CINCH_HAVE_CUDA 1)
endif()

target_compile_definitions(cinch_features INTERFACE CINCH_HAVE_UCX=${CINCH_HAVE_UCX}
                                                    CINCH_HAVE_CUDA=${CINCH_HAVE_CUDA})

if(CINCH_BUILD_CLI OR CINCH_BUILD_BENCH)
  find_package(CLI11 REQUIRED)
endif()
if(CINCH_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
if(CINCH_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
