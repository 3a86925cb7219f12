"""operator: the targets of one folder of ops/, one a dispatch key, from files that are named alike."""

load("//ops:cpu_kernel.bzl", "cpu_kernel")
load("//tools/bazel:cuda_library.bzl", "cuda_cc_library", "cuda_library")
load("//tools/bazel:tests.bzl", "scramjet_cc_test")

def elementwise_operator(name):
    """An operator() whose outputs have the shape of its inputs, element by element."""
    operator(
        name = name,
        cpu_deps = ["//ops:elementwise_cpu"],
        cpu_kernel_deps = ["//ops:cpu_loops"],
        cuda_deps = ["//ops:elementwise_cuda"],
        cuda_kernel_deps = [
            "//ops:elementwise_kernel",
            "//ops:elementwise_launch",
        ],
        meta_deps = ["//ops:elementwise_layout"],
    )

def operator(
        name,
        deps = [],
        arguments_deps = [],
        arguments_srcs = [],
        autocast_deps = [],
        autograd_deps = [],
        cpu_deps = [],
        cpu_kernel_deps = [],
        cpu_kernel_srcs = [],
        cuda_deps = [],
        cuda_kernel_deps = [],
        meta_deps = [],
        test_deps = [],
        vmap_deps = []):
    """The operator, or tight family of operators, whose files start with `name`.

    Args:
      name: the library that has all of it; CONTRIBUTING.md lists the files.
      deps: what each file that registers kernels needs beyond what all operators share.
      arguments_deps: what the file of that name needs besides.
      arguments_srcs: its sources, where it is more than a header.
      autocast_deps: as arguments_deps.
      autograd_deps: the same.
      cpu_deps: the same.
      cpu_kernel_deps: the same.
      cpu_kernel_srcs: sources of the kernel besides the file of that name.
      cuda_deps: the same.
      cuda_kernel_deps: the same.
      meta_deps: the same.
      test_deps: the same.
      vmap_deps: the same.
    """
    header = name + ".h"

    native.cc_library(
        name = name,
        hdrs = [header],
        visibility = ["//ops:__pkg__"],
        deps = [
            ":autocast",
            ":autograd",
            ":cpu",
            ":cuda",
            ":meta",
            ":schema",
            ":vmap",
        ],
    )

    native.cc_library(
        name = "schema",
        srcs = [name + ".cc"],
        hdrs = [header],
        deps = [
            "//:torch",
            "//ops:argument_checks",
        ] + deps,
        alwayslink = True,
    )

    native.cc_library(
        name = "arguments",
        srcs = arguments_srcs,
        hdrs = [name + "_arguments.h"],
        deps = [
            "//:torch",
            "//ops:argument_checks",
        ] + arguments_deps,
    )

    cpu_kernel(
        name = "cpu_kernel",
        srcs = [name + "_cpu_kernel.cc"] + cpu_kernel_srcs,
        hdrs = [name + "_cpu_kernel.h"],
        deps = [
            "//:torch",
            "//ops:cpu_capability",
        ] + cpu_kernel_deps,
    )

    native.cc_library(
        name = "cpu",
        srcs = [name + "_cpu.cc"],
        # Without it at::parallel_for runs on one thread.
        copts = ["-fopenmp"],
        deps = [
            ":arguments",
            ":cpu_kernel",
            "//:torch",
        ] + deps + cpu_deps,
        alwayslink = True,
    )

    cuda_library(
        name = "cuda_kernel",
        srcs = [name + "_cuda.cu"],
        hdrs = [name + "_cuda_kernel.h"],
        deps = cuda_kernel_deps,
    )

    cuda_cc_library(
        name = "cuda",
        srcs = [name + "_cuda.cc"],
        deps = [
            ":arguments",
            ":cuda_kernel",
            "//:torch",
        ] + deps + cuda_deps,
        alwayslink = True,
    )

    native.cc_library(
        name = "meta",
        srcs = [name + "_meta.cc"],
        deps = [
            ":arguments",
            "//:torch",
        ] + deps + meta_deps,
        alwayslink = True,
    )

    native.cc_library(
        name = "autograd",
        srcs = [name + "_autograd.cc"],
        deps = [
            ":arguments",
            ":schema",
            "//:torch",
            "//ops:autograd_conditions",
        ] + deps + autograd_deps,
        alwayslink = True,
    )

    native.cc_library(
        name = "autocast",
        srcs = [name + "_autocast.cc"],
        deps = [
            ":schema",
            "//:torch",
        ] + deps + autocast_deps,
        alwayslink = True,
    )

    native.cc_library(
        name = "vmap",
        srcs = [name + "_vmap.cc"],
        deps = [
            ":schema",
            "//:torch",
            "//ops:vmap_batch",
        ] + deps + vmap_deps,
        alwayslink = True,
    )

    scramjet_cc_test(
        name = name + "_test",
        srcs = [name + "_test.cc"],
        deps = [
            ":" + name,
            ":cpu_kernel",
            "//:torch",
        ] + test_deps,
    )
