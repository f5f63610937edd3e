# SPDX-License-Identifier: Apache-2.0
# Install rules: headers, libcinch.so, find_package(cinch) and pkg-config files, the tool.

include(CMakePackageConfigHelpers)

set(cinch_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/cinch")

install(TARGETS cinch EXPORT cinch-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cinch" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh" PATTERN "*.hpp")
install(FILES "${PROJECT_BINARY_DIR}/include/cinch/version.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cinch")
install(EXPORT cinch-targets NAMESPACE cinch:: DESTINATION "${cinch_package_dir}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/cinch-config.cmake.in" "${PROJECT_BINARY_DIR}/cinch-config.cmake"
  INSTALL_DESTINATION "${cinch_package_dir}")
# Before 1.0 a minor version may break the ABI.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cinch-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cinch-config.cmake"
              "${PROJECT_BINARY_DIR}/cinch-config-version.cmake" DESTINATION "${cinch_package_dir}")

# Relative, so that `cmake --install --prefix` needs no new configuration.
file(RELATIVE_PATH cinch_prefix_from_pkgconfig "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${PROJECT_SOURCE_DIR}/cmake/cinch.pc.in" "${PROJECT_BINARY_DIR}/cinch.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cinch.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET cinch_cli)
  install(TARGETS cinch_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
