#!/usr/bin/env bash
# Installs what hdfnet-infer is built with, on Debian 12/13 and Ubuntu 22.04/24.04. Takes a fraction of a
# second when nothing is missing.
#
#   scripts/bootstrap.sh [--test] [--lint] [--fuzz] [--no-packages]
#
#   --test         also what only the tests run: mpirun, and Chromium on Debian (Ubuntu has it as a snap only)
#   --lint         also the tools of scripts/lint.sh (clang-format, clang-tidy, shellcheck)
#   --fuzz         also Clang, for scripts/fuzz.sh
#   --no-packages  leave the system's packages alone: you have installed them by other means
#
# HDFNET_TORCH_PREFIX=DIR  use the LibTorch in DIR; nothing of PyTorch is then installed. Otherwise PyTorch,
#                          which contains LibTorch, goes into the private environment .venv/.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TORCH='torch==2.11.0'
PYTHON_PACKAGES=('numpy>=1.26,<3' 'pillow>=10')
# Pinned, because every version formats and warns differently.
LINT_PYTHON_PACKAGES=('clang-format==14.0.6' 'clang-tidy==23.1.4')

SYSTEM_PACKAGES=(
  g++ cmake ninja-build ccache
  python3 python3-venv
  libopencv-dev  # of it: core, imgproc, imgcodecs; but only this package has OpenCVConfig.cmake
  libjpeg-dev libpng-dev libtiff-dev
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev
)
TEST_SYSTEM_PACKAGES=(
  openmpi-bin
  dpkg-dev file pkg-config groff-base  # for the tests of packages and manual pages
)
TEST_DEBIAN_PACKAGES=(chromium)
LINT_SYSTEM_PACKAGES=(shellcheck)
FUZZ_SYSTEM_PACKAGES=(clang)

tests=no
lint=no
fuzz=no
packages=yes
for argument in "$@"; do
  case "$argument" in
    --test) tests=yes ;;
    --lint) lint=yes ;;
    --fuzz) fuzz=yes ;;
    --no-packages) packages=no ;;
    -h | --help)
      sed -n '2,/^set -euo/{/^#/{s/^# \{0,1\}//;p}}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option '$argument' (known: --test, --lint, --fuzz, --no-packages)." ;;
  esac
done
if [[ "$tests" == yes ]]; then
  SYSTEM_PACKAGES+=("${TEST_SYSTEM_PACKAGES[@]}")
  if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then SYSTEM_PACKAGES+=("${TEST_DEBIAN_PACKAGES[@]}"); fi
fi
if [[ "$lint" == yes ]]; then SYSTEM_PACKAGES+=("${LINT_SYSTEM_PACKAGES[@]}"); fi
if [[ "$fuzz" == yes ]]; then
  SYSTEM_PACKAGES+=("${FUZZ_SYSTEM_PACKAGES[@]}")
  # Ubuntu 22.04 has libFuzzer in Clang's own packages.
  if ! grep -qx 'VERSION_ID="22.04"' /etc/os-release 2>/dev/null; then SYSTEM_PACKAGES+=(libclang-rt-dev); fi
fi

missing_packages() {
  local installed package
  installed="$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${SYSTEM_PACKAGES[@]}" 2>/dev/null || true)"
  for package in "${SYSTEM_PACKAGES[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || echo "$package"
  done
}

check_distribution() {
  local by_hand="Install by hand what SYSTEM_PACKAGES in scripts/bootstrap.sh lists, then use --no-packages."
  [[ -r /etc/os-release ]] || die "this system has no /etc/os-release, so its distribution is unknown. $by_hand"
  local ID='' VERSION_ID='' ID_LIKE='' PRETTY_NAME='this system'
  # shellcheck disable=SC1091
  source /etc/os-release
  case "$ID:$VERSION_ID" in
    debian:12* | debian:13* | ubuntu:22.04 | ubuntu:24.04) return ;;
  esac
  if [[ " $ID $ID_LIKE " =~ \ (debian|ubuntu)\  ]] && command -v apt-get >/dev/null; then
    say "$PRETTY_NAME is not one of Debian 12/13 and Ubuntu 22.04/24.04; trying their package names"
    return
  fi
  die "$PRETTY_NAME is not supported: this script knows Debian 12/13 and Ubuntu 22.04/24.04. $by_hand"
}

# Sets `root` to the command prefix that installing needs.
become_root() {
  root=()
  if (( EUID == 0 )); then return; fi
  command -v sudo >/dev/null \
    || die "packages are missing (${missing[*]}), and installing them needs root: run this script as root, or install sudo."
  if [[ -t 0 ]]; then
    root=(sudo)
  elif sudo -n true 2>/dev/null; then
    root=(sudo -n)
  else
    die "packages are missing (${missing[*]}), and sudo wants a password but there is no terminal to ask on: run this script in a terminal, or as root."
  fi
}

install_system_packages() {
  mapfile -t missing < <(missing_packages)
  if (( ${#missing[@]} == 0 )); then return; fi
  check_distribution
  become_root
  say "Installing packages (a minute or two): ${missing[*]}"
  local -a apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  # Fails only when no list at all could be had: one dead third-party source is not our business.
  mkdir -p "$ROOT/.cache"
  local log="$ROOT/.cache/apt.log"
  "${apt[@]}" update >"$log" 2>&1 || say "apt-get update reported an error; trying the lists that are there"
  if ! "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    grep -E '^(E|W|Err)' "$log" >&2 || tail -n 20 "$log" >&2
    die "apt-get could not install: ${missing[*]}. With 'Unable to locate', 'Temporary failure' or 'Failed to fetch' above, it is the network or the package sources (on Ubuntu, 'universe' must be enabled). Everything apt-get said: $log"
  fi
}

# The LibTorch given by the user: any sign of it is enough here, CMake checks it in full.
check_torch_prefix() {
  if [[ ! -f "$HDFNET_TORCH_PREFIX/share/cmake/Torch/TorchConfig.cmake" && ! -f "$HDFNET_TORCH_PREFIX/TorchConfig.cmake" ]] &&
    [[ -z "$(find -L "$HDFNET_TORCH_PREFIX" -maxdepth 4 -name TorchConfig.cmake -print -quit 2>/dev/null)" ]]; then
    die "HDFNET_TORCH_PREFIX=$HDFNET_TORCH_PREFIX holds no TorchConfig.cmake: it must be the folder of an unpacked LibTorch."
  fi
}

# pip_install NAME PACKAGES...: into .venv/, unless the stamp NAME says that just these are there.
pip_install() {
  local stamp="$VENV/.hdfnet-$1" wanted
  shift
  wanted="$*"
  if [[ -f "$stamp" && "$(<"$stamp")" == "$wanted" ]]; then return; fi
  if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "Making the private Python environment .venv/"
    local python=/usr/bin/python3
    [[ -x "$python" ]] || python="$(command -v python3)" || die "python3 was not found."
    "$python" -m venv --clear "$VENV" \
      || die "$python could not make the environment $VENV (its venv module is the package python3-venv)."
  fi
  say "Installing into .venv/: $wanted"
  # Not into pip's cache, where the 3 GB would lie once more.
  "$VENV/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-cache-dir --no-compile "$@" \
    || die "pip could not install $wanted. Its message is above; mostly it is the network or a full disk."
  printf '%s\n' "$wanted" >"$stamp"
}

check_disk() {
  local free_kb
  free_kb="$(df -Pk "$ROOT" | awk 'NR == 2 {print $4}')"
  if (( free_kb < 10000000 )); then
    die "PyTorch takes up to 10 GB while it is being installed, and $ROOT has $(( free_kb / 1000000 )) GB free. Make room, or give another LibTorch by HDFNET_TORCH_PREFIX."
  fi
}

install_python_packages() {
  # Two of these at once would install into one folder.
  mkdir -p "$ROOT/.cache"
  exec 9>"$ROOT/.cache/bootstrap.lock"
  flock 9
  if [[ -n "${HDFNET_TORCH_PREFIX:-}" ]]; then
    check_torch_prefix
    pip_install python "${PYTHON_PACKAGES[@]}"
  else
    local torch
    torch="$(compgen -G "$VENV/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" || true)"
    if [[ -z "$torch" ]]; then
      # A half-installed one would count as installed with pip.
      if compgen -G "$VENV/lib/python3*/site-packages/torch" >/dev/null; then rm -rf "$VENV"; fi
      rm -f "$VENV/.hdfnet-torch"
      check_disk
      say "PyTorch (LibTorch and its CUDA libraries) is a download of 3 GB"
    fi
    pip_install torch "$TORCH" "${PYTHON_PACKAGES[@]}"
  fi
  if [[ "$lint" == yes ]]; then pip_install lint "${LINT_PYTHON_PACKAGES[@]}"; fi
  exec 9>&-
}

check_cmake() {
  local version
  version="$(cmake --version | awk 'NR == 1 {print $3}')"
  if [[ "$(printf '3.22\n%s\n' "$version" | sort -V | head -n 1)" != 3.22 ]]; then
    die "$(command -v cmake) is CMake $version; 3.22 or later is needed."
  fi
}

report_cuda() {
  local nvcc
  nvcc="$(command -v nvcc || true)"
  if [[ -z "$nvcc" && -x /usr/local/cuda/bin/nvcc ]]; then nvcc=/usr/local/cuda/bin/nvcc; fi
  if [[ -n "$nvcc" ]]; then
    say "The build has what it needs; with $nvcc it includes the CUDA kernels"
  else
    say "The build has what it needs; without a CUDA toolkit (no nvcc) it is for the CPU only"
  fi
}

[[ -w "$ROOT" ]] || die "$ROOT cannot be written to, and everything is built in it: use a copy of your own."
if [[ "$packages" == yes ]]; then
  command -v dpkg-query >/dev/null || check_distribution
  install_system_packages
fi
install_python_packages
check_cmake
report_cuda
