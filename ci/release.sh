#!/usr/bin/env bash
# What .github/workflows/release.yml does; people run the same steps.
#
#   ci/release.sh sdist DIR          the source distribution, into DIR
#   ci/release.sh wheel DIR          one wheel of this machine's Python, made from the sdist in DIR
#   ci/release.sh wheels DIR         manylinux wheels of the stable ABI, by cibuildwheel (needs Docker)
#   ci/release.sh check FILE         FILE in a new virtual environment: installs, lists, core is C;
#                                    in a clean system by ci/chroot.sh
#   ci/release.sh bundle FILE [OPTION...]   a bundle for four vendors' targets, signed and read back
#
# PYTHON           the interpreter; default .venv/bin/python, or python3 where there is none
# RELEASE_KEY      for bundle: the file with the Ed25519 private key (PEM) that signs
set -euo pipefail
step=${1:-} out=${2:-}
if [ -z "$step" ] || [ -z "$out" ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
shift 2
out=$(realpath -m "$out")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-$([ -x .venv/bin/python ] && echo "$PWD/.venv/bin/python" || echo python3)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $step in
sdist)
  "$python" -m hatchling build -t sdist -d "$out"
  ;;
wheel)
  tar -xzf "$out"/xtarget-*.tar.gz -C "$work"
  (cd "$work"/xtarget-* && XTARGET_BUILD_CORE=1 "$python" -m hatchling build -t wheel -d "$out")
  ;;
wheels)
  "$python" -m cibuildwheel --output-dir "$out"
  ;;
check)
  "$python" -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$out"
  cd "$work" # not the checkout, whose packages would be imported
  "$work/venv/bin/xtarget" --version
  "$work/venv/bin/xtarget" kernels add > /dev/null
  "$work/venv/bin/python" -I -c "
import xtarget, xtarget._core as core
from pathlib import Path
assert Path(xtarget.__file__).is_relative_to('$work'), xtarget.__file__
assert core.told() == 'c', core.told()
"
  echo "checked: $(basename "$out")"
  ;;
bundle)
  key=${RELEASE_KEY:?names no file: set it to the Ed25519 private key that signs}
  "$python" -m xtarget bundle build -o "$out" --sign "$key" \
    --target nvidia:sm_80,nvidia:sm_90,amd:gfx942,amd:gfx1100,intel:spirv64,cpu "$@"
  "$python" -m xtarget bundle verify "$out"
  ;;
*)
  echo "there is no step '$step'; there are sdist, wheel, wheels, check, bundle" >&2
  exit 2
  ;;
esac
