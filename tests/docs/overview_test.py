"""docs/OVERVIEW.md shows, for every stage, what the tool really prints for examples/gate.py.

A stage is a code block behind `<!-- stage: NAME -->`. In it `…` on a line stands for any text, and a line `…` for any lines. Source
positions, class names' manglings and times are not compared.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import torch

import gate
import scramjet

OVERVIEW = pathlib.Path("docs/OVERVIEW.md").resolve()
TOOL = pathlib.Path("tools/scramjet").resolve()


def normalise(text: str) -> str:
    text = re.sub(r" +# \S+:\d+:\d+$", "", text, flags=re.MULTILINE)  # the position of a node
    text = re.sub(r"  \(\S+\.py:\d+.*\)$", "", text, flags=re.MULTILINE)  # the lines of a group
    text = re.sub(r"\b(___torch_mangle_\d+|__torch__|gate)\.(?!py)", "", text)
    text = re.sub(r", [\d.e-]+ ms$", "", text, flags=re.MULTILINE)
    return text.strip() + "\n"


def matches(shown: str, real: str) -> bool:
    pattern = re.escape(normalise(shown))
    pattern = re.sub(r"(?m)^(?:\\ )*…\\\n", r"(?:.*\n)*", pattern).replace("…", ".*")
    return re.fullmatch(pattern, normalise(real)) is not None


class OverviewTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shown = dict(re.findall(r"<!-- stage: (.+?) -->\n```\w*\n(.*?)```\n", OVERVIEW.read_text(), re.DOTALL))
        os.chdir(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        torch.jit.script(gate.make()).save("model.pt")
        environment = {**os.environ, "SCRAMJET_DEBUG": "stages"}
        cls.real = {"explain": cls.run_tool("explain", "--input", "3x4:float", env=environment)}
        for file in sorted(pathlib.Path("stages").iterdir()):
            name = file.name.split("_", 1)[1]  # 003_inline.graph
            if file.suffix == ".graph":
                cls.real[file.stem.split("_", 1)[1]] = file.read_text()
            elif file.suffix == ".program":
                cls.real.setdefault("program", file.read_text())  # the first group's
            elif name == "report.txt":
                cls.real["report"] = file.read_text()
        cls.real["forward"] = str(scramjet.compile(torch.jit.load("model.pt")).graph)
        for stage in ("graph", "kernel"):
            cls.real[f"dump --stage {stage}"] = cls.run_tool("dump", "--stage", stage)

    @staticmethod
    def run_tool(command: str, *options: str, env=None) -> str:
        done = subprocess.run([TOOL, command, "model.pt", *options], capture_output=True, text=True, env=env, timeout=120)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def test_every_pass_has_its_stage(self):
        missing = set(self.real) - set(self.shown) - {"report"}  # explain begins with it
        self.assertEqual(missing, set(), "docs/OVERVIEW.md lacks stages")

    def test_every_stage_is_what_the_tool_prints(self):
        for stage, text in self.shown.items():
            if stage in ("llvm", "asm"):  # each CPU has its own
                continue
            with self.subTest(stage=stage):
                self.assertIn(stage, self.real, "no such stage")
                self.assertTrue(matches(text, self.real[stage]), f"stage {stage} is now:\n{self.real[stage]}")

    def test_the_model_is_the_example(self):
        (shown,) = re.findall(r"```python\n(.*?)```\n", OVERVIEW.read_text(), re.DOTALL)
        source = pathlib.Path(gate.__file__).read_text()
        for piece in shown.split("…\n"):
            self.assertIn(piece.strip("\n"), source)

    def test_elision(self):
        self.assertTrue(matches("a\n…\nd\n", "a\nb\nc\nd\n"))
        self.assertTrue(matches("a … c\n", "a b c\n"))
        self.assertFalse(matches("a\nd\n", "a\nb\nd\n"))
        self.assertFalse(matches("a … d\n", "a b c\n"))


if __name__ == "__main__":
    unittest.main()
