#!/usr/bin/env bash
# Make the virtual environment .venv in this checkout and install xtarget (editable) with EXTRAS.
#
#   ci/setup.sh                  the library alone
#   ci/setup.sh cpu,compile      with extras of pyproject.toml
#   ci/setup.sh auto             cpu,compile, and nvidia or amd where such a GPU is visible
#   ci/setup.sh venv             the environment alone, with nothing in it
#
# Does nothing when it has been done for this pyproject.toml. PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras=${1:-}

# the variable may point at a source tree of another checkout, which would hide what we install
unset PYTHONPATH PYTHONHOME

if [ "$extras" = auto ]; then
  extras=cpu,compile
  if [ -e /dev/nvidia0 ] || { command -v nvidia-smi && nvidia-smi -L | grep -q GPU; } \
    >/dev/null 2>&1; then
    extras=$extras,nvidia
  fi
  if [ -e /dev/kfd ]; then extras=$extras,amd; fi
fi

usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
python=${PYTHON:-}
if [ -n "$python" ]; then
  usable "$python" || {
    echo "PYTHON=$python is no Python 3.11 or newer, which xtarget needs." >&2
    exit 1
  }
else
  for candidate in python3 python3.13 python3.12 python3.11; do
    if usable "$candidate"; then
      python=$candidate
      break
    fi
  done
fi
if [ -z "$python" ]; then
  echo "xtarget needs Python 3.11 or newer; python3 here is $(python3 -V 2>&1 || true)." \
    "Install a newer one (Debian, Ubuntu: apt install python3.11 python3.11-venv), or name one:" \
    "make demo PYTHON=/path/to/python3" >&2
  exit 1
fi

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ -e .venv ] && ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  echo "Removing .venv, which is damaged or was moved from another folder."
  rm -rf .venv
fi
if [ -e .venv ] && [ "$(.venv/bin/python -c \
  'import sys; print("%d.%d" % sys.version_info[:2])')" != "$version" ] && [ -n "${PYTHON:-}" ]; then
  echo "Making .venv again, for Python $version."
  rm -rf .venv
fi
if [ ! -e .venv ]; then
  echo "Making .venv with Python $version."
  if ! message=$("$python" -m venv .venv 2>&1); then
    rm -rf .venv
    echo "$python -m venv .venv failed:" >&2
    echo "$message" | sed 's/^/  /' >&2
    echo "On Debian and Ubuntu the module comes with: apt install python$version-venv" >&2
    exit 1
  fi
fi
[ "$extras" != venv ] || exit 0

# what the installation depends on: if none of it changed there is nothing to do
stamp=.venv/.installed-${extras:-base}
state=$({
  pwd -P
  .venv/bin/python -V
  cat pyproject.toml hatch_build.py src/xtarget/_core/*.[ch]
  command -v "${CC:-cc}" || true
} | .venv/bin/python -c 'import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
if [ "$(cat "$stamp" 2>/dev/null)" = "$state" ]; then exit 0; fi

echo "Installing xtarget${extras:+[$extras]} into .venv; the first time this takes some minutes."
rm -f "$stamp"
quiet=()
[ -t 1 ] || quiet=(--quiet)
.venv/bin/python -m pip install "${quiet[@]}" --disable-pip-version-check \
  --editable ".${extras:+[$extras]}" || {
  echo "pip could not install xtarget${extras:+[$extras]}; its message is above. It needs the" \
    "package registry and some GB of disk; run the same command again to go on." >&2
  exit 1
}
echo "$state" >"$stamp"
