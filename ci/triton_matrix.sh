#!/usr/bin/env bash
# The Triton back end on every supported Triton: one virtual environment for each, the same tests.
#
#   ci/triton_matrix.sh [VERSION...]     default: 3.6 3.7 3.8
#
# The newest Triton is what every other job has. Needs the package registry; runs on the CPU.
#
# XTARGET_TRITON_VENVS=FOLDER   where the environments are kept (default: build/triton)
# PYTHON                        the interpreter that makes them (default: python3)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || set -- 3.6 3.7 3.8
folder=${XTARGET_TRITON_VENVS:-build/triton}
unset PYTHONPATH PYTHONHOME

for version in "$@"; do
  venv=$folder/$version
  python=$venv/bin/python
  [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check "triton==$version.*" \
    --editable ".[cpu,compile,test]"
  echo "Triton $("$python" -c 'from importlib.metadata import version; print(version("triton"))')"
  "$python" -m pytest -q -m "not long" --vendor cpu \
    tests/interop/test_triton_{backend,door,programs}.py
done
