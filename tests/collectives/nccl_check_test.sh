#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cinch nccl-check` in the environments that users have: what it says, and its exit code.
#
#   nccl_check_test.sh TOOL INTERPOSER DOUBLE NAMELESS_DOUBLE
# DOUBLE says that it is version DOUBLE_NCCL_VERSION, NAMELESS_DOUBLE does not tell.
set -euo pipefail
tool=$1 interposer=$2 double=$3 nameless=$4
export CINCH_LOG=off
unset CINCH_NCCL_LIB CINCH_POLICY

# expect STATUS PATTERN [SETTING=VALUE]... [-- ARGUMENT...]: PATTERN is in what it writes.
expect() {
  local wanted=$1 pattern=$2 status=0 output settings=()
  shift 2
  while (($#)) && [[ $1 != -- ]]; do settings+=("$1"); shift; done
  shift || true
  output=$(env "${settings[@]}" "$tool" nccl-check "$@" 2>&1) || status=$?
  if [[ $status != "$wanted" ]] || ! grep -q -e "$pattern" <<<"$output"; then
    echo "nccl_check_test: ${settings[*]} -- $*: status $status, wanted $wanted and '$pattern' in:" >&2
    echo "$output" >&2
    exit 1
  fi
}

preload=LD_PRELOAD=$interposer
behind=CINCH_NCCL_LIB=$double

expect 0 "Exit codes" -- --help
expect 2 "not expected" -- unexpected
expect 2 "--nonsense" -- --nonsense

expect 0 "^programs linked with NCCL  *intercepted" "$preload" "$behind"
expect 0 "^programs that load libnccl.so.2  *intercepted" "$preload" "$behind"
expect 0 "libcinch_nccl_double.so (2.28.9)" "$preload" "$behind"
# By the search path alone: programs that load it by its name get it.
expect 0 "^programs linked with NCCL  *not intercepted" "$behind" "LD_LIBRARY_PATH=$(dirname "$interposer")"

# Versions: the oldest, the newest and those beyond.
expect 0 "(2.28.0)" "$preload" "$behind" DOUBLE_NCCL_VERSION=22800
expect 6 "2.27.7 is older than 2.28.0" "$preload" "$behind" DOUBLE_NCCL_VERSION=22707
expect 6 "2.8.4 is older than 2.28.0" "$preload" "$behind" DOUBLE_NCCL_VERSION=2804
expect 0 "(2.30.7)" "$preload" "$behind" DOUBLE_NCCL_VERSION=23007
expect 0 "2.31.0 is newer than 2.30.7" "$preload" "$behind" DOUBLE_NCCL_VERSION=23100
expect 0 "3.0.1 is newer than 2.30.7" "$preload" "$behind" DOUBLE_NCCL_VERSION=30001
expect 6 "does not tell its version" "$preload" "$behind" DOUBLE_NCCL_VERSION=0
expect 6 "does not tell its version" "$preload" "$behind" DOUBLE_NCCL_VERSION=-7
expect 6 "does not tell its version" "$preload" "CINCH_NCCL_LIB=$nameless"

# No library, or not the one that was meant.
expect 6 "/nonexistent: No such file" "$preload" CINCH_NCCL_LIB=/nonexistent
expect 6 "is the interposer itself" "$preload" "CINCH_NCCL_LIB=$interposer"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ln -s "$interposer" "$folder/libnccl.so.2"
expect 6 "is the interposer itself" "$preload" "CINCH_NCCL_LIB=$folder/libnccl.so.2"
echo "not a library" >"$folder/text.so"
expect 6 "text.so: " "$preload" "CINCH_NCCL_LIB=$folder/text.so"
other=$(ldd "$tool" | awk '$1 ~ /^libm\.so/ {print $3}')
expect 6 "is not an NCCL" "$preload" "CINCH_NCCL_LIB=$other"

# Nothing is intercepted: another libnccl.so.2 stands first, or there is none.
cp "$double" "$folder/first"
mkdir "$folder/other"
mv "$folder/first" "$folder/other/libnccl.so.2"
expect 6 "nothing would be intercepted" "LD_LIBRARY_PATH=$folder/other"
expect 6 "^libnccl.so.2 is  *$folder/other/libnccl.so.2" "LD_LIBRARY_PATH=$folder/other"

# For programs.
env "$preload" "$behind" DOUBLE_NCCL_VERSION=23100 "$tool" nccl-check --json | python3 -c '
import json, sys
facts = json.load(sys.stdin)
assert facts["preloaded"] and facts["by_name"] and facts["nccl_version"] == 23100, facts
assert facts["obstacle"] == "" and facts["error"] == "" and "2.31.0" in facts["note"], facts'
quiet=$(env "$preload" "$behind" "$tool" nccl-check --quiet 2>&1)
[[ -z $quiet ]] || { echo "nccl_check_test: --quiet says: $quiet" >&2; exit 1; }

# An application behind an old NCCL works as without the interposer, and the log says so.
said=$(CINCH_LOG=warn DOUBLE_NCCL_VERSION=22304 CINCH_NCCL_LIB=$double LD_PRELOAD=$interposer python3 -c '
import ctypes
nccl = ctypes.CDLL("libnccl.so.2")
version = ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0 and version.value == 22304, version
assert nccl.ncclGroupStart() == 0 and nccl.ncclGroupEnd() == 0' 2>&1)
grep -q "nothing is compressed: 2.23.4 is older" <<<"$said" || { echo "nccl_check_test: $said" >&2; exit 1; }
echo ok
