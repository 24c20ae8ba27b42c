#!/usr/bin/env bash
# The CPU driver on PoCL: the tests in a Debian 13, whose pocl-opencl-icd takes SPIR-V. (Debian 12's
# and PyPI's are built without.)
#
#   ci/pocl.sh [COMMAND...]     default: the devices, `xtarget run add --check` and the tests
#
# Makes the system in a folder once, with debootstrap, and runs in it, in mounts of its own, with
# this checkout at /src. Needs root (or sudo without a password), 3 GB of disk, a Debian mirror and
# the package registry; says so where one of them is missing.
#
# XTARGET_POCL_ROOT=FOLDER    where the system is kept (default: build/pocl)
# XTARGET_POCL_BINDS="A B"    folders that it sees too, such as a registry on this machine
# DEBIAN_MIRROR               default: http://deb.debian.org/debian
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${XTARGET_POCL_ROOT:-build/pocl}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

cannot() {
  echo "ci/pocl.sh: the tests on PoCL cannot run here: $*" >&2
  exit 1
}

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  sudo=(sudo -n)
  sudo -n true 2>/dev/null || cannot "a Debian in a folder needs root. Run it as root."
fi
"${sudo[@]}" unshare --mount true 2>/dev/null ||
  cannot "this machine lets nobody mount. In a container, start it with --privileged."

if [ ! -e "$folder/made" ]; then
  debootstrap=$("${sudo[@]}" sh -c 'command -v debootstrap') ||
    cannot "there is no debootstrap. Install it with: apt install debootstrap debian-archive-keyring"
  echo "Making a Debian 13 in $folder; that takes some minutes."
  mkdir -p "$folder"
  "${sudo[@]}" "$debootstrap" --variant=minbase \
    --include=python3-venv,ca-certificates,pocl-opencl-icd,spirv-tools \
    trixie "$folder/system" "$mirror" >"$folder/log" 2>&1 ||
    cannot "debootstrap failed; the end of $folder/log: $(tail -n 3 "$folder/log")"
  touch "$folder/made"
fi

if [ $# -eq 0 ]; then
  set -- bash -euc '
    python -m xtarget devices
    python -m xtarget run add --shape 1000x1000 --check
    python -m pytest -q -m "not long" --vendor cpu tests/conformance tests/kernels
    python -m pytest -q -m "not long" --vendor cpu tests/compile/test_spirv*.py
  '
fi
# what follows runs as root, in mounts that end with it
exec "${sudo[@]}" env SYSTEM="$(readlink -f "$folder/system")" SOURCE="$PWD" \
  BINDS="${XTARGET_POCL_BINDS:-}" PIP_CONFIG="${PIP_CONFIG_FILE:-$HOME/.config/pip/pip.conf}" \
  unshare --mount --propagation private bash -euc '
    bind() {
      mkdir -p "$SYSTEM$2"
      mount --rbind "$1" "$SYSTEM$2"
    }
    for kind in /proc /dev /sys; do bind "$kind" "$kind"; done
    for place in $BINDS; do bind "$place" "$place"; done
    bind "$SOURCE" /src
    bind /etc/ssl/certs /etc/ssl/certs
    cp /etc/resolv.conf /etc/hosts "$SYSTEM/etc/" 2>/dev/null || true
    config=/dev/null
    if [ -f "$PIP_CONFIG" ]; then
      cp "$PIP_CONFIG" "$SYSTEM/etc/pip.conf"
      config=/etc/pip.conf
    fi
    exec chroot "$SYSTEM" env -i HOME=/root PATH=/venv/bin:/usr/bin:/bin LANG=C.UTF-8 \
      PIP_CONFIG_FILE="$config" SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
      XTARGET_PROBE_SECONDS=60 PYTHONDONTWRITEBYTECODE=1 PYTEST_ADDOPTS="-p no:cacheprovider" bash -euc '\''
        cd /src
        if [ ! -e /venv/made ]; then
          python3 -m venv /venv
          python -m pip install --quiet --disable-pip-version-check "pyopencl>=2024.2" \
            --editable ".[compile,test]"
          touch /venv/made
        fi
        "$@"
      '\'' pocl "$@"
  ' pocl "$@"
