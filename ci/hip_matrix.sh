#!/usr/bin/env bash
# The AMD driver on every supported hip-python: one virtual environment for each, the same tests.
#
#   ci/hip_matrix.sh [VERSION...]     default: 6.4 7.2 10.0
#
# There is no GPU in this: the tests call the real hip-python into a strict stand-in for
# libamdhip64.so (tests/hip_standin), and into the emulator's (XTARGET_EMULATOR_HIP=library), which
# executes the kernels. Needs a C compiler and the package registry.
#
# XTARGET_HIP_VENVS=FOLDER   where the environments are kept (default: build/hip)
# PYTHON                     the interpreter that makes them (default: python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || set -- 6.4 7.2 10.0
folder=${XTARGET_HIP_VENVS:-build/hip}
unset PYTHONPATH PYTHONHOME

for version in "$@"; do
  venv=$folder/$version
  python=$venv/bin/python
  [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check "hip-python==$version.*" \
    --editable ".[amd,emulate,compile,test]"
  echo "hip-python $("$python" -c 'from importlib.metadata import version; print(version("hip-python"))')"
  "$python" -m pytest -q -m "not long" tests/unit/test_amd_driver.py
  XTARGET_EMULATOR_HIP=library "$python" -m pytest -q -m "not long" --vendor emu \
    tests/conformance tests/emulator/test_library.py
done
