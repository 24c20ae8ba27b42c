#!/usr/bin/env bash
# Install the tools that no Python package brings. Without one of them, and without the right to
# install it, the tests say so and do what they can:
#
#   spirv-val      the validator of SPIR-V binaries; else only their structure is checked
#   redis-server   a real server for the tests of the remote cache; else those tests are skipped
#   cc             a C compiler for the code of `bundle emit-c`; else those tests are skipped
#   clang          libFuzzer (ci/fuzz.sh); else nothing is fuzzed but by seeded changes. Not installed: 300 MB
#   Debian's keys  for packages of AMD's run time (ci/rocm.sh); else it is not tested
set -euo pipefail
sudo=()
if [ "$(id -u)" -ne 0 ]; then sudo=(sudo -n); fi
updated=
export DEBIAN_FRONTEND=noninteractive

install() {
  command -v apt-get >/dev/null || return 1
  "${sudo[@]}" apt-get install -y -qq "$1" >/dev/null 2>&1 && return 0
  [ -z "$updated" ] || return 1
  updated=1
  "${sudo[@]}" apt-get update -qq >/dev/null 2>&1 || return 1
  "${sudo[@]}" apt-get install -y -qq "$1" >/dev/null 2>&1
}

missing=
need() { # TOOL PACKAGE WHAT-ELSE
  if command -v "$1" >/dev/null || { install "$2" && command -v "$1" >/dev/null; }; then return 0; fi
  echo "$1 is not here and could not be installed (apt install $2): $3." >&2
  missing=1
}

need spirv-val spirv-tools "SPIR-V binaries are checked for their structure only"
need redis-server redis-server "the tests of the remote cache with a Redis server are skipped"
need cc gcc "the tests that compile C code are skipped"
command -v clang >/dev/null || echo "clang is not here (apt install clang): libFuzzer does not run." >&2
for tool in clang-14 llvm-spirv-14; do # not every release has them
  command -v $tool >/dev/null || install $tool ||
    echo "$tool is not here and could not be installed: the route clang is tested without it." >&2
done
keys=/usr/share/keyrings/debian-archive-keyring
if [ ! -e $keys.gpg ] && [ ! -e $keys.pgp ] && ! install debian-archive-keyring; then
  echo "Debian's keys could not be installed (apt install debian-archive-keyring): AMD's run time is" \
    "not tested."
  missing=1
fi
if [ -n "$missing" ] && [ -n "${XTARGET_REQUIRE_TOOLS:-}" ]; then exit 1; fi
