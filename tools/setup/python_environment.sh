# shellcheck shell=bash
# The Python environment, whose torch the C++ is built against. It lies in the user's cache folder under
# a hash of what it holds, so that checkouts share it; `.venv` links to it.

readonly TORCH_OLDEST=2.11 TORCH_NEWEST=2.15
# torch with its NVIDIA libraries takes 5.4 GB, and its wheels 2.5 GB while they are unpacked.
readonly ENVIRONMENT_GB=8

# find_python MINOR: prints the first Python of 3.MINOR or later. The environment needs 3.11, since torch
# 2.15 has no wheel for 3.10; a Python of the user's with an older torch, and our scripts, make do with 3.10.
find_python() {
  local python
  for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    if "$python" -c "import sys; sys.exit(sys.version_info < (3, $1))" 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  fail "$EXIT_PYTHON" "no Python 3.$1 or later on PATH: install one, or set SCRAMJET_PYTHON=/path/to/python (3.10 or later, with torch)"
}

# check_torch_version VERSION WHERE
check_torch_version() {
  local minor
  minor=$(grep -oE '^[0-9]+\.[0-9]+' <<<"$1") || fail "$EXIT_TORCH" "$2 has no torch: $TORCH_OLDEST to $TORCH_NEWEST are supported"
  [[ $(printf '%s\n' "$TORCH_OLDEST" "$minor" | sort -V | head -n 1) == "$TORCH_OLDEST" ]] ||
    fail "$EXIT_TORCH" "torch $1 in $2 is too old: $TORCH_OLDEST to $TORCH_NEWEST are supported"
  [[ $(printf '%s\n' "$minor" "$TORCH_NEWEST" | sort -V | head -n 1) == "$minor" ]] ||
    fail "$EXIT_TORCH" "torch $1 in $2 is too new: $TORCH_OLDEST to $TORCH_NEWEST are supported"
}

# Checks a Python of the user's, in place of an environment.
check_own_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    fail "$EXIT_PYTHON" "SCRAMJET_PYTHON=$1 is no Python 3.10 or later"
  check_torch_version "$("$1" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true)" "$1"
}

# Checks a C++ libtorch of the user's, by its headers.
check_libtorch() {
  local header="$1/include/torch/headeronly/version.h"
  [[ -e $1/lib/libtorch_cpu.so ]] || fail "$EXIT_TORCH" "LIBTORCH=$1 has no lib/libtorch_cpu.so"
  # The file came with 2.9, in place of torch/version.h.
  [[ -e $header ]] || fail "$EXIT_TORCH" "the torch in $1 is too old: $TORCH_OLDEST to $TORCH_NEWEST are supported"
  check_torch_version "$(awk '$1 == "#define" && $2 ~ /^TORCH_VERSION_(MAJOR|MINOR)$/ { print $3 }' "$header" | paste -sd .)" "$1"
}

# requirements [TORCH_VERSION]: the pinned requirements, with another torch if one is named.
requirements() {
  sed "s/^torch==.*/torch==${1:-$(sed -n 's/^torch==//p' tools/setup/requirements.txt)}/" tools/setup/requirements.txt
}

# environment_folder PYTHON [TORCH_VERSION]
environment_folder() {
  local key
  key=$({ requirements "${2:-}"; cat tools/setup/requirements-nodeps.txt; "$1" --version; } | sha256sum | cut -c 1-16)
  echo "$CACHE/env/$key"
}

# ensure_environment [TORCH_VERSION]: prints the folder of a complete environment. A virtual environment
# cannot be moved, so it is built in place, and counts only once its marker stands.
ensure_environment() {
  local python folder
  python=$(find_python 11)
  folder=$(environment_folder "$python" "${1:-}")
  if [[ ! -e $folder/.complete ]]; then
    mkdir -p "$CACHE/env"
    exec 9>"$folder.lock"
    flock -n 9 || {
      say "Waiting for another set-up that fills $folder"
      flock 9
    }
    [[ -e $folder/.complete ]] || build_environment "$python" "$folder" "${1:-}"
    exec 9>&-
  fi
  echo "$folder"
}

# build_environment PYTHON FOLDER [TORCH_VERSION]
build_environment() {
  local python=$1 folder=$2 log="$CACHE/log/pip.log" site
  rm -rf "$folder"
  need_space "$CACHE" "$ENVIRONMENT_GB"
  say "Making a Python environment with $(requirements "${3:-}" | grep '^torch=='), a few minutes: $folder"
  run_logged "$log" "$python" -m venv "$folder" || fail_by_log "$log" "python -m venv"
  requirements "${3:-}" >"$folder/requirements.txt"
  # Unpacked beside the environment, where there is room for it: /tmp is often small.
  mkdir -p "$folder/tmp"
  install_by_pip "$log" -r "$folder/requirements.txt"
  install_by_pip "$log" --no-deps -r tools/setup/requirements-nodeps.txt
  rm -r "$folder/tmp"
  site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp tools/setup/scramjet.pth "$site/scramjet.pth"
  touch "$folder/.complete"
}

# install_by_pip LOG ARGUMENT...: into $folder.
install_by_pip() {
  local log=$1
  shift
  TMPDIR="$folder/tmp" run_logged "$log" "$folder/bin/python" -m pip install \
    --disable-pip-version-check --no-cache-dir --progress-bar off --retries 3 "$@" || fail_by_log "$log" "pip install"
}
