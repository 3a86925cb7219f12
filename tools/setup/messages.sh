# shellcheck shell=bash disable=SC2034  # the constants are for the other files
# What ./scramjet says: progress with the seconds since its start, and failures with their exit codes.

readonly EXIT_FAILED=1 EXIT_USAGE=2 EXIT_PACKAGES=10 EXIT_NETWORK=11 EXIT_DISK=12 EXIT_PYTHON=13
readonly EXIT_TORCH=14 EXIT_COMPILER=15 EXIT_SETUP=16

say() { printf '[%4d s] %s\n' "$SECONDS" "$1" >&2; }

# fail CODE MESSAGE: one line, then out.
fail() {
  printf 'scramjet: %s\n' "$2" >&2
  exit "$1"
}

# run_logged LOG COMMAND...: runs it with its output in LOG, and tells every 20 s that it still runs.
run_logged() {
  local log=$1 job waited=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 </dev/null &
  job=$!
  trap 'kill "$job" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.1
    waited=$((waited + 1))
    ((waited % 200)) || say "  still at it: $(tail -n 1 "$log" | cut -c 1-100)"
  done
  trap - INT TERM
  wait "$job"
}

# fail_by_log LOG WHAT: finds out why a logged installation failed, by the words of apt-get and pip.
fail_by_log() {
  local log=$1 what=$2
  if grep -qi 'no space left on device' "$log"; then
    fail "$EXIT_DISK" "$what failed: the disk is full"
  elif grep -qiE 'could not resolve|failure in name resolution|temporary failure resolving|network is unreachable|failed to establish a new connection|unable to connect|connection (refused|timed out|reset)|read timed out|from versions: none' "$log"; then
    fail "$EXIT_NETWORK" "$what failed: no network (behind a proxy, set http_proxy and https_proxy); details in $log"
  fi
  fail "$EXIT_SETUP" "$what failed: $(tail -n 1 "$log"); details in $log"
}

# need_space FOLDER GIGABYTES
need_space() {
  local free_kb
  free_kb=$(df -Pk "$1" | awk 'NR == 2 { print $4 }')
  ((free_kb >= $2 * 1000 * 1000)) ||
    fail "$EXIT_DISK" "disk full: $1 has $((free_kb / 1000 / 1000)) GB free, $2 GB are needed (XDG_CACHE_HOME chooses another place)"
}
