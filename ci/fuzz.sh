#!/usr/bin/env bash
# Fuzz what libxtarget reads (bundles, call records, answers of compile servers) with libFuzzer and
# the address and undefined-behaviour sanitizers.
#
#   ci/fuzz.sh [-s SECONDS | -n RUNS] [-o FOLDER] [BUNDLE]
#
#   -s SECONDS   how long; default 600
#   -n RUNS      so many runs of seed 1 instead, the same each time
#   -o FOLDER    where program, inputs and what ends the program (crash-...) lie; default build/fuzz
#   BUNDLE       whose parts are the first inputs; default: one of relu for the CPU, built for it
#
# `FOLDER/program FILE` runs one input again. Without clang: one line, and exit 3.
# PYTHON: the interpreter; default .venv/bin/python, or python3 where there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=build/fuzz limits=(-max_total_time=600)
while getopts s:n:o: option; do
  case "$option" in
    s) limits=(-max_total_time="$OPTARG") ;;
    n) limits=(-runs="$OPTARG" -seed=1) ;;
    o) folder=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if ! command -v clang >/dev/null; then
  echo "clang is not here, and libFuzzer is its: nothing is fuzzed (apt install clang)." >&2
  exit 3
fi
python=${PYTHON:-}
[ -n "$python" ] || { [ -x .venv/bin/python ] && python=.venv/bin/python; } || python=python3
mkdir -p "$folder/corpus"
bundle=${1:-}
if [ -z "$bundle" ]; then
  bundle=$folder/relu.xtb
  "$python" -m xtarget bundle build -o "$bundle" --kernel relu --target cpu
fi
clang -std=c11 -Wall -Wextra -Werror -O1 -g -DLIBFUZZER '-DXT_VERSION="fuzz"' \
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
  -Isrc/libxtarget/include -Isrc/libxtarget -Isrc/xtarget/_core \
  tests/c_library/fuzz.c src/libxtarget/*.c src/xtarget/_core/program.c \
  -lz -lcrypto -ldl -lpthread -lm -o "$folder/program"
"$python" ci/fuzz_inputs.py "$bundle" "$folder/corpus"
cd "$folder"
exec ./program "${limits[@]}" -max_len=131072 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 corpus
