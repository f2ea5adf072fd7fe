# The bridge to the PyTorch of the distribution, if its headers are here (Debian: libtorch-dev). Bridges to
# PyPI's versions are made by tools/build-bridges.
#
#   CKINETO_TORCH   AUTO, ON or OFF

set(CKINETO_TORCH AUTO CACHE STRING "Bridge to the distribution's PyTorch: AUTO, ON or OFF")
set(torch_version_file torch/csrc/api/include/torch/version.h)
find_path(CKINETO_TORCH_INCLUDE ${torch_version_file} PATHS /usr/include NO_DEFAULT_PATH)
if(CKINETO_TORCH STREQUAL "OFF" OR CMAKE_CROSSCOMPILING OR CKINETO_WHEEL)
  return()
endif()
find_program(CKINETO_CXX NAMES g++)
find_program(CKINETO_TORCH_PYTHON python3 HINTS /usr/bin)
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
  DEPENDS ${torch_sources} ${PROJECT_SOURCE_DIR}/python/ckineto_attach/build.py ckineto-python
  COMMENT "Building the bridge to PyTorch ${torch_minor}" VERBATIM)
add_custom_target(ckineto-torch-bridge ALL DEPENDS ${torch_bridge})
if(CKINETO_INSTALL_RULES)
  install(FILES ${torch_bridge} DESTINATION ${CKINETO_PLUGIN_DIR}/python/ckineto_attach/bridges COMPONENT command)
endif()
