"""`./scramjet doctor` on a scripted model: text, numbers, a picture, and errors in one line."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import numpy
import torch

import doctor

doctor.TOOL = pathlib.Path("tools/scramjet").resolve()


class Cubes(torch.nn.Module):
    """The cubes overflow float16 where the input is 1000; the second layer cannot take them."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return self.second(y * y * y)


class DoctorTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        torch.manual_seed(0)
        torch.jit.script(Cubes()).save(self.folder / "m.pt")
        numpy.save(self.folder / "x.npy", numpy.full((3, 4), 1000, numpy.float32))

    def run_doctor(self, *arguments: str) -> None:
        model = [str(self.folder / "m.pt"), "--input", str(self.folder / "x.npy")]
        with contextlib.redirect_stdout(io.StringIO()):
            doctor.main([*model, *arguments, "--plot", str(self.folder / "made" / "doctor.png")])

    def test_writes_numbers_and_a_picture(self):
        numbers = self.folder / "doctor.json"
        self.run_doctor("--loss", "mean", "--json", str(numbers))
        diagnosis = json.loads(numbers.read_text())
        self.assertEqual(diagnosis["keep_in_fp32"], ["aten::mul.Tensor", "aten::linear"])
        self.assertEqual([o["layer"] for o in diagnosis["operators"] if o["op"] == "aten::linear"], ["first", "second"])
        self.assertEqual((self.folder / "made" / "doctor.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_picture_shows_values_and_gradients_of_every_layer(self):
        from matplotlib.figure import Figure

        figures = []
        with mock.patch.object(Figure, "savefig", lambda figure, *_, **__: figures.append(figure)):
            self.run_doctor("--loss", "mean")
        values, gradients = figures[0].axes[:2]
        self.assertEqual([axis.get_xlabel() for axis in (values, gradients)], ["values: power of two", "gradients: power of two"])
        labels = {label.get_text(): label.get_color() for label in values.get_yticklabels()}
        self.assertEqual(list(labels), ["input 0", "first  linear", "(model)  mul.Tensor", "second  linear",
                                        "first.weight", "first.bias", "second.weight", "second.bias"])  # fmt: skip
        self.assertEqual([name for name, colour in labels.items() if colour == "tab:red"],
                         ["(model)  mul.Tensor", "second  linear"])  # fmt: skip
        shares = values.images[0].get_array()
        self.assertEqual(shares.shape[0], len(labels))
        numpy.testing.assert_allclose(numpy.nansum(shares, axis=1), 1)  # no zeros among the numbers
        left = values.images[0].get_extent()[0]
        self.assertEqual(numpy.nanargmax(shares[0]) + left, 9)  # 1000 is in [2^9, 2^10)
        limits = [line.get_xdata()[0] for line in values.get_lines()]
        self.assertEqual(limits, [-24, -14, 16])

    def test_errors_are_one_line_and_an_exit_code(self):
        done = subprocess.run([doctor.TOOL, "doctor", self.folder / "m.pt", "--input", "3x4:float", "--loss", "mse"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--loss mse needs a --target", done.stderr.splitlines()[-1])
        self.assertEqual(done.stderr.count("scramjet: "), 1, done.stderr)
        with self.assertRaises(SystemExit) as stopped, mock.patch("sys.stderr"):
            self.run_doctor("--dtype", "float8")
        self.assertNotEqual(stopped.exception.code, 0)
        self.assertFalse((self.folder / "made").exists())


if __name__ == "__main__":
    unittest.main()
