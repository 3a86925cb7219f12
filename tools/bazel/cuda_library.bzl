"""CUDA in the build: kernels compiled by nvcc, and the C++ that calls them.

    load("//tools/bazel:cuda_library.bzl", "cuda_cc_library", "cuda_library")

    # Kernels. Raw pointers, sizes and a stream: no torch header (nvcc takes 37 s over them).
    cuda_library(
        name = "cuda_kernel",
        srcs = ["sigmoid_cuda.cu"],
        hdrs = ["sigmoid_cuda_kernel.h"],
    )

    # What registers them with torch, compiled by the C++ compiler.
    cuda_cc_library(
        name = "cuda",
        srcs = ["sigmoid_cuda.cc"],
        deps = [":cuda_kernel", "//:torch"],
        alwayslink = True,
    )

Where the machine has no toolkit, or its torch no CUDA (of the same major version), both are libraries
of headers alone: depend on them without a condition. Whoever depends on either compiles with
SCRAMJET_CUDA=1 where CUDA is built, without the macro elsewhere. A BUILD file reads CUDA_IS_BUILT.
"""

load("@cuda//:defs.bzl", "CUDA_ARCHS", "CUDA_VERSION", "HAS_CUDA", "NVCC")
load("@torch//:defs.bzl", "TORCH_CUDA_MAJOR", "TORCH_HAS_CUDA")

# A C++ libtorch does not tell its CUDA version (TORCH_CUDA_MAJOR is None): take it to match.
CUDA_IS_BUILT = HAS_CUDA and TORCH_HAS_CUDA and TORCH_CUDA_MAJOR in (None, CUDA_VERSION[0])

_DEFINES = ["SCRAMJET_CUDA=1"]

_NVCC_FLAGS = [
    "-std=c++20",
    "-O3",
    "-lineinfo",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror",
]

def _arch_flags():
    """Machine code for each architecture, and PTX of the newest for those that come after it."""
    codes = [(arch, "sm_" + arch) for arch in CUDA_ARCHS]
    codes.append((CUDA_ARCHS[-1], "compute_" + CUDA_ARCHS[-1]))
    return ["-gencode=arch=compute_{},code={}".format(arch, code) for arch, code in codes]

def _cuda_objects_impl(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    headers = depset(ctx.files.hdrs, transitive = [context.headers])

    objects = []
    for source in ctx.files.srcs:
        output = ctx.actions.declare_file("{}/{}.o".format(ctx.label.name, source.basename))
        args = ctx.actions.args()
        args.add_all(_NVCC_FLAGS + _arch_flags() + ctx.attr.copts)
        args.add_all(context.defines, before_each = "-D")
        args.add_all(context.quote_includes, before_each = "-I")
        args.add_all(context.includes, before_each = "-I")
        args.add_all(context.system_includes, before_each = "-isystem")
        args.add("-I.")
        args.add("-c", source)
        args.add("-o", output)
        ctx.actions.run(
            executable = NVCC,
            arguments = [args],
            inputs = depset([source], transitive = [headers]),
            outputs = [output],
            # nvcc looks for g++ on PATH; the version is there for the disk cache, whose key holds
            # this environment but not the compiler.
            env = {
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "SCRAMJET_NVCC_VERSION": "{}.{}".format(CUDA_VERSION[0], CUDA_VERSION[1]),
            },
            mnemonic = "NvccCompile",
            progress_message = "Compiling %s by nvcc" % source.short_path,
        )
        objects.append(output)
    return [DefaultInfo(files = depset(objects), runfiles = ctx.runfiles(files = objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
    },
    doc = "One object file a `.cu`.",
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], **kwargs):
    """Kernels, as a library that any cc_* rule can depend on.

    Args:
      name: the library
      srcs: `.cu` files
      hdrs: headers that declare the launchers, and `.cuh` files that the sources include
      deps: cc_library targets whose headers the sources include; none of them torch's
      copts: further flags for nvcc
      **kwargs: passed to cc_library
    """

    # For tests/cuda_host/cuda_host_library.bzl, which has g++ compile the same sources.
    native.filegroup(
        name = name + "_sources",
        srcs = srcs,
        visibility = ["//tests/cuda_host:__pkg__"],
    )
    native.cc_library(
        name = name + "_headers",
        hdrs = hdrs,
        visibility = ["//tests/cuda_host:__pkg__"],
        deps = deps,
    )
    if not CUDA_IS_BUILT:
        native.cc_library(name = name, hdrs = hdrs, deps = deps, **kwargs)
        return
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        copts = copts,
        deps = deps,
        visibility = ["//tests/machine_code:__pkg__"],
    )
    native.cc_library(
        name = name,
        srcs = [":" + name + "_objects"],
        hdrs = hdrs,
        defines = _DEFINES,
        deps = deps + ["@cuda//:cudart"],
        **kwargs
    )

def cuda_cc_library(name, srcs, hdrs = [], deps = [], **kwargs):
    """C++ sources that call the CUDA runtime, or include torch's CUDA headers.

    Args:
      name: the library
      srcs: `.cc` files
      hdrs: its headers
      deps: what it needs besides torch's and the toolkit's CUDA libraries, which are always there
      **kwargs: passed to cc_library
    """
    if not CUDA_IS_BUILT:
        native.cc_library(name = name, hdrs = hdrs, deps = deps, **kwargs)
        return
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        defines = _DEFINES,
        deps = deps + [
            "@cuda//:cudart",
            "@torch//:torch_cuda",
        ],
        **kwargs
    )
