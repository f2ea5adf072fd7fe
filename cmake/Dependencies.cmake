# Libraries from the system. Only libckineto and the command use the compressors; rt needs libc.

find_package(PkgConfig REQUIRED)

# ckineto_find(NAME modules...): a library as PkgConfig::CKINETO_NAME, in the form that is linked.
# Linked statically it needs an archive, by the first module's name; without one it is not there.
macro(ckineto_find name)
  pkg_check_modules(CKINETO_${name} ${ARGN})
  if(CKINETO_STATIC_COMMAND AND CKINETO_${name}_FOUND)
    list(GET CKINETO_${name}_LIBRARIES 0 ckineto_archive)
    find_library(CKINETO_${name}_ARCHIVE lib${ckineto_archive}.a)
    if(CKINETO_${name}_ARCHIVE)
      set_property(TARGET PkgConfig::CKINETO_${name} PROPERTY INTERFACE_LINK_LIBRARIES
        "${CKINETO_${name}_ARCHIVE};m")
    else()
      set(CKINETO_${name}_FOUND FALSE)
    endif()
  endif()
endmacro()

ckineto_find(ZLIB REQUIRED IMPORTED_TARGET zlib)
ckineto_find(ISAL IMPORTED_TARGET libisal)
ckineto_find(ZSTD IMPORTED_TARGET libzstd)

add_library(ckineto-compression INTERFACE)
target_link_libraries(ckineto-compression INTERFACE PkgConfig::CKINETO_ZLIB)
set(CKINETO_GZIP_BY zlib)
set(CKINETO_ZSTD_NOTE "off (libzstd not found: install libzstd-dev)")
set(CKINETO_PC_MODULES zlib)
if(CKINETO_ISAL_FOUND)
  target_link_libraries(ckineto-compression INTERFACE PkgConfig::CKINETO_ISAL)
  target_compile_definitions(ckineto-compression INTERFACE KB_WITH_ISAL)
  set(CKINETO_GZIP_BY ISA-L)
  string(APPEND CKINETO_PC_MODULES " libisal")
endif()
if(CKINETO_ZSTD_FOUND)
  target_link_libraries(ckineto-compression INTERFACE PkgConfig::CKINETO_ZSTD)
  target_compile_definitions(ckineto-compression INTERFACE KB_WITH_ZSTD)
  set(CKINETO_ZSTD_NOTE on)
  string(APPEND CKINETO_PC_MODULES " libzstd")
endif()

# Queries and the database writer; 3.38 is the first that tells where in a statement an error is.
ckineto_find(SQLITE IMPORTED_TARGET sqlite3>=3.38)
add_library(ckineto-database INTERFACE)
set(CKINETO_SQLITE_NOTE "off (sqlite3 3.38 or newer not found: install libsqlite3-dev)")
if(CKINETO_SQLITE_FOUND)
  target_link_libraries(ckineto-database INTERFACE PkgConfig::CKINETO_SQLITE)
  set(CKINETO_SQLITE_NOTE on)
  string(APPEND CKINETO_PC_MODULES " sqlite3")
endif()

# Lines of source code and inlined functions in native call stacks.
if(NOT CKINETO_STATIC_COMMAND) # which records nothing
  pkg_check_modules(CKINETO_DW IMPORTED_TARGET libdw libelf)
endif()
add_library(ckineto-symbols INTERFACE)
set(CKINETO_PC_LIBS -lm)
set(CKINETO_DW_NOTE "off (libdw not found: install libdw-dev)")
if(CKINETO_STATIC_COMMAND)
  set(CKINETO_DW_NOTE "off (only recordings have them)")
endif()
if(CKINETO_DW_FOUND)
  target_link_libraries(ckineto-symbols INTERFACE PkgConfig::CKINETO_DW)
  target_compile_definitions(ckineto-symbols INTERFACE KT_WITH_DW)
  set(CKINETO_DW_NOTE on)
  # Not a required module: asked for static linking, it names compressors that need not be there.
  set(CKINETO_PC_LIBS "-ldw -lelf -lm")
  set(CKINETO_CMAKE_MODULES libdw libelf)
endif()

# The OpenCL source needs headers only: the layer is loaded by the OpenCL loader of the program.
set(CKINETO_OPENCL_NOTE off)
if(NOT CKINETO_OPENCL STREQUAL "OFF")
  find_path(CKINETO_OPENCL_HEADERS CL/cl_layer.h)
  if(CKINETO_OPENCL_HEADERS)
    set(CKINETO_OPENCL_NOTE on)
  elseif(CKINETO_OPENCL STREQUAL "ON")
    message(FATAL_ERROR "CKINETO_OPENCL=ON but CL/cl_layer.h was not found: install opencl-headers")
  else()
    set(CKINETO_OPENCL_NOTE "off (CL/cl_layer.h not found: install opencl-headers)")
  endif()
endif()

# Matrix products of examples/transformer.
set(CKINETO_OPENBLAS_NOTE "off (openblas not found: install libopenblas-dev)")
if(CKINETO_EXAMPLES)
  pkg_check_modules(CKINETO_OPENBLAS IMPORTED_TARGET openblas)
  if(CKINETO_OPENBLAS_FOUND)
    set(CKINETO_OPENBLAS_NOTE on)
  endif()
endif()
