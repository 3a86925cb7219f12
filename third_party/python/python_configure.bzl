"""A Python toolchain for py_test: the interpreter that has torch."""

load("//third_party/python:find_python.bzl", "find_python")

_BUILD = """
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

py_runtime(
    name = "runtime",
    interpreter_path = "{python}",
    python_version = "PY3",
)

py_runtime_pair(
    name = "pair",
    py3_runtime = ":runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

def _python_configure_impl(ctx):
    # With a C++ libtorch, a library built here and the torch of a Python would be two torches in one
    # process: what remains for Python are tests of scripts.
    has_torch = not ctx.os.environ.get("LIBTORCH", "")
    python = find_python(ctx) if has_torch else ctx.which("python3")
    if not python:
        fail("no Python with torch: run `./scramjet build` once, or set SCRAMJET_PYTHON=/path/to/python")
    ctx.file("BUILD", _BUILD.format(python = python))
    ctx.file("defs.bzl", "PYTHON_HAS_TORCH = {}\n".format(has_torch))

python_configure = repository_rule(
    implementation = _python_configure_impl,
    environ = [
        "LIBTORCH",
        "PATH",
        "SCRAMJET_PYTHON",
    ],
    local = True,
    doc = "The Python that has torch, as the toolchain of py_test, and @python//:defs.bzl.",
)
