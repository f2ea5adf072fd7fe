# What enters Python programs: recorders of Python functions, for any Python 3.9 and newer, if the headers of
# one are here (Debian: python3-dev); and the bridge to the PyTorch of the distribution, if its headers are
# (Debian: libtorch-dev). Bridges to PyPI's versions are made by tools/build-bridges.
#
#   CKINETO_TORCH   AUTO, ON or OFF

set(CKINETO_TORCH AUTO CACHE STRING "Bridge to the distribution's PyTorch: AUTO, ON or OFF")
if(CMAKE_CROSSCOMPILING OR CKINETO_WHEEL)
  return()
endif()
set(python_build ${PROJECT_SOURCE_DIR}/python/ckineto_attach)
find_program(CKINETO_TORCH_PYTHON python3 HINTS /usr/bin)

# --- Python functions -----------------------------------------------------------------------------
if(CKINETO_TORCH_PYTHON)
  execute_process(COMMAND ${CKINETO_TORCH_PYTHON} -c "import os, sysconfig; p = sysconfig.get_path('include'); print(p if os.path.exists(p + '/Python.h') else '')"
    OUTPUT_VARIABLE python_headers OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(python_headers)
  set(stacks_folder ${PROJECT_BINARY_DIR}/lib/ckineto/python/ckineto_attach/native)
  file(GLOB stacks_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bridges/python/*)
  set(stacks_libraries ${stacks_folder}/stacks-profile.so ${stacks_folder}/stacks-monitoring.abi3.so)
  add_custom_command(OUTPUT ${stacks_libraries}
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/python PYTHONDONTWRITEBYTECODE=1
      ${CKINETO_TORCH_PYTHON} -m ckineto_attach.build_stacks -o ${stacks_folder}
    DEPENDS ${stacks_sources} ${python_build}/build_stacks.py ${python_build}/compiling.py ckineto-python
    COMMENT "Building the recorders of Python functions" VERBATIM)
  add_custom_target(ckineto-python-stacks ALL DEPENDS ${stacks_libraries})
  if(CKINETO_INSTALL_RULES)
    install(FILES ${stacks_libraries} DESTINATION ${CKINETO_PLUGIN_DIR}/python/ckineto_attach/native
      COMPONENT command)
  endif()
endif()

# --- PyTorch --------------------------------------------------------------------------------------
set(torch_version_file torch/csrc/api/include/torch/version.h)
find_path(CKINETO_TORCH_INCLUDE ${torch_version_file} PATHS /usr/include NO_DEFAULT_PATH)
if(CKINETO_TORCH STREQUAL "OFF")
  return()
endif()
find_program(CKINETO_CXX NAMES g++)
if(NOT CKINETO_TORCH_INCLUDE OR NOT CKINETO_CXX OR NOT CKINETO_TORCH_PYTHON)
  if(CKINETO_TORCH STREQUAL "ON")
    message(FATAL_ERROR "CKINETO_TORCH is ON, but PyTorch's headers, g++ or python3 are not here (Debian: libtorch-dev)")
  endif()
  return()
endif()

file(STRINGS ${CKINETO_TORCH_INCLUDE}/${torch_version_file} torch_lines REGEX "define TORCH_VERSION_M(AJOR|INOR) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" torch_minor "${torch_lines}")
set(torch_flags --no-kineto)
set(torch_name torch-${torch_minor}-cxx11-nokineto.so)
if(EXISTS ${CKINETO_TORCH_INCLUDE}/kineto/libkineto.h)
  set(torch_flags "")
  set(torch_name torch-${torch_minor}-cxx11.so)
endif()
file(GLOB torch_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bridges/torch/*)
set(torch_bridge ${PROJECT_BINARY_DIR}/lib/ckineto/python/ckineto_attach/bridges/${torch_name})
set(torch_sanitize "")
if(CKINETO_SANITIZE)
  set(torch_sanitize --flag=-fsanitize=${CKINETO_SANITIZE} --flag=-g1)
endif()
add_custom_command(OUTPUT ${torch_bridge}
  COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/python PYTHONDONTWRITEBYTECODE=1
    ${CKINETO_TORCH_PYTHON} -m ckineto_attach.build --include ${CKINETO_TORCH_INCLUDE} --minor ${torch_minor}
    --headers ${PROJECT_SOURCE_DIR}/include ${torch_flags} ${torch_sanitize} -o ${torch_bridge}
  DEPENDS ${torch_sources} ${python_build}/build.py ${python_build}/compiling.py ckineto-python
  COMMENT "Building the bridge to PyTorch ${torch_minor}" VERBATIM)
add_custom_target(ckineto-torch-bridge ALL DEPENDS ${torch_bridge})
if(CKINETO_INSTALL_RULES)
  install(FILES ${torch_bridge} DESTINATION ${CKINETO_PLUGIN_DIR}/python/ckineto_attach/bridges COMPONENT command)
endif()
