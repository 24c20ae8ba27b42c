#!/usr/bin/env bash
# The AMD driver on AMD's own HIP and HSA run time, without a GPU: Debian's packages of ROCm in a
# folder, with a functional model of the GPUs in the kernel driver's place (tests/rocm_rig).
#
#   ci/rocm.sh                  prepare, tests/rocm, the suites
#   ci/rocm.sh --prepare        unpack ROCm, which tests/rocm needs
#   ci/rocm.sh --suites         the suites of all devices (conformance, kernels) on the rig
#   ci/rocm.sh HIP GPUS ARG...  a Python with these GPUs: ci/rocm.sh 7 gfx942,gfx1100 -m xtarget devices
#
# Says so in one line, and does nothing, where the packages cannot be had.
#
# XTARGET_ROCM_FOLDER=FOLDER  where ROCm is kept: 320 MB (default: xtarget-rocm in the user's cache)
# XTARGET_TEST_LONG=1         both versions of HIP, all archs, all kernels
# DEBIAN_MIRROR               default: this machine's, or http://deb.debian.org/debian
# PYTHON                      the interpreter; default .venv/bin/python, or python3 where there is none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export XTARGET_ROCM_FOLDER=${XTARGET_ROCM_FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/xtarget-rocm}
folder=$XTARGET_ROCM_FOLDER
python=${PYTHON:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python; } || python=python3

skip() {
  echo "ci/rocm.sh: AMD's run time is not tested here: $*."
  exit 0
}

if [ ! -e "$folder/made" ]; then
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "there is no apt"
  command -v "${CC:-cc}" >/dev/null || skip "there is no C compiler"
  mkdir -p "$folder"
  # HIP 6 runs on the HSA run time of 7, as that of 6 has no door for models
  if ! ci/unpack_debs.sh --suites "sid experimental" "$folder/unpacking.$$" \
    libamdhip64-6 libamdhip64-7 >"$folder/log" 2>&1; then
    rm -rf "$folder/unpacking.$$"
    skip "its packages cannot be had from Debian ($(tail -n 1 "$folder/log"))"
  fi
  if mv -T "$folder/unpacking.$$" "$folder/system" 2>/dev/null; then
    touch "$folder/made"
  else # another process was faster
    rm -rf "$folder/unpacking.$$"
  fi
fi
[ "${1:-}" != --prepare ] || exit 0

rig() { "$python" tests/rocm_rig/rig.py "$@"; }
if [ $# -gt 1 ]; then
  on=$(rig "$1" "$2")
  shift 2
  exec "$on" "$@"
fi

jobs=${XTARGET_TEST_JOBS:-$(nproc)}
[ "$jobs" -le 4 ] || jobs=4
arguments=(-q)
if [ "$jobs" -gt 1 ] && "$python" -c 'import xdist' >/dev/null 2>&1; then
  arguments+=(-n "$jobs" --dist worksteal)
fi

# where not all are wanted; to the run time kernels of other ways of making them are no others: they
# have the same kinds of parameters, and tests/kernels runs them on the same emulator without it
some="add or softmax or matmul"

suite() { # HIP GPUS PYTEST-ARGUMENT...
  local on
  on=$(rig "$1" "$2")
  echo "+ HIP $1 on $2: pytest ${*:3}" >&2
  "$on" ci/steady.py pytest "${arguments[@]}" --vendor amd "${@:3}"
}

[ "${1:-}" = --suites ] || "$python" ci/steady.py pytest "${arguments[@]}" tests/rocm
if [ -z "${XTARGET_TEST_LONG:-}" ]; then
  suite 7 gfx942 tests/conformance
  suite 7 gfx1100 tests/kernels/test_results.py -k "$some" -m "not long and not large"
  exit 0
fi
for gpu in gfx90a gfx942 gfx950 gfx1100 gfx1201; do
  suite 7 "$gpu" tests/conformance
  [ "$gpu" = gfx950 ] || suite 6 "$gpu" tests/conformance # which HIP 6.4.3 does not know
  suite 7 "$gpu" tests/kernels/test_results.py tests/kernels/test_cli_run.py
done
