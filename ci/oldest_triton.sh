#!/usr/bin/env bash
# What Tritons differ in, on the oldest that is supported, in the environment of the other tests:
# code for NVIDIA, Gluon's partitions, calls with tuples, the front end's mended mistakes.
#
#   ci/oldest_triton.sh             install it, and the tests
#   ci/oldest_triton.sh --prepare   install it
#
# Installs that Triton alone into build/; where it cannot be had, says so and does nothing.
# ci/triton_matrix.sh does more, in an environment for each Triton.
#
# PYTHON   the interpreter (default: .venv/bin/python)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
version=3.6.0
folder=$PWD/build/triton-$version
if [ ! -e "$folder/triton" ]; then
  rm -rf "$folder" "$folder.new"
  if ! "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$folder.new" \
    "triton==$version"; then
    rm -rf "$folder.new"
    echo "Triton $version cannot be installed here: the tests on the oldest Triton are left out."
    exit 0
  fi
  mv "$folder.new" "$folder"
fi
[ "${1:-}" != --prepare ] || exit 0
jobs=${XTARGET_TEST_JOBS:-$(nproc)} workers=()
[ "$jobs" -le 4 ] || jobs=4
if [ "$jobs" -gt 1 ] && "$python" -c 'import xdist' >/dev/null 2>&1; then
  workers=(-n "$jobs" --dist worksteal)
fi
tests() { PYTHONPATH=$folder "$python" ci/steady.py pytest -q -m "not long" "${workers[@]}" "$@"; }
tests tests/kernels/test_hopper_attention.py tests/kernels/test_hopper_scans.py \
  tests/kernels/test_hopper_few_rows.py tests/kernels/test_hopper_products.py \
  tests/kernels/test_hopper_eight_bits.py tests/compile/test_nvidia.py --vendor none
tests tests/compile/test_spirv_language.py -k "tuples or zero" --vendor cpu
