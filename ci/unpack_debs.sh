#!/usr/bin/env bash
# Unpack Debian packages, with all they need, into a folder: no root, nothing is installed.
#
#   ci/unpack_debs.sh FOLDER PACKAGE...
#
#   intel-opencl-icd   ocloc, Intel's offline compiler for GPUs
#   oclgrind           an OpenCL device that checks every access to memory
#
# Prints the variables that make the unpacked programs and libraries work. For OpenCL run times the
# folder gets `vendors`, to be named by OCL_ICD_VENDORS.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
debs=$(mktemp -d)
trap 'rm -rf "$debs"' EXIT
mapfile -t packages < <(
  apt-get install --simulate --no-install-recommends "$@" | sed -n 's/^Inst \([^ ]*\) .*/\1/p'
)
[ ${#packages[@]} -gt 0 ] || packages=("$@") # installed already: unpack the packages alone
(cd "$debs" && apt-get download -qq "${packages[@]}")
for deb in "$debs"/*.deb; do
  dpkg -x "$deb" "$folder"
done
# the folder of the architecture, and those below it that have libraries of their own
libraries=$(find "$folder"/usr/lib/*-linux-gnu -maxdepth 2 -name 'lib*.so*' -printf '%h\n' |
  sort -u | paste -sd:)
mkdir -p "$folder/vendors"
for icd in "$folder"/etc/OpenCL/vendors/*.icd; do
  [ -e "$icd" ] || continue
  name=$(basename "$(head -1 "$icd")")
  find "$folder/usr/lib" -name "$name" -print -quit >"$folder/vendors/$(basename "$icd")"
done
echo "export LD_LIBRARY_PATH=$libraries\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
echo "export PATH=$folder/usr/bin:\$PATH"
