#!/bin/bash
# Each way the set-up can fail, on a machine of fakes: one clear line, and the documented exit code.
# shellcheck disable=SC2016  # the fakes expand their own variables
set -uo pipefail

readonly TOOLS="awk bash cat chmod cp cut date df dirname flock grep head ln mkdir mktemp paste readlink rm sed sha256sum sleep sort tail touch tr"
machine="" failures=0

# A machine where everything is there: fakes first on PATH, and of the real tools only TOOLS.
new_machine() {
  machine=$(mktemp -d "$TEST_TMPDIR/machine.XXXX")
  mkdir -p "$machine/bin" "$machine/workspace/tools"
  cp -rL tools/setup "$machine/workspace/tools/setup"
  local tool
  for tool in $TOOLS; do ln -s "$(command -v "$tool")" "$machine/bin/$tool"; done
  fake id 'echo "${FAKE_UID:-0}"'
  fake gcc 'exit 0'
  fake dpkg-query 'shift 3; for p; do echo "installed $p"; done'
  fake apt-get 'exit 0'
  fake python3 '
    case "$1 ${2:-}" in
      "--version ") echo Python 3.11.2 ;;
      "-c "*) case $2 in *torch*) echo "${FAKE_TORCH:-}" ;; *purelib*) echo "'"$machine"'/site" ;; esac ;;
      "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && mkdir -p "'"$machine"'/site" ;;
      "-m pip") echo pip >>"'"$machine"'/pip_calls"; echo "${FAKE_PIP:-}"; [[ ! ${FAKE_PIP:-} ]] ;;
    esac'
}

# fake NAME BODY: replaces a program of the machine.
fake() {
  rm -f "$machine/bin/$1"
  printf '#!%s\n%s\n' "$(command -v bash)" "$2" >"$machine/bin/$1"
  chmod +x "$machine/bin/$1"
}

# set_up_there [NAME=VALUE...]: the set-up's messages; its exit code.
set_up_there() {
  (cd "$machine/workspace" && env -i PATH="$machine/bin" HOME="$machine" "$@" \
    bash -c 'set -euo pipefail; shopt -s inherit_errexit; source tools/setup/set_up.sh; set_up' 2>&1)
}

# expect CODE PATTERN [NAME=VALUE...]: the last line matches, and no line is the shell's own complaint.
expect() {
  local code=$1 pattern=$2 output status
  shift 2
  output=$(set_up_there "$@")
  status=$?
  if ((status != code)) || [[ ! $(tail -n 1 <<<"$output") =~ $pattern ]] || [[ $output == *": line "* ]]; then
    echo "FAILED (line ${BASH_LINENO[0]}): wanted exit $code and a line like '$pattern', got exit $status and:"
    echo "$output"
    failures=$((failures + 1))
  fi
}

expect_equal() {
  [[ $1 == "$2" ]] && return
  echo "FAILED (line ${BASH_LINENO[0]}): '$1' is not '$2'"
  failures=$((failures + 1))
}

new_machine
fake dpkg-query 'exit 1'
expect 10 'run: sudo apt-get install .*bazel-bootstrap' FAKE_UID=1000
fake apt-get 'echo "Temporary failure resolving deb.example"; exit 100'
expect 11 'apt-get failed: no network'
fake apt-get 'echo "dpkg: write: No space left on device"; exit 100'
expect 12 'apt-get failed: the disk is full'
fake apt-get 'echo "E: Unable to locate package"; exit 100'
expect 16 'apt-get failed: E: Unable to locate package'
rm "$machine/bin/dpkg-query"
expect 16 'this is no Debian'

new_machine
fake df 'echo Filesystem; echo disk 9000000 1 3000000 1% /'
expect 12 'disk full: .* has 3 GB free, 8 GB are needed'

new_machine
rm "$machine/bin/gcc"
expect 15 'no C\+\+ compiler'
fake gcc 'exit 1'
expect 15 'gcc does not compile C\+\+20'

new_machine
rm "$machine/bin/python3"
expect 13 'no Python 3.11 or later'
fake python3 'exit 1'
expect 13 'no Python 3.11 or later'
expect 13 'is no Python 3.10 or later' SCRAMJET_PYTHON=/none

new_machine
expect 14 'torch 2.10.1 .* too old' SCRAMJET_PYTHON=python3 FAKE_TORCH=2.10.1
expect 14 'torch 2.16.0\+cpu .* too new' SCRAMJET_PYTHON=python3 FAKE_TORCH=2.16.0+cpu
expect 14 'has no torch' SCRAMJET_PYTHON=python3
expect 0 '' SCRAMJET_PYTHON=python3 FAKE_TORCH=2.11.0
expect 14 'has no lib/libtorch_cpu.so' LIBTORCH="$machine"
mkdir -p "$machine/lib" "$machine/include/torch/headeronly"
touch "$machine/lib/libtorch_cpu.so"
expect 14 'too old' LIBTORCH="$machine"
for minor in 10 15 16; do
  printf '#define TORCH_VERSION_%s\n' 'MAJOR 2' "MINOR $minor" 'PATCH 0' >"$machine/include/torch/headeronly/version.h"
  case $minor in
    10) expect 14 'torch 2.10 .* too old' LIBTORCH="$machine" ;;
    15) expect 0 '' LIBTORCH="$machine" ;;
    16) expect 14 'torch 2.16 .* too new' LIBTORCH="$machine" ;;
  esac
done

new_machine
expect 11 'pip install failed: no network' FAKE_PIP='Failed to establish a new connection: [Errno 101]'
expect 12 'pip install failed: the disk is full' FAKE_PIP='[Errno 28] No space left on device'
# What failed above must not be taken for whole.
expect 16 'pip install failed: ERROR: no such wheel' FAKE_PIP='ERROR: no such wheel'
rm "$machine/pip_calls"
expect 0 'Making a Python environment'
expect_equal "$(grep -c . "$machine/pip_calls")" 2
expect_equal "$(cd "$machine/workspace" && readlink .venv)" "$(dirname "$machine"/.cache/scramjet/env/*/.complete)"
expect_equal "$(cat "$machine/site/scramjet.pth")" "$(cat tools/setup/scramjet.pth)"
# The second time there is nothing to do or say.
expect 0 '^$'
expect_equal "$(grep -c . "$machine/pip_calls")" 2

((failures == 0)) && echo "every failure gives its line and its exit code"
exit "$failures"
