# Toolchain file: for another processor by Debian's cross compiler, run by qemu's emulation of programs.
#   CKINETO_CROSS     aarch64 or s390x (which is big-endian)
#   CKINETO_SYSROOT   what tools/cross-sysroot made
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CKINETO_CROSS CKINETO_SYSROOT)
set(triplet ${CKINETO_CROSS}-linux-gnu)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CKINETO_CROSS})
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_CXX_COMPILER NOTFOUND) # nor this machine's own
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})

set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CKINETO_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CKINETO_SYSROOT}/usr/lib/${triplet}/pkgconfig)
set(libraries ${CKINETO_SYSROOT}/usr/lib/${triplet}:${CKINETO_SYSROOT}/lib/${triplet})
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${CKINETO_CROSS} -L /usr/${triplet} -E LD_LIBRARY_PATH=${libraries})
set(CMAKE_FIND_ROOT_PATH ${CKINETO_SYSROOT} /usr/${triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
