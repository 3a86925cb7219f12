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

# nccl.h, which torch's ProcessGroupNCCL.hpp includes. NCCL itself comes with torch_cuda.
cc_library(
    name = "nccl",
    hdrs = glob(["nccl/**"]),
    defines = {nccl_defines},
    includes = ["nccl"],
    visibility = ["//visibility:public"],
)
"""

_DEFS = """
TORCH_VERSION = {version}
TORCH_HAS_CUDA = {has_cuda}

# None where libtorch does not tell.
TORCH_CUDA_MAJOR = {cuda_major}

# Where this torch keeps libcudart and libnvrtc: whoever links them must load the same ones.
CUDA_RUNTIME_FOLDERS = {runtime_folders}
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
    header = folder.get_child("include").get_child("torch").get_child("headeronly").get_child("version.h")
    if not header.exists:
        fail("no include/torch/headeronly/version.h in {}: torch older than 2.11 is not supported".format(folder))
    parts = {}
    for line in ctx.read(header).split("\n"):
        words = line.split(" ")
        if len(words) >= 3 and words[0] == "#define" and words[1] in ("TORCH_VERSION_MAJOR", "TORCH_VERSION_MINOR"):
            parts[words[1]] = int(words[2])
    return (parts["TORCH_VERSION_MAJOR"], parts["TORCH_VERSION_MINOR"])

def _cuda_runtime(folder):
    """The folders of NVIDIA's wheels beside torch that hold libcudart and libnvrtc, and CUDA's major version."""
    wheels = folder.dirname.get_child("nvidia")
    if not wheels.exists:
        return [], None
    folders, major = [], None
    for wheel in wheels.readdir():
        lib = wheel.get_child("lib")
        names = [file.basename for file in lib.readdir()] if lib.exists else []
        for name in names:
            if name.startswith("libcudart.so."):
                major = int(name.split(".")[2])
        if any([name.startswith(("libcudart.so.", "libnvrtc.so.")) for name in names]):
            folders.append(lib)
    return folders, major

def _nccl_headers(ctx, folder):
    """The folder with nccl.h: of NVIDIA's wheel beside torch, else of the system. None: there is none."""
    for include in [folder.dirname.get_child("nvidia").get_child("nccl").get_child("include"), ctx.path("/usr/include")]:
        if include.get_child("nccl.h").exists:
            return include
    return None

def _torch_configure_impl(ctx):
    folder = _torch_folder(ctx)
    lib = folder.get_child("lib")
    if not lib.get_child("libtorch_cpu.so").exists:
        fail("no lib/libtorch_cpu.so in {}: not a libtorch".format(folder))
    version = _torch_version(ctx, folder)
    if version < _OLDEST or version > _NEWEST:
        fail("torch {}.{} in {} is not supported: 2.11 to 2.15 are".format(version[0], version[1], folder))
    has_cuda = lib.get_child("libtorch_cuda.so").exists
    runtime_folders, cuda_major = _cuda_runtime(folder) if has_cuda else ([], None)
    ctx.symlink(folder.get_child("include"), "include")
    nccl_headers = _nccl_headers(ctx, folder) if has_cuda else None
    for header in nccl_headers.readdir() if nccl_headers else []:
        if header.basename.startswith("nccl"):
            ctx.symlink(header, "nccl/" + header.basename)
    ctx.file("BUILD", _BUILD.format(
        lib = lib,
        nccl_defines = repr(["SCRAMJET_NCCL=1"] if nccl_headers else []),
        cuda_linkopts = repr(["-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda"] if has_cuda else []),
    ))
    ctx.file("defs.bzl", _DEFS.format(
        version = version,
        has_cuda = has_cuda,
        cuda_major = cuda_major,
        runtime_folders = [str(runtime) for runtime in runtime_folders],
    ))

torch_configure = repository_rule(
    implementation = _torch_configure_impl,
    environ = ["LIBTORCH", "SCRAMJET_PYTHON"],
    local = True,
    doc = "@torch//:torch (headers as system includes, shared libraries), :torch_cuda, :nccl, and @torch//:defs.bzl.",
)
