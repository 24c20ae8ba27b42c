#!/usr/bin/env bash
# The AMD driver on every supported hip-python: one virtual environment for each, the same tests.
#
#   ci/hip_matrix.sh [VERSION...]     default: 6.4 7.2 10.0
#
# There is no GPU in this: the tests call the real hip-python into a strict stand-in for
# libamdhip64.so (tests/hip_standin), into AMD's own (tests/rocm_rig), and into the emulator's
# (XTARGET_EMULATOR_HIP=library), which executes the kernels. Needs a C compiler and the package
# registry.
#
# XTARGET_HIP_VENVS=FOLDER   where the environments are kept (default: build/hip)
# XTARGET_HIP_KERNELS=ARCHS  archs for the kernels' results (default: gfx942; all that the `kernels`
#                            tier has: "gfx1100 gfx942"; none: " ")
# PYTHON                     the interpreter that makes them (default: python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ci/_venv.sh
[ $# -gt 0 ] || set -- 6.4 7.2 10.0

ci/rocm.sh --prepare
for version in "$@"; do
  environment "${XTARGET_HIP_VENVS:-build/hip}" hip-python "$version" amd,emulate,compile,test
  "$python" -m pytest -q -m "not long" tests/unit/test_amd_driver.py
  XTARGET_EMULATOR_HIP=library "$python" -m pytest -q -m "not long" --vendor emu \
    tests/conformance tests/emulator/test_library.py
  "$python" -m pytest -q -m "not long" tests/rocm # skipped where ROCm cannot be had
  for arch in ${XTARGET_HIP_KERNELS:-gfx942}; do
    XTARGET_EMULATOR_HIP=library XTARGET_DEVICE=emu:$arch "$python" -m pytest -q -m "not long" \
      tests/kernels/test_results.py tests/kernels/test_cli_run.py
  done
done
