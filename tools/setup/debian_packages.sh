# shellcheck shell=bash disable=SC2034  # the constants are for the other files
# The Debian packages that the build needs, and the compiler among them.

readonly BUILD_PACKAGES=(
  alsa-utils # its spoken .wav files are the demo's recorded speech
  bazel-bootstrap
  bazel-platforms
  bazel-rules-java
  bazel-rules-proto
  bazel-skylib
  g++
  libbenchmark-dev
  libcli11-dev
  libgtest-dev
  libsndfile1-dev
  libxtensor-dev
  libzstd-dev # libzstd.a and libz.a: LLVM is linked statically, and so is what it calls
  llvm-19-dev
  nlohmann-json3-dev
  python-is-python3 # the first line of what py_test starts says `python`
  python3-dev
  python3-venv
  zlib1g-dev
)
readonly LINT_PACKAGES=(clang-format clang-tidy)

# ensure_packages PACKAGE...: installs what is missing as root, else prints the command that does.
ensure_packages() {
  command -v dpkg-query >/dev/null ||
    fail "$EXIT_SETUP" "this is no Debian: install by hand what tools/setup/debian_packages.sh lists, on Debian 12 or later"
  local -A present=()
  local package missing=()
  while read -r package; do present[$package]=1; done < <(
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p'
  )
  for package in "$@"; do [[ ${present[$package]:-} ]] || missing+=("$package"); done
  ((${#missing[@]})) || return 0

  local install="apt-get install -y --no-install-recommends ${missing[*]}"
  (($(id -u) == 0)) || fail "$EXIT_PACKAGES" "Debian packages are missing; run: sudo $install"
  need_space /usr 2
  say "Installing Debian packages: ${missing[*]}"
  local log="$CACHE/log/apt.log"
  # A stale or empty package list is the usual reason for a failed first try on a new machine.
  DEBIAN_FRONTEND=noninteractive run_logged "$log" bash -c "apt-get update && $install" ||
    fail_by_log "$log" "apt-get"
}

ensure_compiler() {
  local compiler=${CC:-gcc}
  command -v "$compiler" >/dev/null ||
    fail "$EXIT_COMPILER" "no C++ compiler: install Debian's g++ (12 or later), or set CC"
  "$compiler" -std=c++20 -x c++ -fsyntax-only - <<<'#include <concepts>' 2>/dev/null ||
    fail "$EXIT_COMPILER" "$compiler does not compile C++20: install Debian's g++ (12 or later), or set CC"
}
