"""The two training examples run: traces that parse, a table with every way, and errors in one line."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import torch

import train

CNN = pathlib.Path("examples/train_cnn").resolve()
DIGITS = pathlib.Path("examples/train_digits").resolve()


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=120)


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))

    def train_cnn(self, dtype: str) -> str:
        """Returns what it printed, once the traces are checked."""
        out = self.folder / "made" / dtype
        done = run(CNN, "--dtype", dtype, "--iterations", 3, "--batch", 2, "--size", 8, "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        dtypes = {}
        for mode in ("fp32", "amp"):
            events = json.loads((out / f"trace_{mode}.json").read_text())["traceEvents"]
            forward = [e for e in events if e.get("name") == "aten::convolution"]
            self.assertGreaterEqual(len(forward), 4, mode)
            self.assertGreaterEqual(sum(e.get("name") == "aten::convolution_backward" for e in events), 4, mode)
            dtypes[mode] = {e["args"]["Input type"][0] for e in forward}
        self.assertEqual(dtypes, {"fp32": {"float"}, "amp": {{"bfloat16": "c10::BFloat16", "half": "c10::Half"}[dtype]}})
        return done.stdout

    def test_cnn_in_bfloat16_needs_no_scaler(self):
        printed = self.train_cnn("bfloat16")
        self.assertRegex(printed, r"\nfp32 +[\d.]+ +[\d.]+ +1.00x +\d+ +disabled\n")
        self.assertRegex(printed, r"\nAMP bf16 +[\d.]+ +[\d.]+ +[\d.]+x +\d+ +disabled\n")

    def test_cnn_in_half_skips_what_overflows(self):
        printed = self.train_cnn("half")
        found = re.search(r"\nAMP half .* scale ([\d.]+), growth tracker (\d+), (\d+) skipped steps\n", printed)
        self.assertIsNotNone(found, printed)
        scale, tracker, skipped = float(found[1]), int(found[2]), int(found[3])
        self.assertEqual(scale, 65536 / 2**skipped)
        self.assertGreaterEqual(skipped, 1)
        self.assertLessEqual(tracker + skipped, 3)

    def test_digits_agree_in_all_ways_but_the_lossy_one(self):
        path = self.folder / "digits.pt"
        torch.save(train.digits(), path)
        done = run(DIGITS, path, "--epochs", 5)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        row = re.compile(r"^(fp.*?|bf16) +([\d.]+) % +([\d.]+) % +(\d+) +([\d-]+)$", re.MULTILINE)
        rows = {name: (float(accuracy), float(zeros)) for name, accuracy, zeros, *_ in row.findall(done.stdout)}
        self.assertEqual(list(rows), ["fp32", "bf16", "fp16, GradScaler", "fp16, no scaler"])
        for name in ("fp32", "bf16", "fp16, GradScaler"):
            self.assertGreater(rows[name][0], 88, name)
        self.assertGreater(rows["fp16, no scaler"][1], rows["fp32"][1] + 5)

    def test_wrong_data_is_one_clear_line(self):
        path = self.folder / "wrong.pt"
        torch.save({"images": torch.zeros(3, 8, 8), "labels": torch.zeros(3).long()}, path)
        done = run(DIGITS, path)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "train_digits: images: expected shape [3, 1, 8, 8], got [3, 8, 8]\n")


if __name__ == "__main__":
    unittest.main()
