"""One macro per kind of test, so that all tests of a kind are built alike."""

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
