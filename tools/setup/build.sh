# shellcheck shell=bash
# What follows the set-up: Bazel, and what it built.

bazel_options=()

# run_bazel COMMAND ARGUMENT...: with the disk cache beside the rest, wherever that lies.
run_bazel() {
  local command=$1
  shift
  bazel "${bazel_options[@]}" "$command" --disk_cache="$CACHE/bazel" "$@"
}

# The arguments, with //... where they name no target: all_unless_named ARGUMENT... prints one a line.
all_unless_named() {
  local argument
  printf '%s\n' "$@"
  for argument in "$@"; do
    case $argument in
      //* | :* | @* | [a-z]*) return ;;
    esac
  done
  echo //...
}

build() {
  local arguments
  mapfile -t arguments < <(all_unless_named "$@" | sed '/^$/d')
  run_bazel build "${arguments[@]}"
  # Beside the package, so that `import scramjet` finds it without Bazel.
  local library=bazel-bin/scripting/libscramjet.so package=scripting/python/scramjet/lib
  [[ -e $library ]] || return 0
  mkdir -p "$package"
  cmp -s "$library" "$package/libscramjet.so" || install -m 644 "$library" "$package/libscramjet.so"
}

run_tests() {
  local arguments events status=0
  mapfile -t arguments < <(all_unless_named "$@" | sed '/^$/d')
  # Tests of the Python package need the torch that the C++ was built against.
  [[ ! ${LIBTORCH:-} ]] || arguments+=(--test_lang_filters=-py --build_tests_only)
  events=$(mktemp)
  run_bazel test --keep_going --build_event_json_file="$events" "${arguments[@]}" || status=$?
  "$(find_python 10)" tools/setup/count_tests.py "$events" --bazel-status "$status" || status=1
  rm "$events"
  ((status == 0)) || exit "$EXIT_FAILED"
}

# The interpreter that has torch and finds the Python package.
torch_python() { echo "${SCRAMJET_PYTHON:-.venv/bin/python}"; }

# build_quietly TARGET...: silent unless it fails, for commands whose output is the user's.
build_quietly() {
  local log="$CACHE/log/build.log"
  run_logged "$log" run_bazel build "$@" || {
    tail -n 30 "$log" >&2
    fail "$EXIT_FAILED" "the build failed; the whole output is in $log"
  }
}

# `bench MODEL` is the tool's; a suite is the driver's.
run_driver() {
  local driver=$1
  shift
  if [[ $driver == bench && -e ${1:-} ]]; then
    run_tool bench "$@"
  fi
  if [[ $driver == train ]]; then
    build_quietly //examples:train_cnn //examples:train_digits
  else
    build_quietly //tools/... //scripting:libscramjet.so
  fi
  PYTHONPATH=scripting/python exec "$(torch_python)" "tools/$driver/$driver.py" "$@"
}

run_tool() {
  build_quietly //tools:scramjet
  exec bazel-bin/tools/scramjet "$@"
}

compat() {
  (($# >= 1)) || fail "$EXIT_USAGE" "compat needs a torch version, such as 2.11.0"
  local version=$1 environment
  shift
  check_torch_version "$version" "the request"
  mkdir -p "$CACHE"
  ensure_packages "${BUILD_PACKAGES[@]}"
  ensure_compiler
  environment=$(ensure_environment "$version")
  export SCRAMJET_PYTHON="$environment/bin/python"
  # Its own output base: switching torch back and forth would throw the other's build away. The other's link to
  # its tree goes, since //... would walk into it; the next `./scramjet build` makes it again.
  rm -f "bazel-${PWD##*/}"
  bazel_options=(--output_base="$CACHE/output/torch-$version")
  run_tests --experimental_convenience_symlinks=ignore "$@"
}

write_compile_commands() {
  say "Asking Bazel how it compiles each file"
  local output_base
  output_base=$(run_bazel info output_base 2>/dev/null)
  run_bazel aquery 'mnemonic("CppCompile", //...)' --output=jsonproto 2>/dev/null |
    "$(find_python 10)" tools/setup/compile_commands.py "$output_base" >compile_commands.json ||
    fail "$EXIT_FAILED" "bazel aquery failed: a BUILD file may be broken"
  say "Wrote compile_commands.json"
}

lint() {
  ensure_packages "${LINT_PACKAGES[@]}"
  local status=0 sources changed
  mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' '*.cu' '*.cuh')
  say "clang-format: ${#sources[@]} files"
  clang-format --dry-run -Werror "${sources[@]}" || status=1

  say "BUILD files"
  git ls-files --cached --others --exclude-standard -- '*BUILD' WORKSPACE '*.bzl' |
    "$(find_python 10)" tools/setup/check_build_files.py || status=1

  mapfile -t changed < <({
    git diff --name-only --diff-filter=d HEAD -- '*.cc'
    git ls-files --others --exclude-standard -- '*.cc'
  })
  if ((${#changed[@]})); then
    [[ -e compile_commands.json ]] || write_compile_commands
    say "clang-tidy: ${#changed[@]} changed files"
    clang-tidy --quiet -p . "${changed[@]}" 2>/dev/null || status=1
  fi
  ((status == 0)) || fail "$EXIT_FAILED" "lint found faults"
  say "lint found nothing"
}
