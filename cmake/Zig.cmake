# Toolchain file: zig's compiler, which links for an older C library than this machine's, and for another
# processor. tools/build-wheel makes what it names.
#   CKINETO_ZIG         folder with cc, ar and ranlib, which know the processor and the C library
#   CKINETO_ZIG_ARCH    x86_64 or aarch64
#   CKINETO_LIBRARIES   prefix of static libraries for it; no others are found
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CKINETO_ZIG CKINETO_ZIG_ARCH CKINETO_LIBRARIES)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CKINETO_ZIG_ARCH})
set(CMAKE_C_COMPILER ${CKINETO_ZIG}/cc)
set(CMAKE_CXX_COMPILER NOTFOUND)
set(CMAKE_AR ${CKINETO_ZIG}/ar)
set(CMAKE_RANLIB ${CKINETO_ZIG}/ranlib)

# zig adds checks for undefined behaviour, and links none of what they call.
get_filename_component(sources ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
set(CMAKE_C_FLAGS_INIT
  "-fno-sanitize=undefined -ffunction-sections -fdata-sections -ffile-prefix-map=${sources}=.")
# zig's own __builtin_cpu_supports always says no; GCC's library has the answer.
if(CKINETO_ZIG_ARCH STREQUAL "x86_64")
  execute_process(COMMAND gcc -print-libgcc-file-name OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  set(CMAKE_C_STANDARD_LIBRARIES_INIT ${libgcc})
endif()
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-Wl,--gc-sections -Wl,--undefined-version -s")
endforeach()

set(ENV{PKG_CONFIG_LIBDIR} ${CKINETO_LIBRARIES}/lib/pkgconfig)
set(CMAKE_FIND_ROOT_PATH ${CKINETO_LIBRARIES})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
