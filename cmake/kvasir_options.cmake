# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# Compile options of every target of ours, in one interface target.
add_library(kvasir_options INTERFACE)
target_include_directories(kvasir_options INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
# GCC 12 sees overlapping copies in std::string's operator+ that aren't there (its bug 105651).
target_compile_options(kvasir_options INTERFACE -Wall -Wextra $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(KVASIR_WERROR)
  target_compile_options(kvasir_options INTERFACE -Werror)
endif()

# For what need not be fast: the command line and the tests.
set(KVASIR_QUICK_TO_BUILD $<$<NOT:$<CONFIG:Debug>>:-O1>)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|i[3-6]86)$")
  set(KVASIR_X86 ON)
  target_compile_definitions(kvasir_options INTERFACE KVASIR_X86=1)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(KVASIR_NEON ON)
  target_compile_definitions(kvasir_options INTERFACE KVASIR_NEON=1)
elseif(KVASIR_NEON_EMULATION)
  find_path(KVASIR_SIMDE_INCLUDE simde/arm/neon.h DOC "SIMDe's headers; Debian's libsimde-dev")
  if(NOT KVASIR_SIMDE_INCLUDE)
    message(FATAL_ERROR "KVASIR_NEON_EMULATION=ON needs simde/arm/neon.h: install SIMDe (Debian's libsimde-dev) or "
                        "turn the option off.")
  endif()
  set(KVASIR_NEON ON)
  target_include_directories(kvasir_options SYSTEM INTERFACE "${KVASIR_SIMDE_INCLUDE}")
  target_compile_definitions(kvasir_options INTERFACE KVASIR_NEON=1 KVASIR_NEON_EMULATION=1)
endif()

if(KVASIR_SANITIZE)
  target_compile_options(kvasir_options INTERFACE -fsanitize=${KVASIR_SANITIZE} -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  target_link_options(kvasir_options INTERFACE -fsanitize=${KVASIR_SANITIZE})
endif()
