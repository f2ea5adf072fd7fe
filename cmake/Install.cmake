# Installed: public headers, both libraries in both forms, the command, plug-ins, man pages,
# pkg-config files and a CMake package.

install(DIRECTORY include/ckineto DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h*")
install(TARGETS ckineto-rt_shared ckineto-rt_static ckineto_shared ckineto_static EXPORT ckineto
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ckineto NAMESPACE ckineto:: FILE ckinetoTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ckineto)
string(REPLACE "," "" CKINETO_PC_MODULES "${CKINETO_PC_REQUIRES}")
configure_package_config_file(cmake/ckinetoConfig.cmake.in ckinetoConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ckineto)
write_basic_package_version_file(ckinetoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ckinetoConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/ckinetoConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ckineto)
foreach(pc ckineto ckineto-rt)
  configure_file(cmake/${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
file(GLOB man_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
