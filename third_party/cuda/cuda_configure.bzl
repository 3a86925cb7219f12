"""Finds the CUDA toolkit: $CUDA_HOME (`none`: build without), else that of the nvcc on PATH, else /usr/local/cuda.

A machine without one gets a repository of empty targets and HAS_CUDA = False: everything that needs
no GPU still builds (//tools/bazel:cuda_library.bzl). A CUDA_HOME that names no toolkit is an error.
"""

_BUILD = """
load("@torch//:defs.bzl", "CUDA_RUNTIME_FOLDERS")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)

# torch's own CUDA libraries come first in the rpath: one process, one CUDA runtime.
[
    cc_library(
        name = name,
        linkopts = [
            "-Wl,-rpath," + folder
            for folder in CUDA_RUNTIME_FOLDERS
        ] + [
            "-L{lib}",
            "-Wl,-rpath,{lib}",
            "-l" + name,
        ],
        deps = [":headers"],
    )
    for name in ("cudart", "nvrtc")
]
"""

_EMPTY_BUILD = """
package(default_visibility = ["//visibility:public"])

[cc_library(name = name) for name in ("headers", "cudart", "nvrtc")]
"""

_DEFS = """
HAS_CUDA = {has_cuda}
NVCC = {nvcc}
CUDA_VERSION = {version}
CUDA_ARCHS = {archs}
"""

# Ampere, Hopper, Blackwell; a toolkit too old for one leaves it out, and the newest one's PTX covers it.
_ARCHS = ["80", "90", "100"]

def _toolkit(ctx):
    """The toolkit's folder as a path, or None."""
    home = ctx.os.environ.get("CUDA_HOME", "")
    if home == "none":
        return None
    if home:
        if not ctx.path(home + "/bin/nvcc").exists:
            fail("CUDA_HOME is {}, which has no bin/nvcc: set it to a CUDA toolkit, or unset it".format(home))
        return ctx.path(home)
    nvcc = ctx.which("nvcc")
    if nvcc:
        return nvcc.realpath.dirname.dirname
    usual = ctx.path("/usr/local/cuda")
    return usual if usual.get_child("bin").get_child("nvcc").exists else None

def _run(ctx, nvcc, argument):
    result = ctx.execute([nvcc, argument])
    if result.return_code != 0:
        fail("{} {} failed: {}".format(nvcc, argument, result.stderr.strip()))
    return result.stdout

def _version(text):
    """(major, minor) out of the words `release 13.0,`."""
    release = text.split("release ")[1].split(",")[0]
    return tuple([int(part) for part in release.split(".")])

def _lib(toolkit):
    """NVIDIA's installers fill lib64; the toolkits of package managers may have only lib."""
    lib64 = toolkit.get_child("lib64")
    return lib64 if lib64.exists else toolkit.get_child("lib")

def _cuda_configure_impl(ctx):
    toolkit = _toolkit(ctx)
    if not toolkit:
        ctx.file("BUILD", _EMPTY_BUILD)
        ctx.file("defs.bzl", _DEFS.format(has_cuda = False, nvcc = None, version = None, archs = []))
        return
    nvcc = str(toolkit.get_child("bin").get_child("nvcc"))
    known = _run(ctx, nvcc, "--list-gpu-arch").split("\n")
    archs = [arch for arch in _ARCHS if "compute_" + arch in known]
    if not archs:
        fail("{} knows none of compute_{}: use CUDA 12 or 13".format(nvcc, ", compute_".join(_ARCHS)))
    ctx.symlink(toolkit.get_child("include"), "include")
    ctx.file("BUILD", _BUILD.replace("{lib}", str(_lib(toolkit))))
    ctx.file("defs.bzl", _DEFS.format(
        has_cuda = True,
        nvcc = repr(nvcc),
        version = _version(_run(ctx, nvcc, "--version")),
        archs = archs,
    ))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = [
        "CUDA_HOME",
        "PATH",
    ],
    local = True,
    doc = "@cuda//:headers, :cudart and :nvrtc, and @cuda//:defs.bzl with HAS_CUDA, NVCC, CUDA_VERSION, CUDA_ARCHS.",
)
