#!/usr/bin/env bash
# Searches for inputs that break the parsers of what strangers may hand in: pictures, lists and names,
# settings, weights. Builds tests/fuzz with Clang, libFuzzer, AddressSanitizer and UBSan in build-fuzz/ and
# runs each for a while. Stops at the first input that breaks something, which is kept and named.
#
#   scripts/fuzz.sh [SECONDS EACH] [config] [image] [pairing] [weights]      (60 seconds, all of them)
#
# What was found interesting stays in build-fuzz/corpus/ and is where the next run starts.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BUILD="$ROOT/build-fuzz"
seconds=60
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  seconds="$1"
  shift
fi
if (( $# == 0 )); then set -- config image pairing weights; fi

"$ROOT/scripts/bootstrap.sh" --fuzz
options=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
  -DHDFNET_FUZZ=ON -DHDFNET_CUDA=OFF -DHDFNET_WERROR=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
  "-DHDFNET_SANITIZE=fuzzer-no-link,address,undefined")
if [[ " $* " != *" weights "* ]]; then options+=(-DHDFNET_BUILD_MODEL=OFF); else options+=(-DHDFNET_BUILD_MODEL=ON); fi
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
say "Building tests/fuzz in build-fuzz/"
mkdir -p "$BUILD"
log="$BUILD/build.log"
cmake -G Ninja -S "$ROOT" -B "$BUILD" "${options[@]}" >"$log" 2>&1 \
  || { cat "$log" >&2; die "CMake failed."; }
cmake --build "$BUILD" -j "$(build_jobs)" --target "${@/#/fuzz_}" >"$log" 2>&1 \
  || { tail -n 50 "$log" >&2; die "the build failed."; }
"$VENV/bin/python" -B "$ROOT/tests/fuzz/make_seeds.py" "$BUILD/seeds"

# LibTorch is built without the sanitizer, so vectors that it fills look overflown.
asan_options="detect_container_overflow=0:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
for target in "$@"; do
  say "fuzz_$target, $seconds s"
  mkdir -p "$BUILD/corpus/$target" "$BUILD/found"
  # LibTorch's zip reader keeps a kilobyte of an archive that it refuses.
  leaks=1
  if [[ "$target" == weights ]]; then leaks=0; fi
  ASAN_OPTIONS="$asan_options:detect_leaks=$leaks" "$BUILD/bin/fuzz_$target" \
    -max_total_time="$seconds" -max_len=16384 -timeout=25 -rss_limit_mb=4096 \
    -detect_leaks="$leaks" -print_final_stats=1 -verbosity=0 -artifact_prefix="$BUILD/found/$target-" \
    "$BUILD/corpus/$target" "$BUILD/seeds/$target" 2>"$BUILD/found/$target.log" \
    || { tail -n 60 "$BUILD/found/$target.log" >&2; die "fuzz_$target found something: the input is in build-fuzz/found/."; }
  grep -E 'number_of_executed_units|peak_rss_mb' "$BUILD/found/$target.log" || true
done
say "Nothing found"
