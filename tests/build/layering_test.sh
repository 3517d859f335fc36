#!/usr/bin/env bash
# The layering check passes on the tree and fails on planted wrong includes, one for each kind of edge.
set -euo pipefail
root=$1
check="$root/tests/build/layering.py"
python3 "$check" "$root"

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
planted=0
plant() {  # plant FILE INCLUDE: a copy of the tree's sources with one wrong line must fail the check
  rm -rf "${copy:?}"/*
  cp -r "$root"/src "$root"/include "$copy"/
  mkdir -p "$copy/tools" "$copy/$(dirname "$1")"
  printf '#include %s\n' "$2" >> "$copy/$1"
  if python3 "$check" "$copy" >/dev/null; then
    echo "a wrong include was not noticed: $2 in $1" >&2
    exit 1
  fi
  planted=$((planted + 1))
}
plant src/numerics/int8.h '"ref/attend.h"'
plant src/numerics/int8.h '"lanes/scalar.h"'
plant src/core/plan.h '"quant/quantize.h"'
plant src/quant/quantize.h '"ref/reference.h"'
plant src/quant/quantize.h '"cuda/quant/quantize.h"'
plant src/cuda/quant/quantize.h '"capi/prepass.h"'
plant src/ref/attend.h '"core/plan.h"'
plant src/base/hd.h '"core/plan.h"'
plant src/core/plan.h '<cuda_runtime.h>'
plant include/octet/types.hpp '"base/hd.h"'
plant tools/octet/planted.cpp '"core/schemes.h"'
plant tools/octet/gpu/planted.cpp '"cuda/cuda.h"'
plant tools/octet/bench/planted.cpp '<cuda_runtime_api.h>'
echo "layering_test: $planted planted includes were all noticed"
