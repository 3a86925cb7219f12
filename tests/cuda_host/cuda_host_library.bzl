"""cuda_host_library: CUDA source compiled by g++, whose kernels run on the CPU.

    load("//tests/cuda_host:cuda_host_library.bzl", "cuda_host_library")

    # The kernels of a cuda_library.
    cuda_host_library(
        name = "norm",
        srcs = ["//ops/norm:cuda_kernel_sources"],
        deps = ["//ops/norm:cuda_kernel_headers"],
    )

Whoever depends on it calls the launchers that the headers declare, with pointers to the CPU's memory. A
launch runs at once. No other library of the binary may hold the same launchers: depend on //ops/norm:cpu
and :schema, not on //ops/norm.
"""

load("@cuda//:defs.bzl", "HAS_CUDA")

def _rewritten(ctx, source, ending):
    """Declares and makes the file that `source` becomes."""
    output = ctx.actions.declare_file("{}/{}{}".format(ctx.label.name, source.short_path, ending))
    ctx.actions.run(
        executable = ctx.executable._launch_syntax,
        arguments = [
            source.path,
            output.path,
            "--folder={}/{}".format(ctx.label.package, ctx.label.name),
        ],
        inputs = [source],
        outputs = [output],
        mnemonic = "CudaHostSource",
        progress_message = "Rewriting %s for g++" % source.short_path,
    )
    return output

def _host_sources_impl(ctx):
    headers = depset(transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps])
    sources = [_rewritten(ctx, source, ".cc") for source in ctx.files.srcs]
    included = [
        _rewritten(ctx, header, ".h")
        for header in headers.to_list()
        if header.extension == "cuh" and not header.short_path.startswith("../")  # The toolkit's.
    ]
    return [DefaultInfo(files = depset(sources + included))]

_host_sources = rule(
    implementation = _host_sources_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_launch_syntax": attr.label(
            default = "//tests/cuda_host:launch_syntax",
            executable = True,
            cfg = "exec",
        ),
    },
    doc = "Each `.cu`, and each `.cuh` of `deps`, in the syntax of C++.",
)

def cuda_host_library(name, srcs, deps = [], **kwargs):
    """Kernels, as a library of C++ for tests; of headers alone where there is no CUDA toolkit.

    Args:
      name: the library
      srcs: `.cu` files, unchanged
      deps: the libraries whose headers they include, `.cuh` ones too
      **kwargs: passed to cc_library
    """
    if HAS_CUDA:
        _host_sources(
            name = name + "_sources",
            testonly = True,
            srcs = srcs,
            deps = deps,
        )
    native.cc_library(
        name = name,
        testonly = True,
        srcs = [":" + name + "_sources"] if HAS_CUDA else [],
        copts = [
            "-include",
            "tests/cuda_host/device_language.h",
            # nvcc rounds a * b + c once, and g++ does where the CPU can.
            "-mfma",
            # access_checks.cc answers.
            "-fsanitize=alignment,bounds,null",
            "-fno-sanitize-recover=all",
            "-Wno-unknown-pragmas",
            # The sanitizer's branches lead g++ 12 to null pointers that are none.
            "-Wno-nonnull",
            "-Wno-maybe-uninitialized",
        ],
        deps = deps + ["//tests/cuda_host:device_language"],
        **kwargs
    )
