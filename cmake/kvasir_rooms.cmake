# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# A room is a folder under src/ and one static library kvasir_<room>.

# kvasir_room(NAME DEPENDENCY...): the library of src/NAME, on top of the named rooms. A room without sources is an
# interface library, so the house stands while rooms are being built.
function(kvasir_room name)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  if(NOT KVASIR_X86)
    list(FILTER sources EXCLUDE REGEX "-avx[0-9a-z]+\\.cpp$")
  endif()
  if(NOT KVASIR_NEON)
    list(FILTER sources EXCLUDE REGEX "-neon\\.cpp$")
  endif()
  if(sources)
    add_library(kvasir_${name} STATIC ${sources})
    kvasir_simd_flags(${sources})
  else()
    add_library(kvasir_${name} INTERFACE)
  endif()
  kvasir_link(${name} kvasir_options)
  foreach(dependency IN LISTS ARGN)
    kvasir_link(${name} kvasir_${dependency})
  endforeach()
endfunction()

# kvasir_link(NAME LIBRARY...) and kvasir_define(NAME DEFINITION...), for the users of the room too.
function(kvasir_link name)
  kvasir_reach(${name} reach)
  target_link_libraries(kvasir_${name} ${reach} ${ARGN})
endfunction()

function(kvasir_define name)
  kvasir_reach(${name} reach)
  target_compile_definitions(kvasir_${name} ${reach} ${ARGN})
endfunction()

function(kvasir_reach name result)
  get_target_property(type kvasir_${name} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(${result} INTERFACE PARENT_SCOPE)
  else()
    set(${result} PUBLIC PARENT_SCOPE)
  endif()
endfunction()

# One file per instruction set, compiled for it alone and only called after the processor was asked: name-avx2.cpp,
# name-avx512.cpp (with VNNI), name-avx512vbmi.cpp (with VBMI as well), never AMX. name-neon.cpp needs no flags on
# AArch64. Emulated on x86 (KVASIR_NEON_EMULATION) it is AVX2 code, not much optimized: as a test it is fast enough, and
# with sanitizers GCC takes five times as long otherwise.
function(kvasir_simd_flags)
  if(NOT KVASIR_X86)
    return()
  endif()
  set(avx2 -mavx2 -mfma -mf16c)
  # GCC 12 takes the deliberately undefined vectors of its own intrinsics for a mistake (its bug 105593).
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
             "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>")
  set(neon ${avx2} -O1 "$<$<CXX_COMPILER_ID:GNU>:-fno-var-tracking-assignments>")
  foreach(source IN LISTS ARGN)
    if(source MATCHES "-neon\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${neon}")
    elseif(source MATCHES "-avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx2}")
    elseif(source MATCHES "-avx512\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx512}")
    elseif(source MATCHES "-avx512vbmi\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${avx512};-mavx512vbmi")
    endif()
  endforeach()
endfunction()
