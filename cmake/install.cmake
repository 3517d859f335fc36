# What `cmake --install` lays down: headers, both libraries, find_package(octet), pkg-config, licences.
include(CMakePackageConfigHelpers)
install(TARGETS octet_shared octet_static EXPORT octet_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/octet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(_config ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
install(EXPORT octet_targets FILE octet-targets.cmake NAMESPACE octet:: DESTINATION ${_config})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/octet-config.cmake.in
  ${PROJECT_BINARY_DIR}/octet-config.cmake INSTALL_DESTINATION ${_config})
# Before 1.0 each minor version is an interface of its own.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/octet-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/octet-config.cmake ${PROJECT_BINARY_DIR}/octet-config-version.cmake
  DESTINATION ${_config})

if(OCTET_CUDA)  # what a program links that takes the static library
  set(OCTET_PC_CUDA " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/octet.pc.in ${PROJECT_BINARY_DIR}/octet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/octet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
