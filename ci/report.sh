#!/usr/bin/env bash
# Join what the jobs of a workflow wrote: a table, and a badge as a picture and for shields.io.
#
#   ci/report.sh REPORTS OUT     REPORTS has a folder for each job (XTARGET_TEST_REPORTS)
#
# Ends with 1 where a test failed or a result was wrong. On GitHub the table is the run's summary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# = 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
python=${PYTHON:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python; } || python=python3
mkdir -p "$2"
status=0
"$python" -m xtarget ci merge "$1" -o "$2/summary.md" --badge "$2/badge.svg" || status=$?
[ "$status" -le 1 ] && [ -f "$2/summary.md" ] || exit "$status"
"$python" -m xtarget ci merge "$1" -o "$2/summary.md" --badge "$2/badge.json" || status=$?
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$2/summary.md" >>"$GITHUB_STEP_SUMMARY"
exit "$status"
