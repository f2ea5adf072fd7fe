# The Python packages: `ckineto`, which users import, and `ckineto_attach`, which enters Python processes.
# Both are neighbours in LIBDIR/ckineto/python, in the build tree as where they are installed: `ckineto record`
# puts that folder on PYTHONPATH. The metadata folder next to them carries the entry point that `import torch`
# calls. In a wheel, `ckineto` itself is in site-packages and the rest is here.
#
#   CKINETO_PYTHON_BRIDGES   folder of prebuilt bridges to PyTorch (tools/build-bridges)
#   CKINETO_PYTHON_STACKS    folder of prebuilt recorders of Python functions (python3 -m ckineto_attach.build_stacks)
# They are installed if these exist; what is not there is built where it is used.

set(CKINETO_PYTHON_BRIDGES ${PROJECT_SOURCE_DIR}/build/bridges CACHE PATH "Folder of prebuilt bridges to PyTorch")
set(CKINETO_PYTHON_STACKS ${PROJECT_SOURCE_DIR}/build/stacks CACHE PATH
  "Folder of prebuilt recorders of Python functions")
set(python_dir ${CKINETO_PLUGIN_DIR}/python)
set(python_tree ${PROJECT_BINARY_DIR}/lib/ckineto/python)
set(python_work ${PROJECT_BINARY_DIR}/python)
set(python_metadata ckineto_attach-${PROJECT_VERSION}.dist-info)
set(python_metadata_file METADATA)
if(CKINETO_WHEEL) # scikit-build-core lets no second .dist-info into a wheel; Python reads both
  set(python_metadata ckineto_attach-${PROJECT_VERSION}.egg-info)
  set(python_metadata_file PKG-INFO)
endif()

# ckineto_python_files(out folder target): lines FILE=TARGET/PATH of the files below a folder of the sources,
# without what interpreters and editors leave there.
function(ckineto_python_files out folder target)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_SOURCE_DIR}/${folder}/*)
  list(FILTER found EXCLUDE REGEX "(^|/)(__pycache__/|\\.)|\\.py[co]$|~$|^README\\.md$")
  if(CKINETO_WHEEL)
    list(FILTER found EXCLUDE REGEX "^ckineto/")
  endif()
  list(SORT found)
  list(TRANSFORM found REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/${folder}/\\1=${target}\\1")
  set(${out} ${found} PARENT_SCOPE)
endfunction()

ckineto_python_files(python_files python "")
# For versions of PyTorch, and processors, that none was made for.
ckineto_python_files(python_bridge bridges/torch ckineto_attach/bridge_source/)
ckineto_python_files(python_stacks bridges/python ckineto_attach/stacks_source/)
file(CONFIGURE OUTPUT ${python_work}/${python_metadata_file} @ONLY CONTENT
"Metadata-Version: 2.1
Name: ckineto_attach
Version: @PROJECT_VERSION@
Summary: Attaches ckineto to Python processes
")
file(CONFIGURE OUTPUT ${python_work}/entry_points.txt @ONLY CONTENT
"[torch.backends]
ckineto = ckineto_attach.autoload:attach
")
set(python_lines ${python_files} ${python_bridge} ${python_stacks})
foreach(file ${python_metadata_file} entry_points.txt)
  list(APPEND python_lines ${python_work}/${file}=${python_metadata}/${file})
endforeach()
list(TRANSFORM python_lines REPLACE "=.*" "" OUTPUT_VARIABLE python_sources)
# The list is a file, which changes when a source is added or removed: then the copy is made again.
list(JOIN python_lines "\n" python_lines)
file(CONFIGURE OUTPUT ${python_work}/files CONTENT "${python_lines}\n" @ONLY)

add_custom_command(OUTPUT ${python_work}/copied
  COMMAND ${CMAKE_COMMAND} -DFILES=${python_work}/files -DOUT=${python_tree}
    -P ${PROJECT_SOURCE_DIR}/cmake/CopyPython.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${python_work}/copied
  DEPENDS ${python_sources} ${python_work}/files ${PROJECT_SOURCE_DIR}/cmake/CopyPython.cmake VERBATIM)
add_custom_target(ckineto-python ALL DEPENDS ${python_work}/copied)

# The copies, not the sources: an interpreter may have left its cache between those.
if(CKINETO_INSTALL_RULES)
  install(DIRECTORY ${python_tree}/ DESTINATION ${python_dir} COMPONENT command
    PATTERN __pycache__ EXCLUDE PATTERN bridges EXCLUDE PATTERN native EXCLUDE)
  install(DIRECTORY ${CKINETO_PYTHON_BRIDGES}/ DESTINATION ${python_dir}/ckineto_attach/bridges COMPONENT command
    OPTIONAL FILES_MATCHING PATTERN "*.so")
  install(DIRECTORY ${CKINETO_PYTHON_STACKS}/ DESTINATION ${python_dir}/ckineto_attach/native COMPONENT command
    OPTIONAL FILES_MATCHING PATTERN "*.so")
endif()
