"""The README's code blocks: the C++ one is examples/quick_start.cc, both run, and both save what they say."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import torch

import gate
import scramjet

README = pathlib.Path("tests/docs/root_readme.md").resolve()
SOURCE = pathlib.Path("examples/quick_start.cc").resolve()
PROGRAM = pathlib.Path("examples/quick_start").resolve()


def block(mark: str, language: str) -> str:
    """The one code block behind the comment `<!-- test: mark -->`."""
    pattern = rf"<!-- test: {re.escape(mark)} -->\n```{language}\n(.*?)```\n"
    found = re.findall(pattern, README.read_text(), re.DOTALL)
    if len(found) != 1:
        raise AssertionError(f"README.md: expected one {language} block marked '{mark}', found {len(found)}")
    return found[0]


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        self.model = gate.make()
        torch.jit.script(self.model).save("model.pt")

    def test_every_code_block_is_tested(self):
        blocks = re.findall(r"^```[a-z]+$", README.read_text(), re.MULTILINE)
        marks = re.findall(r"^<!-- test: .* -->\n```[a-z]+$", README.read_text(), re.MULTILINE)
        self.assertEqual(len(blocks), len(marks))

    def test_cpp_block_is_the_example(self):
        self.assertEqual(block("examples/quick_start.cc", "cpp"), SOURCE.read_text())

    @torch.no_grad()
    def test_cpp_example_runs(self):
        done = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 fused groups", done.stdout)
        x = torch.rand(3, 4)
        torch.testing.assert_close(torch.jit.load("fast.pt")(x), self.model(x))
        self.assertIn("2 fused groups", scramjet.explain(torch.jit.load("fast.pt")))

    def test_python_block_runs(self):
        code = block("run", "python")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {})
        self.assertIn("2 fused groups", printed.getvalue())
        self.assertLessEqual(len(code.splitlines()), 5)


if __name__ == "__main__":
    unittest.main()
