# What makes faults harder to use: buffers that know their size, a canary behind arrays on the stack,
# tables of the dynamic linker that nobody writes after the start, no stack that can be executed.
# What it costs is in docs/how-to/install.md. Debug builds and sanitizers have better than this.

include(CheckCCompilerFlag)
include(CheckLinkerFlag)
option(CKINETO_HARDEN "Compile with the protections of cmake/Harden.cmake" ON)

set(ckineto_hardened OFF) # what the tests are told
if(CKINETO_HARDEN AND NOT CKINETO_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(ckineto_hardened ON)
endif()

# Sizes known at run time are checked too (3) from gcc 12 and clang 9 on.
set(ckineto_fortify 3)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
  set(ckineto_fortify 2)
endif()
set(ckineto_harden_compile "")
foreach(flag -fstack-protector-strong -fcf-protection -mbranch-protection=standard)
  string(MAKE_C_IDENTIFIER "CKINETO_HAS${flag}" has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    list(APPEND ckineto_harden_compile ${flag})
  endif()
endforeach()
check_linker_flag(C -pie CKINETO_HAS_PIE)
set(ckineto_harden_link -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

# ckineto_harden(target): called where the target's own options are set already.
function(ckineto_harden target)
  if(NOT ckineto_hardened)
    return()
  endif()
  target_compile_options(${target} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:${ckineto_harden_compile}>")
  target_link_options(${target} PRIVATE ${ckineto_harden_link})
  # The checks of libc are made by the optimiser: without it they are only a warning.
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(NOT "-O0" IN_LIST options)
    target_compile_options(${target} PRIVATE
      "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${ckineto_fortify}>")
  endif()
endfunction()

# ckineto_harden_program(target): it is loaded at an address that is not known beforehand.
function(ckineto_harden_program target)
  if(ckineto_hardened AND CKINETO_HAS_PIE)
    target_link_options(${target} PRIVATE -pie)
  endif()
endfunction()

# ckineto_harden_hot(file...): these run for every event. The canary cost 5 to 17 % of an operator or
# an event of a plug-in there, and has no array of unknown size to stand behind.
# Measured: bench_plugin, bench_function and bench_record, pairs with and without.
function(ckineto_harden_hot)
  if(ckineto_hardened)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-stack-protector)
  endif()
endfunction()

# ckineto_any_libc(target...): it is loaded into programs by LD_PRELOAD, also into those of another libc.
# The checks of _FORTIFY_SOURCE are functions of glibc: with them a program of musl would not start.
function(ckineto_any_libc)
  foreach(target ${ARGN})
    get_target_property(options ${target} COMPILE_OPTIONS)
    list(FILTER options EXCLUDE REGEX "FORTIFY_SOURCE")
    set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options};-U_FORTIFY_SOURCE")
  endforeach()
endfunction()
