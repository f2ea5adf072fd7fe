# What `cpack` makes of an installation: four Debian packages (DEB; `make deb` builds for them) or one
# archive that may be unpacked anywhere (TGZ; `make tarball`).
#
#   libckineto0       runtime      both shared libraries; named after their soname
#   libckineto-dev    development  headers, archives, pkg-config, CMake
#   ckineto           command      the command, man pages, completions
#   ckineto-plugins   plugins      what is loaded into recorded programs

set(CPACK_PACKAGE_NAME ckineto)
set(CPACK_PACKAGE_VENDOR "The ckineto authors")
set(CPACK_PACKAGE_CONTACT "The ckineto authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Kineto for every program")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_GENERATOR TGZ)
set(CPACK_COMPONENTS_ALL runtime development command plugins)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" ckineto_system)
set(CPACK_PACKAGE_FILE_NAME ckineto-${PROJECT_VERSION}-${ckineto_system})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib) # our own: named below
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz) # read by every Debian

# ckineto_deb(component package title text [KEY value]...): fields of its control file.
function(ckineto_deb component package title text)
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_DESCRIPTION "${title}\n${text}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${package} PARENT_SCOPE)
  while(ARGN)
    list(POP_FRONT ARGN key value)
    set(CPACK_DEBIAN_${name}_PACKAGE_${key} "${value}" PARENT_SCOPE)
  endwhile()
endfunction()

set(same "(= ${PROJECT_VERSION})")
set(library libckineto${PROJECT_VERSION_MAJOR})
# What the package files name beside our own libraries.
set(needs "${library} ${same}, zlib1g-dev")
foreach(pair ISAL=libisal-dev ZSTD=libzstd-dev SQLITE=libsqlite3-dev)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 found)
  list(GET pair 1 package)
  if(CKINETO_${found}_FOUND)
    string(APPEND needs ", ${package}")
  endif()
endforeach()

ckineto_deb(runtime ${library} "libraries that record, read and explain timelines"
  "libckineto-rt records what a program does and needs libc only; libckineto reads, analyses and writes
traces in the format of PyTorch's Kineto." SECTION libs)
ckineto_deb(development libckineto-dev "headers and archives of libckineto"
  "To compile programs that record themselves, plug-ins for accelerators, and tools that read traces."
  SECTION libdevel DEPENDS "${needs}" RECOMMENDS libdw-dev)
ckineto_deb(command ckineto "record and explain timelines of CPUs and accelerators"
  "The command: records any program, without recompiling it, and reads, checks, analyses, compares and
converts traces of PyTorch and of other writers of Chrome's format."
  DEPENDS "${library} ${same}" RECOMMENDS ckineto-plugins)
ckineto_deb(plugins ckineto-plugins "sources of ckineto: OpenCL, CUDA, NVTX, memory"
  "Libraries that ckineto lets into recorded programs, to see their devices and allocations."
  DEPENDS "${library} ${same}" SECTION libs)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # so that others' packages depend on ours

# What Debian asks of every package, and nobody else: its terms beside it, manual pages compressed.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PackageDebian.cmake)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  foreach(pair runtime=${library} development=libckineto-dev command=ckineto plugins=ckineto-plugins)
    string(REPLACE "=" ";" pair ${pair})
    list(GET pair 0 component)
    list(GET pair 1 package)
    install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} RENAME copyright
      COMPONENT ${component})
  endforeach()
endif()
include(CPack)
