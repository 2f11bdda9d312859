#!/usr/bin/env bash
# The main job on the example pair: installs what is missing, builds hdfnet-infer, computes the saliency map of
# examples/rgb/teapot.jpg and examples/depth/teapot.png, and shows the map and the module report.
#
#   scripts/demo.sh [more hdfnet-infer options]      for example: scripts/demo.sh --device cpu
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$ROOT/scripts/bootstrap.sh"

say "Building hdfnet-infer"
configure release
build release hdfnet-infer

# Enough passes for a report; the default's number takes long on a CPU.
if (( $# == 0 )); then set -- --repeat 5 --warmup 1; fi

cd "$ROOT"
out=build/demo
mkdir -p "$out"
rgb=examples/rgb/teapot.jpg
depth=examples/depth/teapot.png
weights=weights/hdfnet_vgg16.pt

if [[ ! -f "$weights" ]]; then
  weights="$out/golden_rule_vgg16.pt"
  cat <<'NOTE'

  ############################################################################
  #  MADE-UP WEIGHTS: weights/hdfnet_vgg16.pt is not there, so the demo runs  #
  #  on weights made by a rule. All of the program works, but the map shows   #
  #  NOTHING about the picture.                                               #
  ############################################################################

NOTE
  if [[ ! -f "$weights" ]]; then
    "$VENV/bin/python" weights/export.py --golden-rule --variant vgg16 --out "$weights"
  fi
fi

say "hdfnet-infer --rgb $rgb --depth $depth --out $out --save map,overlay --timing"
build/bin/hdfnet-infer --rgb "$rgb" --depth "$depth" --weights "$weights" --out "$out" \
  --save map,overlay --timing "$@"

"$VENV/bin/python" scripts/preview.py "$rgb" "$out/teapot.png"
say "The map: $out/teapot.png    The map over the picture: $out/teapot_overlay.png"
