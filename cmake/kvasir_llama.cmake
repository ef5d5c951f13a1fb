# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# llama.cpp and ggml, built once per machine by tools/build_llama.sh and shared by all presets and checkouts.
set(llama_prefix "${KVASIR_LLAMA_PREFIX}")
if(NOT llama_prefix)
  message(STATUS "llama.cpp: looking for the build of this machine (the first time takes minutes)")
  set(llama_source)
  if(KVASIR_LLAMA_DIR)
    set(llama_source --source "${KVASIR_LLAMA_DIR}")
  endif()
  # Progress goes to stderr and through; the prefix is the only line on stdout.
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "KVASIR_CACHE_DIR=${KVASIR_CACHE_DIR}"
            "${PROJECT_SOURCE_DIR}/tools/build_llama.sh" ${llama_source}
    OUTPUT_VARIABLE llama_prefix
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE llama_failed)
  if(llama_failed)
    message(FATAL_ERROR "llama.cpp could not be built (see above); run tools/setup.sh, or give "
                        "-DKVASIR_LLAMA_DIR=<checkout> or -DKVASIR_LLAMA_PREFIX=<installation>")
  endif()
endif()
message(STATUS "llama.cpp: ${llama_prefix}")

find_package(llama REQUIRED CONFIG NO_DEFAULT_PATH PATHS "${llama_prefix}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/tools/pins.sh" "${PROJECT_SOURCE_DIR}/tools/build_llama.sh")
