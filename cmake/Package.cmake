# What `cpack` makes of an installation: one archive that may be unpacked anywhere (`make tarball`).
# The Debian packages of `make deb` are in debian/.

set(CPACK_PACKAGE_NAME ckineto)
set(CPACK_PACKAGE_VENDOR "The ckineto authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Kineto for every program")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_GENERATOR TGZ)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" ckineto_system)
set(CPACK_PACKAGE_FILE_NAME ckineto-${PROJECT_VERSION}-${ckineto_system})
include(CPack)
