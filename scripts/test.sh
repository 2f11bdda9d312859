#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: those of the release build (C++ and Python), those
# of the build with AddressSanitizer and UBSan, and the style and static checks.
#
#   scripts/test.sh [ctest options]         for example: scripts/test.sh -R pairing
#
# HDFNET_TORCH_PREFIX=DIR      build with the LibTorch in DIR
# HDFNET_CMAKE_OPTIONS="..."   more options for CMake, for example "-DHDFNET_CUDA=OFF"
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$ROOT/scripts/bootstrap.sh" --test --lint

# Without a card the kernels can be compiled but not run; the oldest and one new architecture show that.
options=()
if ! nvidia-smi -L >/dev/null 2>&1; then options=("-DCMAKE_CUDA_ARCHITECTURES=75;90"); fi

say "Building the release preset in build/"
configure release "${options[@]}"
build release
say "Building the asan preset in build-asan/"
configure asan
build asan

# One run over both builds, so that its closing line covers everything.
all="$ROOT/build/all-tests"
mkdir -p "$all"
cat >"$all/CTestTestfile.cmake" <<CTEST
subdirs("$ROOT/build" "$ROOT/build-asan")
add_test(lint_format "$ROOT/scripts/lint.sh" format)
add_test(lint_shell "$ROOT/scripts/lint.sh" shell)
add_test(lint_tidy "$ROOT/scripts/lint.sh" tidy)
set_tests_properties(lint_tidy PROPERTIES TIMEOUT 1200 PROCESSORS $(nproc))
CTEST

# Tests run side by side: threads of one that wait should not spin on the cores of another.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

say "Running the tests"
exec ctest --test-dir "$all" --output-on-failure --no-tests=error --timeout 600 -j "$(build_jobs)" "$@"
