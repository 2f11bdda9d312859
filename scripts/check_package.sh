#!/usr/bin/env bash
# Builds the .deb, installs it with apt in a new root of this distribution, and runs the example pair there:
# the map must be that of the build tree. Needs root, debootstrap and a package mirror; takes a few minutes.
#
#   scripts/check_package.sh [--build DIR]
#
#   --build DIR   pack this build folder as it is, instead of building the release preset
#
# HDFNET_MIRROR=URL            the mirror for debootstrap; else the one that apt uses here
# HDFNET_TORCH_PREFIX=DIR, HDFNET_CMAKE_OPTIONS="..."   as in scripts/test.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=''
while (( $# > 0 )); do
  case "$1" in
    --build)
      build="$(realpath "${2:?--build needs a folder}")"
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set -euo/{/^#/{s/^# \{0,1\}//;p}}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option '$1' (known: --build DIR)." ;;
  esac
done

(( EUID == 0 )) || die "a new root can be made by root only: use sudo."
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap."

example=(--device cpu --rgb /usr/share/hdfnet/examples/rgb/teapot.jpg
  --depth /usr/share/hdfnet/examples/depth/teapot.png --out /root/map.png)

if [[ -z "$build" ]]; then
  "$ROOT/scripts/bootstrap.sh"
  configure release
  build release all
  build="$ROOT/build"
fi
say "Packing $build"
packages="$build/packages"
rm -f "$packages"/*.deb
(cd "$build" && cpack -G DEB >/dev/null)
deb="$(compgen -G "$packages/*.deb")"
wanted="$packages/teapot.png"
"$build/bin/hdfnet-infer" --quiet --device cpu --rgb "$ROOT/examples/rgb/teapot.jpg" \
  --depth "$ROOT/examples/depth/teapot.png" --out "$wanted" >/dev/null
say "$(du -h "$deb" | cut -f 1) $deb"
dpkg-deb --field "$deb" Package Version Depends

ID='' VERSION_CODENAME=''
# shellcheck disable=SC1091
source /etc/os-release
case "$ID" in
  debian) components=main ;;
  ubuntu) components=main,universe ;;
  *) die "this script knows Debian and Ubuntu, not '$ID'." ;;
esac
# The mirror that apt uses here.
# shellcheck disable=SC2016
mirror="${HDFNET_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' \
  "Codename: $VERSION_CODENAME" 'Component: main' | head -n 1)}"
[[ -n "$mirror" ]] || die "apt has no mirror of $VERSION_CODENAME here: name one in HDFNET_MIRROR."

new="$(mktemp -d /tmp/hdfnet-root-XXXXXX)"
cleanup() {
  if mountpoint -q "$new/proc"; then umount "$new/proc"; fi
  rm -rf --one-file-system "$new"
}
trap cleanup EXIT

say "A new root of $VERSION_CODENAME from $mirror"
debootstrap --variant=minbase --components="$components" "$VERSION_CODENAME" "$new" "$mirror" >"$new.log" 2>&1 \
  || { tail -n 20 "$new.log" >&2; die "debootstrap failed; its last lines are above, all of them in $new.log."; }
rm -f "$new.log"
mount -t proc proc "$new/proc"

say "apt installs the package there"
cp "$deb" "$new/root/"
chroot "$new" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
  "/root/$(basename "$deb")" >"$new/root/apt.log" 2>&1 \
  || { tail -n 20 "$new/root/apt.log" >&2; die "the package cannot be installed."; }

say "It runs there"
chroot "$new" hdfnet-infer --version
chroot "$new" hdfnet-eval --version
chroot "$new" hdfnet-infer "${example[@]}"
if chroot "$new" sh -c 'ldd /usr/bin/hdfnet-* /usr/lib/libhdfnet*.so' | grep 'not found'; then
  die "the libraries named above are missing from the package's dependencies."
fi
cache="$(chroot "$new" ldconfig -p)"
[[ "$cache" == *libhdfnet.so* ]] || die "the loader does not know libhdfnet.so."
cmp "$wanted" "$new/root/map.png" || die "the map differs from that of the build tree."
say "The map is that of the build tree, byte for byte"
chroot "$new" env DEBIAN_FRONTEND=noninteractive apt-get -q -y purge hdfnet-infer >/dev/null 2>&1
left="$(chroot "$new" sh -c 'find / -xdev -name "*hdfnet*" -not -path "/root/*" -not -path "/proc/*" -not -path "/var/*"')"
[[ -z "$left" ]] || die "purging leaves: $left"
say "The package is good"
