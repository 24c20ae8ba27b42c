#!/usr/bin/env bash
# Unpack Debian packages, with all they need, into a folder: no root, nothing is installed.
#
#   ci/unpack_debs.sh [--suites "SUITE..."] FOLDER PACKAGE...
#
#   intel-opencl-icd   ocloc, Intel's offline compiler for GPUs
#   oclgrind           an OpenCL device that checks every access to memory
#
# SUITES are of another Debian than this machine's, the preferred one last ("sid experimental"). Its
# packages bring all that they need, libc included: nothing of this machine counts as installed.
# They come from DEBIAN_MIRROR, or this machine's mirror, or deb.debian.org.
#
# Prints the variables that make the unpacked programs and libraries work. For OpenCL run times the
# folder gets `vendors`, to be named by OCL_ICD_VENDORS.
set -euo pipefail
suites=
if [ "${1:-}" = --suites ]; then
  suites=${2:-}
  shift 2
fi
if [ $# -lt 2 ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
folder=$(mkdir -p "$1" && cd "$1" && pwd)
shift
debs=$(mktemp -d)
trap 'rm -rf "$debs"' EXIT

# apt for other suites: settings of its own beside this machine's, which stay as they are
if [ -n "$suites" ]; then
  apt=$debs/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  touch "$apt/status"
  mirror=${DEBIAN_MIRROR:-}
  if [ -z "$mirror" ] && grep -qi '^ID=debian' /etc/os-release; then
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
      sed -nE 's/^(URIs:|deb( \[[^]]*\])?) *(https?:[^ ]*\/debian)\/?( .*)?$/\3/p' | head -1 || true)
  fi
  keys=$(ls /usr/share/keyrings/debian-archive-keyring.* 2>/dev/null | head -1 || true)
  if [ -z "$keys" ]; then
    echo "there are no keys of Debian's (apt install debian-archive-keyring)" >&2
    exit 1
  fi
  for suite in $suites; do
    echo "deb [arch=amd64 signed-by=$keys] ${mirror:-http://deb.debian.org/debian} $suite main"
  done >"$apt/sources"
  cat >"$apt/conf" <<END
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::SourceList "$apt/sources";
Dir::Etc::SourceParts "-";
Dir::Etc::Preferences "$apt/none";
Dir::Etc::PreferencesParts "$apt/archives";
APT::Architecture "amd64";
APT::Default-Release "${suites##* }";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
END
  export APT_CONFIG=$apt/conf
  apt-get update -qq --error-on=any >&2
fi
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
