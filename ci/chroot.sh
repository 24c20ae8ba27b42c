#!/usr/bin/env bash
# Run a command in a clean Debian that has nothing of ours, with this checkout in /checkout, for
# machines without a container engine. Needs root and debootstrap; for another processor also
# qemu-user-static, whose emulation the kernel knows by binfmt_misc.
#
#   ci/chroot.sh ROOT SUITE ARCH COMMAND...
#   ci/chroot.sh /tmp/trixie trixie amd64 ci/release.sh check dist/xtarget-*.whl
#
# ROOT is made if it is not there: Debian's base, Python with venv and pip, and what PACKAGES names.
set -euo pipefail
if [ $# -lt 4 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
root=$(realpath -m "$1") suite=$2 arch=$3
shift 3
checkout=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")

if [ ! -e "$root/.made" ]; then
  packages=python3,python3-venv,python3-pip,ca-certificates${PACKAGES:+,$PACKAGES}
  debootstrap --arch="$arch" --variant=minbase --include="$packages" "$suite" "$root" \
    "${MIRROR:-http://deb.debian.org/debian}" >&2
  touch "$root/.made"
fi
mkdir -p "$root/checkout"
# a mount namespace of its own: nothing is left mounted
exec unshare --mount --propagation private bash -c '
  root=$1 checkout=$2
  shift 2
  mount --bind "$checkout" "$root/checkout"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  for file in /etc/resolv.conf ${PIP_CERT:-}; do cp -L "$file" "$root$file"; done
  exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHON="${PYTHON:-python3}" PYTHONDONTWRITEBYTECODE=1 ${PIP_CERT:+PIP_CERT="$PIP_CERT"} \
    ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
    bash -euc "cd /checkout; exec \"\$@\"" command "$@"
' chroot "$root" "$checkout" "$@"
