# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
#   make demo     from a fresh clone to a table: what compressing the KV cache costs and saves
#   make test     everything that has to hold: the rooms up to attention under ASan and UBSan, then all tests
#   make build    the program, build/release/bin/kvasir
# KVASIR_LLAMA_DIR=<checkout> builds on that llama.cpp instead of the pinned one.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
CONFIGURE_FLAGS := $(if $(KVASIR_LLAMA_DIR),-DKVASIR_LLAMA_DIR=$(abspath $(KVASIR_LLAMA_DIR)))
OUR_SOURCES = $(shell find $(wildcard include src tests bench tools) -name '*.h' -o -name '*.cpp' -o -name '*.c')

.PHONY: demo test build setup asan tsan format format-check tidy clean
.DEFAULT_GOAL := build

setup:
	@KVASIR_LLAMA_DIR="$(KVASIR_LLAMA_DIR)" tools/setup.sh

build: setup
	@cmake --preset release $(CONFIGURE_FLAGS)
	@cmake --build --preset release --parallel $(JOBS)

demo: build
	@build/release/bin/kvasir demo

# The full run comes last, so that its summary is the last thing printed.
test: build asan
	ctest --preset release --parallel $(JOBS)

# No llama.cpp and no models: quick, and every byte of ours is instrumented.
asan tsan: setup
	@cmake --preset $@
	@cmake --build --preset $@ --parallel $(JOBS)
	ctest --preset $@ --parallel $(JOBS) -L unit

format:
	@tools/setup.sh --lint
	clang-format -i $(OUR_SOURCES)

format-check:
	@tools/setup.sh --lint
	clang-format --dry-run --Werror $(OUR_SOURCES)

tidy: build
	@tools/setup.sh --lint
	@tools/tidy.sh build/release $(JOBS)

clean:
	rm -rf build
