# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# KVASIR_CACHE_DIR: where the built llama.cpp and the models lie. -D wins over the environment, as in tools/setup.sh.
if(NOT KVASIR_CACHE_DIR)
  if(DEFINED ENV{KVASIR_CACHE_DIR} AND NOT "$ENV{KVASIR_CACHE_DIR}" STREQUAL "")
    set(KVASIR_CACHE_DIR "$ENV{KVASIR_CACHE_DIR}")
  else()
    set(KVASIR_CACHE_DIR "$ENV{HOME}/.cache/kvasir")
  endif()
endif()
