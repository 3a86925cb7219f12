# shellcheck shell=bash
# The set-up of a machine, from Debian packages to torch. Runs at the root of the workspace.

readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/scramjet"
source tools/setup/messages.sh
source tools/setup/debian_packages.sh
source tools/setup/python_environment.sh

set_up() {
  mkdir -p "$CACHE"
  ensure_packages "${BUILD_PACKAGES[@]}"
  ensure_compiler
  if [[ ${LIBTORCH:-} ]]; then
    check_libtorch "$LIBTORCH"
  elif [[ ${SCRAMJET_PYTHON:-} ]]; then
    check_own_python "$SCRAMJET_PYTHON"
  else
    local environment
    environment=$(ensure_environment "")
    [[ $(readlink .venv) == "$environment" ]] || ln -sfn "$environment" .venv
  fi
  need_space "$CACHE" 1
}
