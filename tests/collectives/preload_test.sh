#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The interposer as a preloaded library: it does nothing to processes that do not use NCCL, answers
# to the name by which NCCL is loaded, and exports what NCCL exports.
#
#   preload_test.sh INTERPOSER DOUBLE NAMES PYTHON [CINCH]
set -euo pipefail
interposer=$1 double=$2 names=$3 python=$4 tool=${5:-}

fail() {
  echo "preload_test: $*" >&2
  exit 1
}

# Programs that never use NCCL, with no library to find: not a word, no change of the exit status.
expect_silence() {
  local status=0 output
  output=$(CINCH_NCCL_LIB=/nonexistent LD_PRELOAD=$interposer "$@" 2>&1) || status=$?
  [[ $status == 7 && -z $output ]] || fail "$*: status $status, output: $output"
}
expect_silence bash -c "exit 7"
expect_silence "$python" -c "raise SystemExit(7)"
LD_PRELOAD=$interposer "$python" -c '
import sys
maps = open("/proc/self/maps").read()
for library in ("libcuda.so", "libcudart", "libnccl_double"):
    sys.exit("%s was loaded without need" % library) if library in maps else None'

# Loaded by its bare name, as vLLM and SGLang do it.
CINCH_NCCL_LIB=$double LD_PRELOAD=$interposer "$python" -c '
import ctypes
nccl = ctypes.CDLL("libnccl.so.2")
version = ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0 and version.value == 22809, version
assert nccl.ncclGroupEnd() == 5
assert nccl.ncclGroupStart() == 0 and nccl.ncclGroupEnd() == 0
# A function that the library behind does not have.
assert nccl.ncclCommSuspend(None) == 5
nccl.cinch_interposer_library.restype = ctypes.c_char_p
assert nccl.cinch_interposer_library().endswith(b"libcinch_nccl_double.so")'

# By its path, without preloading, and without any NCCL: errors, not crashes.
CINCH_LOG=off CINCH_NCCL_LIB=/nonexistent "$python" -c '
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
assert nccl.ncclGroupStart() == 5
assert nccl.ncclGetVersion(ctypes.byref(ctypes.c_int())) == 5' "$interposer"

if [[ -n $tool ]]; then
  CINCH_NCCL_LIB=$double LD_PRELOAD=$interposer "$tool" nccl-check >/dev/null || fail "nccl-check says no"
  ! CINCH_LOG=off CINCH_NCCL_LIB=/nonexistent LD_PRELOAD=$interposer "$tool" nccl-check >/dev/null 2>&1 ||
    fail "nccl-check is content without NCCL"
fi

exported() { nm -D --defined-only "$1" | awk '$3 ~ /^p?nccl/ {print $3}' | sort -u; }

missing=$(comm -13 <(exported "$interposer") \
  <(sed -nE 's/^(INTERCEPT|SETTLE|SETTLE_ALL|FORWARD)\((\w+)\)$/nccl\2\npnccl\2/p' "$names" | sort -u))
[[ -z $missing ]] || fail "names of the list that are not exported: $missing"

# docs/collectives.md says of each what becomes of it.
docs=${names%/src/*}/docs/collectives.md
undocumented=$(sed -nE 's/^(INTERCEPT|SETTLE|SETTLE_ALL|FORWARD)\((\w+)\)$/nccl\2/p' "$names" |
  while read -r name; do grep -q "\`$name\`" "$docs" || echo "$name"; done)
[[ -z $undocumented ]] || fail "names that $docs does not have: $undocumented"

# The NCCL of this machine, if it has one.
for library in /usr/local/cuda*/lib/libnccl.so.2 /usr/lib/x86_64-linux-gnu/libnccl.so.2; do
  [[ -e $library ]] || continue
  missing=$(comm -13 <(exported "$interposer") <(exported "$library"))
  [[ -z $missing ]] || fail "$library exports what the interposer does not: $missing"
  echo "compared with $library"
done

others=$(nm -D --defined-only "$interposer" | awk '$3 !~ /^p?nccl|^cinch_interposer_/ {print $3}')
[[ -z $others ]] || fail "exports what it should not: $others"
echo "ok"
