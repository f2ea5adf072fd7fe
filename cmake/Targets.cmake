# How every target of the project is compiled, and what a library is here.

include(${CMAKE_CURRENT_LIST_DIR}/Harden.cmake)

set(ckineto_warnings -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wpointer-arith -Wundef -Wwrite-strings)

function(ckineto_compile target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  # Names of older versions are for others; nothing of ours uses one.
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE KINETO_NO_OLD_NAMES)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:${ckineto_warnings}>)
  if(CKINETO_ASSERTIONS)
    target_compile_definitions(${target} PRIVATE CKINETO_ASSERTIONS)
  endif()
  if(CKINETO_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CKINETO_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CKINETO_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${CKINETO_SANITIZE})
  endif()
  ckineto_harden(${target})
endfunction()

# Sources of a room into a variable.
function(ckineto_room room out)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.c)
  list(SORT files)
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# Compile once, use in the shared and the static library.
function(ckineto_objects name)
  add_library(${name} OBJECT ${ARGN})
  ckineto_compile(${name})
endfunction()

# ckineto_library(name export-name map objects extra-objects): name_shared and name_static.
function(ckineto_library name export map objects extra)
  set(sources $<TARGET_OBJECTS:${objects}>)
  if(extra)
    list(APPEND sources $<TARGET_OBJECTS:${extra}>)
  endif()
  add_library(${name}_shared SHARED ${sources})
  add_library(${name}_static STATIC ${sources})
  target_link_options(${name}_shared PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/${map} -Wl,-Bsymbolic-functions
    -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now)
  ckineto_harden(${name}_shared)
  if(CKINETO_SANITIZE)
    # The sanitizers' own symbols are resolved by the program: --no-undefined would refuse them.
    target_link_options(${name}_shared PRIVATE -fsanitize=${CKINETO_SANITIZE})
  else()
    target_link_options(${name}_shared PRIVATE -Wl,--no-undefined)
  endif()
  # A wheel has no symbolic links: there the file is called by its soname.
  set(release ${PROJECT_VERSION})
  if(CKINETO_WHEEL)
    set(release ${PROJECT_VERSION_MAJOR})
  endif()
  set_target_properties(${name}_shared PROPERTIES LINKER_LANGUAGE C VERSION ${release}
    SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${PROJECT_SOURCE_DIR}/${map})
  set_target_properties(${name}_static PROPERTIES LINKER_LANGUAGE C)
  foreach(form shared static)
    set_target_properties(${name}_${form} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${export}_${form})
    target_include_directories(${name}_${form} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    add_library(ckineto::${export}_${form} ALIAS ${name}_${form})
  endforeach()
  # The name for those who do not care.
  add_library(ckineto::${export} ALIAS ${name}_shared)
endfunction()

# ckineto_static_command(target files...): needs no library of the machine, and no file beside itself.
# Its verbs come from an archive, so that those it does not have leave nothing behind.
function(ckineto_static_command target)
  set(main ${ARGN})
  list(FILTER main INCLUDE REGEX "/main\\.c$")
  list(REMOVE_ITEM ARGN ${main})
  add_library(${target}-verbs STATIC ${ARGN})
  add_executable(${target} ${main})
  foreach(part ${target}-verbs ${target})
    ckineto_compile(${part})
    target_compile_definitions(${part} PRIVATE
      CKINETO_LIBDIR="${ckineto_installed_libdir}" CKINETO_PLUGINDIR="${ckineto_installed_libdir}/ckineto")
  endforeach()
  foreach(part ckineto-objects ckineto-rt-objects ${target})
    target_compile_definitions(${part} PRIVATE KB_LINKED_STATICALLY)
  endforeach()
  target_link_libraries(${target} PRIVATE ${target}-verbs)
  target_link_options(${target} PRIVATE -static-pie)
endfunction()

function(ckineto_summary)
  message(STATUS "ckineto ${PROJECT_VERSION} (${CMAKE_BUILD_TYPE}): gzip by ${CKINETO_GZIP_BY}, "
    "zstd ${CKINETO_ZSTD_NOTE}, SQL ${CKINETO_SQLITE_NOTE}, lines of stacks ${CKINETO_DW_NOTE}, OpenCL source ${CKINETO_OPENCL_NOTE}, Vulkan source ${CKINETO_VULKAN_NOTE}, "
    "OpenBLAS in an example ${CKINETO_OPENBLAS_NOTE}")
endfunction()
