"""Finds libtorch: $LIBTORCH, else the torch package of the Python found by find_python."""

load("//third_party/python:find_python.bzl", "find_python")

_OLDEST = (2, 11)
_NEWEST = (2, 15)

_BUILD = """
cc_library(
    name = "torch",
    hdrs = glob(["include/**"]),
    includes = [
        "include",
        "include/torch/csrc/api/include",
    ],
    linkopts = [
        "-L{lib}",
        "-Wl,-rpath,{lib}",
        "-ltorch",
        "-ltorch_cpu",
        "-lc10",
        "-lgomp",
    ],
    visibility = ["//visibility:public"],
)

cc_library(
    name = "torch_cuda",
    linkopts = {cuda_linkopts},
    visibility = ["//visibility:public"],
    deps = [":torch"],
)
"""

def _torch_folder(ctx):
    libtorch = ctx.os.environ.get("LIBTORCH", "")
    if libtorch:
        return ctx.path(libtorch)
    python = find_python(ctx)
    if not python:
        fail("no libtorch: run `./scramjet build` once, or set SCRAMJET_PYTHON=/path/to/python or LIBTORCH=/path/to/libtorch")
    found = ctx.execute([
        python,
        "-c",
        "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')",
    ])
    folder = found.stdout.strip()
    if found.return_code != 0 or not folder:
        fail("{} has no torch: install torch 2.11 to 2.15 there".format(python))
    return ctx.path(folder)

def _torch_version(ctx, folder):
    """(major, minor) from the headers, which a C++ libtorch and a wheel both carry."""
    header = ctx.read(folder.get_child("include").get_child("torch").get_child("headeronly").get_child("version.h"))
    parts = {}
    for line in header.split("\n"):
        words = line.split(" ")
        if len(words) >= 3 and words[0] == "#define" and words[1] in ("TORCH_VERSION_MAJOR", "TORCH_VERSION_MINOR"):
            parts[words[1]] = int(words[2])
    return (parts["TORCH_VERSION_MAJOR"], parts["TORCH_VERSION_MINOR"])

def _torch_configure_impl(ctx):
    folder = _torch_folder(ctx)
    lib = folder.get_child("lib")
    if not lib.get_child("libtorch_cpu.so").exists:
        fail("no lib/libtorch_cpu.so in {}: not a libtorch".format(folder))
    version = _torch_version(ctx, folder)
    if version < _OLDEST or version > _NEWEST:
        fail("torch {}.{} in {} is not supported: 2.11 to 2.15 are".format(version[0], version[1], folder))
    cuda = lib.get_child("libtorch_cuda.so").exists
    ctx.symlink(folder.get_child("include"), "include")
    ctx.file("BUILD", _BUILD.format(
        lib = lib,
        cuda_linkopts = repr(["-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda"] if cuda else []),
    ))
    ctx.file("defs.bzl", "TORCH_HAS_CUDA = {}\nTORCH_VERSION = {}\n".format(cuda, version))

torch_configure = repository_rule(
    implementation = _torch_configure_impl,
    environ = ["LIBTORCH", "SCRAMJET_PYTHON"],
    local = True,
    doc = "@torch//:torch (headers as system includes, shared libraries) and @torch//:defs.bzl.",
)
