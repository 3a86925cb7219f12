"""examples/serve answers what eager answers, on inputs that take each branch, and says what is wrong with bad input."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import torch

import gate

SERVE = pathlib.Path("examples/serve").resolve()


def serve(model: str, lines: str) -> subprocess.CompletedProcess:
    return subprocess.run([SERVE, model], input=lines, capture_output=True, text=True, timeout=120)


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = os.path.join(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")), "model.pt")
        cls.model = gate.make()
        torch.jit.script(cls.model).save(cls.path)

    @torch.no_grad()
    def test_answers_what_eager_answers(self):
        rows = [[1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], [0.5, -0.25, 0.125, 8.0]]
        branches = {bool(torch.relu(self.model.linear(torch.tensor([row])))[0, 0] > 0.5) for row in rows}
        self.assertEqual(branches, {True, False})
        done = serve(self.path, "".join(" ".join(map(str, row)) + "\n" for row in rows))
        self.assertEqual(done.returncode, 0, done.stderr)
        got = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
        self.assertEqual(len(got), len(rows))
        for row, answer in zip(rows, got):
            expected = self.model(torch.tensor([row]))[0]
            torch.testing.assert_close(torch.tensor(answer), expected, rtol=1e-4, atol=1e-5)  # six digits are printed
        self.assertIn("2 fused groups", done.stderr)

    def test_bad_input_is_one_clear_line(self):
        done = serve(self.path, "1 2 three 4\n")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "serve: expected numbers between spaces, got '1 2 three 4'\n")


if __name__ == "__main__":
    unittest.main()
