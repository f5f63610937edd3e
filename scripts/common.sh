# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts beside it, which source it first. Moves to the root of the source tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

# phase TITLE...: says what comes next and how long it has been.
phase() {
  printf '\n==> [%3ds] %s\n' "$SECONDS" "$*"
}

# configure_and_build PRESET [cmake --build arguments...]: in a log only failures are of interest.
configure_and_build() {
  local preset=$1 quiet=()
  shift
  [[ -t 1 ]] || quiet=(-- --quiet)
  cmake --preset "$preset" --log-level=WARNING >/dev/null
  cmake --build --preset "$preset" -j "$jobs" "$@" "${quiet[@]}"
}
