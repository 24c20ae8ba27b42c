#!/usr/bin/env bash
# The Triton back end, the kernel library's CPU code and AMD's atomics on every supported Triton: one
# virtual environment for each, the same tests.
#
#   ci/triton_matrix.sh [VERSION...]     default: 3.6 3.7 3.8
#
# The newest Triton is what every other job has. Needs the package registry; runs on the CPU.
#
# XTARGET_TRITON_VENVS=FOLDER   where the environments are kept (default: build/triton)
# PYTHON                        the interpreter that makes them (default: python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ci/_venv.sh
[ $# -gt 0 ] || set -- 3.6 3.7 3.8

for version in "$@"; do
  environment "${XTARGET_TRITON_VENVS:-build/triton}" triton "$version" cpu,compile,emulate,test
  "$python" -m pytest -q -m "not long" --vendor cpu \
    tests/interop/test_triton_{backend,door,programs}.py \
    tests/compile/test_{spirv_vectors,spirv_language,library_functions}.py tests/kernels/test_results.py
  # these Tritons compare signed numbers as unsigned ones here (targets/amd/signed_atomics.py)
  XTARGET_TEST_LONG=1 "$python" -m pytest -q tests/emulator/test_published_kernels.py \
    -k "shared_addresses and (gfx942 or gfx950)"
  # Gluon's partitions, which call functions in a way of their own
  "$python" -m pytest -q tests/kernels/test_hopper_attention.py -k tiles_stay
  # Triton 3.6 cannot lower these for AMD (targets/_triton/front_end_fixes.py)
  "$python" -m pytest -q tests/emulator/test_language.py -k exchanges
done
