#!/usr/bin/env bash
# Install the one tool that no Python package brings: spirv-val, the validator of SPIR-V binaries.
# Without it, and without the right to install it, the tests say so and check the structure only.
set -euo pipefail
if command -v spirv-val >/dev/null; then exit 0; fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then sudo=(sudo -n); fi
if command -v apt-get >/dev/null && { "${sudo[@]}" apt-get install -y -qq spirv-tools ||
  { "${sudo[@]}" apt-get update -qq && "${sudo[@]}" apt-get install -y -qq spirv-tools; }; } \
  >/dev/null 2>&1; then
  exit 0
fi
echo "spirv-val could not be installed (apt install spirv-tools, dnf install spirv-tools):" \
  "SPIR-V binaries are checked for their structure only." >&2
[ -z "${XTARGET_REQUIRE_TOOLS:-}" ] || exit 1
