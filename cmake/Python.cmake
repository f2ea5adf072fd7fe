# The Python packages: `ckineto`, which users import, and `ckineto_attach`, which enters Python processes.
# Both are neighbours in LIBDIR/ckineto/python, in the build tree as where they are installed: `ckineto record`
# puts that folder on PYTHONPATH. The metadata folder next to them carries the entry point that `import torch`
# calls. In a wheel, `ckineto` itself is in site-packages and only ckineto_attach is here.
#
#   CKINETO_PYTHON_BRIDGES   folder of prebuilt bridges to PyTorch (*.so); they are installed if it exists

set(CKINETO_PYTHON_BRIDGES ${PROJECT_SOURCE_DIR}/build/bridges CACHE PATH "Folder of prebuilt bridges to PyTorch")
set(python_dir ${CKINETO_PLUGIN_DIR}/python)
set(python_tree ${PROJECT_BINARY_DIR}/lib/ckineto/python)
set(python_metadata ckineto_attach-${PROJECT_VERSION}.dist-info)
set(python_packages ckineto_attach)
if(NOT CKINETO_WHEEL)
  list(APPEND python_packages ckineto)
endif()

# ckineto_python_files(out): PACKAGE/FILE of each package, without what interpreters and editors leave there.
function(ckineto_python_files out)
  set(found "")
  foreach(package ${python_packages})
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
      ${PROJECT_SOURCE_DIR}/python/${package}/*)
    list(APPEND found ${files})
  endforeach()
  list(FILTER found EXCLUDE REGEX "/__pycache__/|\\.py[co]$|~$|/\\.")
  list(SORT found)
  set(${out} ${found} PARENT_SCOPE)
endfunction()

ckineto_python_files(python_files)
set(python_sources ${python_files})
list(TRANSFORM python_sources PREPEND ${PROJECT_SOURCE_DIR}/python/)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/METADATA @ONLY CONTENT
"Metadata-Version: 2.1
Name: ckineto_attach
Version: @PROJECT_VERSION@
Summary: Attaches ckineto to Python processes
")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/entry_points.txt @ONLY CONTENT
"[torch.backends]
ckineto = ckineto_attach.autoload:attach
")
# The list is a file, which changes when a source is added or removed: then the copy is made again.
list(JOIN python_files "\n" python_lines)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/files CONTENT "${python_lines}\n" @ONLY)

add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/copied
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/python -DFILES=${PROJECT_BINARY_DIR}/python/files
    -DMETADATA=${PROJECT_BINARY_DIR}/python -DMETADATA_NAME=${python_metadata} -DOUT=${python_tree}
    -P ${PROJECT_SOURCE_DIR}/cmake/CopyPython.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/python/copied
  DEPENDS ${python_sources} ${PROJECT_BINARY_DIR}/python/files ${PROJECT_BINARY_DIR}/python/METADATA
    ${PROJECT_BINARY_DIR}/python/entry_points.txt ${PROJECT_SOURCE_DIR}/cmake/CopyPython.cmake VERBATIM)
add_custom_target(ckineto-python ALL DEPENDS ${PROJECT_BINARY_DIR}/python/copied)

# The copies, not the sources: an interpreter may have left its cache between those.
if(CKINETO_INSTALL_RULES)
  install(DIRECTORY ${python_tree}/ DESTINATION ${python_dir} COMPONENT command
    PATTERN __pycache__ EXCLUDE)
  install(DIRECTORY ${CKINETO_PYTHON_BRIDGES}/ DESTINATION ${python_dir}/ckineto_attach/bridges COMPONENT command
    OPTIONAL FILES_MATCHING PATTERN "*.so")
endif()
