"""operator: the targets of one folder of ops/, one a dispatch key, from files that are named alike."""

load("//ops:cpu_kernel.bzl", "cpu_kernel")
load("//tools/bazel:cuda_library.bzl", "cuda_cc_library", "cuda_library")
load("//tools/bazel:tests.bzl", "scramjet_cc_test")

def operator(name):
    """The operator, or tight family of operators, whose files start with `name`.

    Args:
      name: the library that has all of it; CONTRIBUTING.md lists the files.
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
        ],
        alwayslink = True,
    )

    native.cc_library(
        name = "arguments",
        hdrs = [name + "_arguments.h"],
        deps = [
            "//:torch",
            "//ops:argument_checks",
        ],
    )

    cpu_kernel(
        name = "cpu_kernel",
        srcs = [name + "_cpu_kernel.cc"],
        hdrs = [name + "_cpu_kernel.h"],
        deps = [
            "//:torch",
            "//ops:cpu_capability",
            "//ops:cpu_loops",
        ],
    )

    native.cc_library(
        name = "cpu",
        srcs = [name + "_cpu.cc"],
        deps = [
            ":arguments",
            ":cpu_kernel",
            "//:torch",
            "//ops:elementwise_cpu",
        ],
        alwayslink = True,
    )

    cuda_library(
        name = "cuda_kernel",
        srcs = [name + "_cuda.cu"],
        hdrs = [name + "_cuda_kernel.h"],
        deps = [
            "//ops:elementwise_kernel",
            "//ops:elementwise_launch",
        ],
    )

    cuda_cc_library(
        name = "cuda",
        srcs = [name + "_cuda.cc"],
        deps = [
            ":arguments",
            ":cuda_kernel",
            "//:torch",
            "//ops:elementwise_cuda",
        ],
        alwayslink = True,
    )

    native.cc_library(
        name = "meta",
        srcs = [name + "_meta.cc"],
        deps = [
            ":arguments",
            "//:torch",
            "//ops:elementwise_layout",
        ],
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
        ],
        alwayslink = True,
    )

    native.cc_library(
        name = "autocast",
        srcs = [name + "_autocast.cc"],
        deps = [
            ":schema",
            "//:torch",
        ],
        alwayslink = True,
    )

    native.cc_library(
        name = "vmap",
        srcs = [name + "_vmap.cc"],
        deps = [
            ":schema",
            "//:torch",
            "//ops:vmap_batch",
        ],
        alwayslink = True,
    )

    scramjet_cc_test(
        name = name + "_test",
        srcs = [name + "_test.cc"],
        deps = [
            ":" + name,
            ":cpu_kernel",
            "//:torch",
        ],
    )
