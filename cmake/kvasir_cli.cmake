# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# The program. Commands are an object library, so that the tests can link them too.
file(GLOB cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.cpp")
list(FILTER cli_sources EXCLUDE REGEX "/main\\.cpp$")

if(EXISTS "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  find_package(CLI11 REQUIRED)
  add_executable(kvasir "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  set_target_properties(kvasir PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  if(cli_sources)
    add_library(kvasir_cli OBJECT ${cli_sources})
    target_link_libraries(kvasir_cli PUBLIC kvasir_eval kvasir_vector CLI11::CLI11)
    target_compile_definitions(kvasir_cli PUBLIC KVASIR_VERSION="${PROJECT_VERSION}")
    # Half of a build was spent on the templates of these two headers. The linker keeps one copy of a template that rooms
    # use too, and it may be the one from here: so not where Eigen is used.
    target_compile_options(kvasir_cli PRIVATE ${KVASIR_QUICK_TO_BUILD})
    target_precompile_headers(kvasir_cli PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp>)
    set_source_files_properties("${PROJECT_SOURCE_DIR}/src/cli/bench_fits.cpp" PROPERTIES
      SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3>")
    target_link_libraries(kvasir PRIVATE kvasir_cli)
  else()
    target_link_libraries(kvasir PRIVATE kvasir_eval CLI11::CLI11)
    target_compile_definitions(kvasir PRIVATE KVASIR_VERSION="${PROJECT_VERSION}")
  endif()
endif()
