import tempfile
import unittest
from pathlib import Path

from tools.setup import check_build_files

CLEAN = '''"""Docstring."""
load("//a:b.bzl", "b")

b(
    name = "x",
    srcs = [
        "a.cc",
        "b.cc",
    ],
    deps = [
        ":a",
        "//:torch",
        "//z/y",
        "@json",
    ],
)
'''


def faults(text, name="BUILD"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        return [fault for _, fault in check_build_files.check(path)]


class CheckBuildFiles(unittest.TestCase):
    def test_clean(self):
        self.assertEqual(faults(CLEAN), [])

    def test_order(self):
        self.assertEqual(faults('b(deps = ["//z", ":a"])'), ["deps not sorted"])
        self.assertEqual(faults('b(srcs = ["a", "a"])'), ["srcs names a label twice"])

    def test_a_comment_may_explain_an_order(self):
        self.assertEqual(faults('b(deps = [\n"//z",  # first\n":a",\n])'), [])

    def test_loads_first(self):
        late = 'b()\nload("//a:b.bzl", "b")'
        self.assertEqual(faults(late), ["load() after other statements"])
        self.assertEqual(faults(late, name="WORKSPACE"), [])

    def test_tab(self):
        self.assertEqual(faults("b(\n\tname = 'x')"), ["a tab"])


if __name__ == "__main__":
    unittest.main()
