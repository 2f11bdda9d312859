#!/usr/bin/env bash
# Checks the style and looks for faults without running anything.
#
#   scripts/lint.sh [format] [shell] [tidy]      (all three by default)
#   scripts/lint.sh fix                          (formats the sources in place)
#
#   format  clang-format on every C++ and CUDA source
#   shell   shellcheck on the scripts
#   tidy    clang-tidy on the sources of the asan preset: all the code that needs no LibTorch. A file whose
#           text, headers, options and checks are as when it last passed is not looked at again.
#
# The versions are those that scripts/bootstrap.sh --lint installs.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

CLANG_FORMAT="$VENV/bin/clang-format"
CLANG_TIDY="$VENV/bin/clang-tidy"
BUILD=build-asan

cxx_sources() {
  local directory
  for directory in app model ops tests; do
    if [[ -d "$directory" ]]; then
      find "$directory" -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \)
    fi
  done | LC_ALL=C sort
}

need() {
  [[ -x "$1" ]] || command -v "$1" >/dev/null || die "$1 is missing: run scripts/bootstrap.sh --lint first."
}

lint_format() {
  need "$CLANG_FORMAT"
  cxx_sources | xargs -r -d '\n' "$CLANG_FORMAT" --dry-run --Werror \
    || die "the files named above are not formatted: run scripts/lint.sh fix."
  say "clang-format: $(cxx_sources | wc -l) files as they should be"
}

lint_fix() {
  need "$CLANG_FORMAT"
  cxx_sources | xargs -r -d '\n' "$CLANG_FORMAT" -i
}

lint_shell() {
  need shellcheck
  shellcheck -x scripts/*.sh configs/slurm/*.sbatch .ci/run
  say "shellcheck: the scripts are clean"
}

# Prints "FILE KEY" of each source in the compilation database; KEY changes with all that a verdict hangs on.
tidy_keys() {
  "$VENV/bin/python" - "$ROOT" "$BUILD" <<'PYTHON'
import hashlib, json, pathlib, sys

root, build = pathlib.Path(sys.argv[1]), sys.argv[2]
common = hashlib.sha256()
headers = [p for d in ("app", "model", "ops", "tests") for p in (root / d).rglob("*.h")]
for path in [root / ".clang-tidy", root / "scripts/bootstrap.sh", *sorted(headers)]:
    common.update(path.read_bytes())
for entry in json.loads((root / build / "compile_commands.json").read_text()):
    path = pathlib.Path(entry["file"])
    if not path.is_relative_to(root) or path.is_relative_to(root / build):
        continue
    key = common.copy()
    key.update(path.read_bytes() + entry["command"].encode())
    print(path, key.hexdigest())
PYTHON
}

# tidy_one FILE KEY
tidy_one() {
  local passed="$ROOT/.cache/tidy/$2"
  if [[ -e "$passed" ]]; then return; fi
  local -a options=(--quiet -p "$ROOT/$BUILD" --extra-arg=-Wno-unknown-warning-option)
  # The analyzer takes most of the time on GoogleTest's macros, and finds nothing there.
  if [[ "$1" == "$ROOT"/tests/* ]]; then options+=(--checks=-clang-analyzer-*); fi
  if "$CLANG_TIDY" "${options[@]}" "$1" 2>/dev/null; then
    touch "$passed"
  else
    printf 'clang-tidy finds fault with %s\n' "$1"
    return 1
  fi
}

lint_tidy() {
  need "$CLANG_TIDY"
  if [[ ! -f "$BUILD/compile_commands.json" ]]; then configure asan; fi
  mkdir -p .cache/tidy
  local jobs keys
  jobs="$(nproc)"
  keys="$(tidy_keys)"
  export -f tidy_one
  export ROOT BUILD CLANG_TIDY
  # shellcheck disable=SC2016
  xargs -r -P "$jobs" -L 1 bash -c 'tidy_one "$1" "$2"' tidy_one <<<"$keys" \
    || die "clang-tidy found the faults named above."
  say "clang-tidy: $(wc -l <<<"$keys") files without a finding"
}

if (( $# == 0 )); then set -- format shell tidy; fi
for check in "$@"; do
  case "$check" in
    format | shell | tidy | fix) "lint_$check" ;;
    *) die "unknown check '$check' (known: format, shell, tidy, fix)." ;;
  esac
done
