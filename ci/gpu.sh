#!/usr/bin/env bash
# The NVIDIA part from a bare checkout: no pip, no network, nothing installed but what python3 has
# (pytest, Triton, cuda.core, NumPy; torch and CuPy for the tests with foreign arrays).
#
#   ci/gpu.sh               conformance, kernel results, foreign arrays, C functions, demo, benchmarks
#   ci/gpu.sh conformance kernels     only these steps
#
# OUT=folder keeps logs and benchmark figures there (default: a temporary folder).
# XTARGET_TEST_LONG=1 runs the long tests too. Ends with a table; exit code 1 if a step failed, at
# once if there is no device.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
export PYTHONPATH=$PWD/src${PYTHONPATH:+:$PYTHONPATH}
# a cache of its own: what an earlier version compiled proves nothing
export XTARGET_CACHE_DIR=${XTARGET_CACHE_DIR:-$(mktemp -d)}
python=${PYTHON:-python3}
steps=${*:-devices conformance kernels interop c_abi demo benchmarks}

if ! "$python" -c 'import pytest' 2>/dev/null; then
  echo "ci/gpu.sh: $python has no pytest. Bring it as a wheel: python3 -m pip install --no-index" \
    "--find-links WHEELS --target SITE pytest, and put SITE on PYTHONPATH." >&2
  exit 1
fi

tests() { "$python" -m pytest -q --vendor nvidia "${marks[@]}" "$@"; }
marks=(-m "not long")
[ -z "${XTARGET_TEST_LONG:-}" ] || marks=()
step_devices() {
  "$python" -m xtarget devices &&
    "$python" -m xtarget devices --json | grep -q '"name": "nvidia:0"'
}
step_conformance() { tests tests/conformance; }
step_kernels() { tests tests/kernels; }
step_interop() { tests tests/interop; }
# Bundles on this GPU: C functions of its own binaries, the same from the PTX of an older chip, and
# Python from a bundle alone.
step_c_abi() {
  local folder targets
  folder=$(mktemp -d)
  for targets in nvidia:sm_80,nvidia:sm_90 nvidia:sm_80; do
    echo "--- $targets"
    "$python" -m xtarget bundle build -o "$folder/kernels.xtb" --target "$targets" \
      --kernel add,gelu,softmax,sum,matmul &&
      "$python" -m xtarget bundle emit-c "$folder/kernels.xtb" -o "$folder" &&
      gcc -std=c11 -O2 -Wall -Wextra -Werror -o "$folder/main" -I"$folder" tests/c_abi/main.c \
        "$folder/xtarget_kernels.c" -ldl -lpthread -lm &&
      "$folder/main" || return 1
  done
  echo "--- Python, from the bundle of an older chip and no compiler"
  XTARGET_CACHE_DIR=$folder/cache XTARGET_BUNDLES=$folder/kernels.xtb "$python" -c '
import sys
sys.modules["triton"] = None
import numpy as np, xtarget
a = np.random.default_rng(0).standard_normal((1000, 512), dtype=np.float32)
np.testing.assert_allclose(xtarget.run("add", a, a, device="nvidia"), a + a)
e = np.exp(a)
r = e / e.sum(1, keepdims=True)
np.testing.assert_allclose(xtarget.run("softmax", a, device="nvidia"), r, rtol=1e-4)
print("right, from PTX")
' || return 1
  rm -rf "$folder"
}
step_demo() { XTARGET_DEVICE=nvidia:0 "$python" examples/demo.py; }
step_benchmarks() { # those that have something to say of a GPU
  local bench
  for bench in kernels launch shapes start; do
    echo "--- benchmarks/bench_$bench.py"
    "$python" "benchmarks/bench_$bench.py" || return 1
  done
}

"$python" -m xtarget info
table= failed=0
for step in $steps; do
  if ! declare -F "step_$step" >/dev/null; then
    echo "ci/gpu.sh: $step is not a step; there are devices conformance kernels interop c_abi" \
      "demo benchmarks." >&2
    exit 2
  fi
  echo "=== $step"
  start=$SECONDS
  if "step_$step" 2>&1 | tee "$out/$step.log"; then result=passed; else
    result=FAILED
    failed=1
  fi
  last=$(grep -E '(passed|failed|error).* in [0-9.]+' "$out/$step.log" | tail -n 1)
  printf -v table '%s%-12s %-7s %5d s  %s\n' "$table" "$step" "$result" $((SECONDS - start)) "$last"
  if [ "$step" = devices ] && [ "$result" = FAILED ]; then
    echo "ci/gpu.sh: there is no nvidia:0 here, and every other step needs it; it stops." >&2
    break
  fi
done
echo "=== summary, logs in $out"
printf '%s' "$table"
exit $failed
