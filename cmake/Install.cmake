# Installed: public headers, both libraries in both forms, the command, man pages, the documents,
# pkg-config files and a CMake package. Everything finds its neighbours by relative paths: the tree may be moved.
# Plug-ins install themselves, see plugins/.

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ckineto)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# A wheel has no symbolic links, no archives and no pages, see docs/how-to/install.md.
set(installed_libraries ckineto-rt_shared ckineto_shared)
set(namelink NAMELINK_COMPONENT development)
set(man_dir ${CMAKE_INSTALL_MANDIR})
if(CKINETO_WHEEL)
  set(namelink NAMELINK_SKIP)
  if(CKINETO_WHEEL_LICENSES) # of the libraries that are linked statically
    install(DIRECTORY ${CKINETO_WHEEL_LICENSES}/ DESTINATION licenses COMPONENT command)
  endif()
  if(DEFINED SKBUILD_DATA_DIR)
    set(man_dir ${SKBUILD_DATA_DIR}/share/man)
  endif()
else()
  list(APPEND installed_libraries ckineto-rt_static ckineto_static)
endif()

install(DIRECTORY include/ckineto DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS ckineto-command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
if(NOT CKINETO_WHEEL)
  install(PROGRAMS integrations/slurm/ckineto-slurm DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(FILES integrations/kubernetes/ckineto-ranks.yaml integrations/kubernetes/ckineto-reduce.yaml
    integrations/dask/ckineto_dask.py integrations/ray/ckineto_ray.py
    DESTINATION ${CMAKE_INSTALL_DATADIR}/ckineto/cluster COMPONENT command)
endif()
install(TARGETS ${installed_libraries} EXPORT ckineto
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime ${namelink}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
file(GLOB man_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
install(FILES ${man_pages} DESTINATION ${man_dir}/man1 COMPONENT command)

# The command writes what shells complete; it must run where it is built.
if(NOT CMAKE_CROSSCOMPILING AND NOT CKINETO_STATIC_COMMAND AND NOT CKINETO_WHEEL)
  set(functions ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(functions ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions) # the system's
  endif()
  set(completion ${PROJECT_BINARY_DIR}/completion)
  file(MAKE_DIRECTORY ${completion})
  foreach(shell bash zsh fish)
    add_custom_command(OUTPUT ${completion}/ckineto.${shell}
      COMMAND ckineto-command completion ${shell} > ${completion}/ckineto.${shell}
      DEPENDS ckineto-command VERBATIM)
  endforeach()
  add_custom_target(ckineto-completion ALL
    DEPENDS ${completion}/ckineto.bash ${completion}/ckineto.zsh ${completion}/ckineto.fish)
  install(FILES ${completion}/ckineto.bash RENAME ckineto COMPONENT command
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completion}/ckineto.zsh RENAME _ckineto COMPONENT command DESTINATION ${functions})
  install(FILES ${completion}/ckineto.fish COMPONENT command
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# The pages, and the programs that they show.
if(NOT CKINETO_WHEEL)
  file(GLOB_RECURSE pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/* ${PROJECT_SOURCE_DIR}/examples/*)
  set(installed_docs ${PROJECT_BINARY_DIR}/doc)
  add_custom_command(OUTPUT ${installed_docs}.stamp
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${installed_docs}
      -P ${PROJECT_SOURCE_DIR}/cmake/InstalledDocs.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${installed_docs}.stamp
    DEPENDS ${pages} README.md CHANGELOG.md SECURITY.md LICENSE cmake/InstalledDocs.cmake VERBATIM)
  add_custom_target(ckineto-docs ALL DEPENDS ${installed_docs}.stamp)
  install(DIRECTORY ${installed_docs}/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
endif()

install(EXPORT ckineto NAMESPACE ckineto:: FILE ckinetoTargets.cmake DESTINATION ${package_dir}
  COMPONENT development)
configure_package_config_file(cmake/ckinetoConfig.cmake.in ckinetoConfig.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CKINETO_PLUGIN_DIR)
write_basic_package_version_file(ckinetoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ckinetoConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/ckinetoConfigVersion.cmake DESTINATION ${package_dir} COMPONENT development)

# The directories as seen from the prefix: a distribution may give them as absolute paths.
foreach(which LIBDIR INCLUDEDIR)
  string(TOLOWER pc_${which} dir)
  set(${dir} ${CMAKE_INSTALL_${which}})
  if(IS_ABSOLUTE "${${dir}}")
    file(RELATIVE_PATH ${dir} ${CMAKE_INSTALL_PREFIX} ${${dir}})
  endif()
endforeach()
# How to come from the .pc file to the prefix; the library directory may have two levels, or lie elsewhere.
cmake_path(ABSOLUTE_PATH pc_libdir BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} NORMALIZE OUTPUT_VARIABLE pc_at)
file(RELATIVE_PATH pc_to_prefix ${pc_at}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
set(pc_link_main -lckineto)
set(pc_link_rt -lckineto-rt)
if(CKINETO_WHEEL)
  set(pc_link_main -l:libckineto.so.${PROJECT_VERSION_MAJOR})
  set(pc_link_rt -l:libckineto-rt.so.${PROJECT_VERSION_MAJOR})
  set(CKINETO_PC_MODULES "") # only who links the archive needs them
  set(CKINETO_PC_LIBS "")
endif()
foreach(pc ckineto ckineto-rt)
  configure_file(cmake/${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${pc}.pc DESTINATION ${pkgconfig_dir} COMPONENT development)
endforeach()
