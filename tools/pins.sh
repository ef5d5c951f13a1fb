# shellcheck shell=bash disable=SC2034
# Copyright The Kvasir authors
# SPDX-License-Identifier: Apache-2.0
#
# The one place where llama.cpp is pinned: the source package that ships it (MIT, folder vendor/llama.cpp, ggml
# 0.25.3). Its graph is not an API, so another version is another set of tests.
LLAMA_PACKAGE=llama-cpp-python
LLAMA_VERSION=0.3.36
LLAMA_SHA256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
