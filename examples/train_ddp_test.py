"""Two processes train as one does, skip together, and do not wait for ever for one that was killed."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest

import torch

TRAIN_DDP = pathlib.Path("examples/train_ddp").resolve()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def started(ranks: int, *arguments: object, **variables: str):
    """The processes, one for each rank; none outlives the block."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    processes = []
    try:
        for rank in range(ranks):
            processes.append(
                subprocess.Popen(
                    [str(TRAIN_DDP), *(str(a) for a in arguments)],
                    env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **variables},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


class TrainDdpTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))

    def train(self, ranks: int, *arguments: object) -> tuple[list[str], list[torch.Tensor]]:
        """What each rank printed, and the parameters it ended with."""
        out = self.folder / f"parameters{ranks}"
        printed = []
        with started(ranks, "--out", out, "--timeout", 60, *arguments) as processes:
            for process in processes:
                stdout, stderr = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, stderr)
                printed.append(stdout)
        return printed, [torch.load(f"{out}.{rank}") for rank in range(ranks)]

    def check_equal(self, got: torch.Tensor, expected: torch.Tensor, tolerance: float):
        self.assertEqual(got.numel(), 16 * 64 + 64 + 64 * 4 + 4)
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)

    def test_two_processes_equal_one_on_the_joined_batch(self):
        _, (one,) = self.train(1, "--steps", 30)
        printed, (first, second) = self.train(2, "--steps", 30)
        self.check_equal(first, second, 0)
        self.check_equal(first, one, 1e-5)
        losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed[0])]
        self.assertLess(sum(losses[-5:]), 0.5 * sum(losses[:5]))  # it learns

    def test_in_half_both_end_with_the_same(self):
        _, (first, second) = self.train(2, "--dtype", "half")
        self.check_equal(first, second, 0)

    def test_an_overflow_on_one_rank_is_skipped_by_both(self):
        printed, (first, second) = self.train(2, "--steps", 4, "--inject-inf", "2:1")
        for rank, text in enumerate(printed):
            steps = re.findall(r"step (\d): loss [\d.]+, scale (\d+)(.*)", text)
            self.assertEqual(steps, [("0", "65536", ""), ("1", "65536", ""), ("2", "32768", ", skipped"), ("3", "32768", "")], rank)
        self.check_equal(first, second, 0)
        self.assertTrue(first.isfinite().all())

    def test_a_killed_rank_is_an_error_on_the_other(self):
        with started(2, "--steps", 10**9, "--timeout", 10) as (waits, dies):
            dies.stdout.readline()
            dies.kill()
            start = time.monotonic()
            _, stderr = waits.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(waits.returncode, 1)
        self.assertRegex(stderr, r"train_ddp: \S+\(\): rank 0 of 2 failed in (all-reduce|broadcast) .*Either another rank has stopped")

    def test_a_rank_that_never_starts_is_an_error(self):
        with started(1, "--timeout", 2, WORLD_SIZE="2") as (process,):
            _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(stderr, r"train_ddp: [^\n]*1/2 clients joined")

    def test_missing_variables_are_one_clear_line(self):
        with started(1, RANK="") as (process,):
            _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertTrue(stderr.startswith("train_ddp: make_process_group(): RANK is not set in the environment"), stderr)
        self.assertEqual(stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
