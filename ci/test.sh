#!/usr/bin/env bash
# Run test tiers; CI and people call the same.
#
#   ci/test.sh [-n] TIER[,TIER...] [VENDOR]
#
#   lint         ruff check, ruff format, mypy --strict
#   unit         tests/unit: no device, no Triton needed
#   compile      Triton to binaries, no GPU needed
#   conformance  the same tests for every vendor's driver
#   kernels      results against NumPy in float64
#   emulator     AMD's code objects for five archs, executed on the CPU
#   interop      arrays and streams of other libraries (torch, CuPy, dpctl); launches in Python once
#                more, as where there is no compiled core
#   docs         the README's and the examples' code
#   binaries     every kernel for every target of ci/matrix.toml, and a check of each binary
#   emulated     conformance and kernels on emulated AMD GPUs, as `conformance,kernels emu` does
#   hip          the driver on each supported hip-python (ci/hip_matrix.sh; installs them)
#   rocm         the AMD driver on AMD's own HIP and HSA run time, no GPU (ci/rocm.sh; unpacks ROCm)
#   oldest       NVIDIA's kernels and the front end on the oldest Triton (ci/oldest_triton.sh)
#   tritons      the Triton back end on each older Triton (ci/triton_matrix.sh; installs them)
#   pocl         conformance, kernels and the SPIR-V compiler on PoCL (ci/pocl.sh; makes a Debian 13)
#   verify       `xtarget verify` of some kernels, whose report CI joins into the support table
#   all          all of them but hip, tritons and pocl
#
# VENDOR (nvidia, amd, intel, cpu) restricts the tests to one vendor's devices; emu to emulated AMD
# GPUs (gfx1100 and gfx942, all five with the long tests); `none` to no device at all. Without it:
# every device there is, and none that is emulated.
# -n prints the commands instead of running them.
#
# XTARGET_TEST_LONG=1   the long tests too
# XTARGET_TEST_SEED=N   another sample of the families of which the short form runs a part (0)
# XTARGET_TEST_JOBS=N   N test processes (default: one for each of up to 4 CPUs; GPUs: 1)
# XTARGET_TEST_REPORTS=DIR  JUnit files and the report of verify go there (`xtarget ci merge DIR`)
# PYTHON                the interpreter; default .venv/bin/python, or python3 where there is none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }

dry=
show() {
  local line
  printf -v line ' %q' "$@"
  printf '%s\n' "${line# }"
}
step=
run() {
  if [ -n "$dry" ]; then show "$@"; else
    step=$(show "$@")
    show + "$@" >&2
    "$@"
    step=
  fi
}
# the last line: what happened, in words
finish() {
  local status=$?
  [ -z "${typing:-}" ] || kill "$typing" 2>/dev/null || true
  "$python" ci/test_summary.py "$tiers" "$status" "$SECONDS" "$XTARGET_TEST_SUMMARY" "$step" || true
  rm -rf "$work"
}
if [ "${1:-}" = -n ]; then
  dry=1
  shift
fi
case "${1:-}" in -h | --help) usage && exit 0 ;; esac
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  usage >&2
  exit 2
fi
tiers=$1 vendor=${2:-}
case "$vendor" in "" | none | nvidia | amd | intel | cpu | emu) ;; *)
  echo "ci/test.sh: $vendor is not a vendor; there are nvidia, amd, intel, cpu, emu and none." >&2
  exit 2
  ;;
esac

python=${PYTHON:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python; } || python=python3

lint= binaries= emulated= hip= rocm= oldest= tritons= pocl= twin= verify= paths=()
for tier in ${tiers//,/ }; do
  case "$tier" in
    lint) lint=1 ;;
    binaries) binaries=1 ;;
    unit | conformance | emulator | docs) paths+=("tests/$tier") ;;
    interop) twin=1 paths+=(tests/interop) ;;
    compile) paths+=(tests/compile tests/c_abi tests/c_library tests/kernels/test_compile.py) ;;
    kernels) paths+=(tests/kernels) ;;
    verify) verify=1 ;;
    emulated) emulated=1 ;;
    hip) hip=1 ;;
    rocm) rocm=1 paths+=(tests/rocm) ;;
    oldest) oldest=1 ;;
    tritons) tritons=1 ;;
    pocl) pocl=1 ;;
    all) lint=1 binaries=1 emulated=1 rocm=1 oldest=1 twin=1 verify=1 paths+=(tests) ;;
    *)
      echo "ci/test.sh: $tier is not a tier; there are lint, unit, compile, conformance, kernels," \
        "emulator, emulated, interop, docs, verify, binaries, hip, rocm, oldest, tritons, pocl and all." >&2
      exit 2
      ;;
  esac
done

if [ -z "$dry" ]; then
  work=$(mktemp -d)
  export XTARGET_TEST_SUMMARY=$work/summary
  trap finish EXIT
  # where PYTHONDONTWRITEBYTECODE is set, each of the hundreds of processes that tests start would
  # compile xtarget's sources once more: half of the time that one needs
  "$python" -m compileall -q -j 0 src kernels tests
fi
if [ -n "$lint" ]; then
  run "$python" -m ruff check .
  run "$python" -m ruff format --check .
  if [ -n "$dry" ]; then show "$python" -m mypy; else # beside the processes of what follows
    show + "$python" -m mypy >&2
    "$python" -m mypy &
    typing=$!
  fi
  ! command -v cc >/dev/null || run "$python" hatch_build.py --werror
fi
# first, as what it unpacks has a disassembler for check_binaries.py
[ -z "$rocm" ] || run ci/rocm.sh --prepare
# tests/conftest.py has the same folder: what `binaries` and `verify` compile serves the tests
cache=${XTARGET_CACHE_DIR:-$PWD/.pytest_cache/xtarget}
if [ -n "$binaries" ]; then
  out=OUT
  [ -n "$dry" ] || out=$work/binaries
  XTARGET_CACHE_DIR=$cache run "$python" ci/compile_all.py ${XTARGET_TEST_LONG:+--long} -o "$out"
  run "$python" ci/check_binaries.py ${XTARGET_REQUIRE_TOOLS:+--require-spirv-val} "$out"
fi
if [ -n "${typing:-}" ]; then
  step="$python -m mypy"
  wait "$typing"
  step= typing=
fi
[ -z "$hip" ] || run ci/hip_matrix.sh
[ -z "$tritons" ] || run ci/triton_matrix.sh
[ -z "$pocl" ] || run ci/pocl.sh
if [ -n "$verify" ]; then
  out=OUT
  [ -n "$dry" ] || { out=${XTARGET_TEST_REPORTS:-$work} && mkdir -p "$out"; }
  some=(--dtype float32 add exp gelu where sum argmax softmax layer_norm matmul cumsum)
  [ -z "${XTARGET_TEST_LONG:-}" ] || some=()
  XTARGET_CACHE_DIR=$cache run "$python" -m xtarget verify --quick "${some[@]}" --report "$out/verify.json" \
    ${vendor:+--device "$vendor"}
fi
[ ${#paths[@]} -gt 0 ] || [ -n "$emulated$oldest" ] || exit 0

jobs=${XTARGET_TEST_JOBS:-}
if [ -z "$jobs" ]; then
  jobs=$(nproc 2>/dev/null || echo 1)
  [ "$jobs" -le 4 ] || jobs=4
  case "$vendor" in nvidia | amd | intel) jobs=1 ;; esac
fi
# the tests of all folders also wait: for limits, for locks, for processes that end. One process
# more than there are CPUs fills that time, where there are 4 GB of memory for each of them
most=$jobs
if [ -z "${XTARGET_TEST_JOBS:-}" ] && [ "$jobs" -gt 1 ]; then
  kilobytes=$("$python" ci/memory.py) # of this container
  [ "${kilobytes:-0}" -lt $(((jobs + 1) * 4000000)) ] || most=$((jobs + 1))
fi
arguments=() main=()
[ -n "${XTARGET_TEST_LONG:-}" ] || main=(-m "not long")
arguments+=("${main[@]}")
if [ "$jobs" -gt 1 ] && "$python" -c 'import xdist' >/dev/null 2>&1; then
  arguments+=(-n "$jobs" --dist loadfile)
  main+=(-n "$most" --dist loadfile)
fi
if [ ${#paths[@]} -gt 0 ]; then
  run "$python" ci/steady.py pytest -q "${main[@]}" ${vendor:+--vendor "$vendor"} "${paths[@]}"
fi
if [ -n "$twin" ]; then
  run env XTARGET_CORE=python "$python" ci/steady.py pytest -q "${arguments[@]}" \
    ${vendor:+--vendor "$vendor"} -k "not random" tests/interop/test_prepared.py \
    tests/interop/test_new_shapes.py tests/interop/test_overlaps.py
fi
if [ -n "$emulated" ]; then # where it is "loadfile", one file would take one process all the time
  run "$python" ci/steady.py pytest -q "${arguments[@]/loadfile/worksteal}" --vendor emu tests/conformance \
    tests/kernels/test_results.py tests/kernels/test_cli_run.py
  # on one arch in the short form; AMD's own HIP has the other one (ci/rocm.sh)
  fewer=()
  [ -n "${XTARGET_TEST_LONG:-}" ] || fewer=(-k "not gfx942")
  run env XTARGET_EMULATOR_HIP=library "$python" ci/steady.py pytest -q "${arguments[@]/loadfile/worksteal}" \
    --vendor emu "${fewer[@]}" tests/conformance
fi
[ -z "$rocm" ] || run ci/rocm.sh --suites
[ -z "$oldest" ] || run env PYTHON="$python" ci/oldest_triton.sh
