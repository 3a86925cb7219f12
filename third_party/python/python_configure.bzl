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
    python = find_python(ctx)
    if not python:
        fail("no Python with torch: run `./scramjet build` once, or set SCRAMJET_PYTHON=/path/to/python")
    ctx.file("BUILD", _BUILD.format(python = python))

python_configure = repository_rule(
    implementation = _python_configure_impl,
    environ = ["SCRAMJET_PYTHON"],
    local = True,
    doc = "Registers the Python that has torch as the toolchain of py_test.",
)
