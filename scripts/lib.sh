# shellcheck shell=bash
# What the scripts beside this file share. To be sourced, not run.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck disable=SC2034
VENV="$ROOT/.venv"

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: error: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# How many compilers may run at once: one a core, but a source file that includes LibTorch takes up to
# 1.5 GB, and a machine that swaps is slower than one that waits.
build_jobs() {
  local cores available_kb by_memory
  cores="$(nproc)"
  available_kb="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)"
  by_memory=$(( ${available_kb:-0} / 1500000 ))
  if (( by_memory < 1 )); then by_memory=1; fi
  echo $(( cores < by_memory ? cores : by_memory ))
}

# configure PRESET [cmake options]: quick when nothing changed; quiet unless it fails.
configure() {
  local preset="$1" log
  shift
  log="$(mktemp)"
  local -a options=("$@")
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  if [[ -n "${HDFNET_TORCH_PREFIX:-}" ]]; then
    options+=("-DCMAKE_PREFIX_PATH=$HDFNET_TORCH_PREFIX")
  fi
  if [[ -n "${HDFNET_CMAKE_OPTIONS:-}" ]]; then
    local -a extra
    read -r -a extra <<<"$HDFNET_CMAKE_OPTIONS"
    options+=("${extra[@]}")
  fi
  if ! (cd "$ROOT" && cmake --preset "$preset" --no-warn-unused-cli "${options[@]}") >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "CMake could not configure the '$preset' preset; its output is above."
  fi
  grep -E '^-- (LibTorch|CUDA kernels)' "$log" || true
  rm -f "$log"
}

# build PRESET [targets]
build() {
  local preset="$1" jobs
  shift
  jobs="$(build_jobs)"
  local -a targets=()
  if (( $# > 0 )); then targets=(--target "$@"); fi
  (cd "$ROOT" && cmake --build --preset "$preset" -j "$jobs" "${targets[@]}") \
    || die "the '$preset' build failed; the compiler's messages are above."
}
