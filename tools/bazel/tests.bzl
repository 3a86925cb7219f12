"""One macro per kind of test, so that all tests of a kind are built alike."""

load("@python//:defs.bzl", "PYTHON_HAS_TORCH")

def scramjet_cc_test(name, srcs, deps = [], size = "small", **kwargs):
    """A GoogleTest binary with GoogleTest's own main.

    Args:
      name: ends in _test
      srcs: the test's sources
      deps: what it tests
      size: Bazel's
      **kwargs: passed to cc_test
    """
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        deps = deps + ["@googletest"],
        **kwargs
    )

def scramjet_py_test(name, srcs, deps = [], size = "small", tags = [], **kwargs):
    """A Python test that needs torch; left out (tag manual) where the C++ is built against a C++ libtorch.

    Args:
      name: ends in _test, as its source does
      srcs: the test's source
      deps: what it tests
      size: Bazel's
      tags: Bazel's
      **kwargs: passed to py_test
    """
    native.py_test(
        name = name,
        size = size,
        srcs = srcs,
        deps = deps,
        tags = tags if PYTHON_HAS_TORCH else tags + ["manual"],
        **kwargs
    )
