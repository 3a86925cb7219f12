"""150 random programs; random_programs.py runs more, from any seed."""

import unittest
import warnings

import random_programs
import scramjet
import torch

COUNT = 150


class RandomProgramsTest(unittest.TestCase):
    def test_compiled_programs_answer_what_eager_answers(self):
        before = scramjet.compilations()
        reports = random_programs.check(range(COUNT))
        self.assertFalse(reports, "\n".join(["", *reports]))
        # The programs are not all refused: machine code has run.
        self.assertGreater(scramjet.compilations() - before, COUNT // 2)

    def test_a_wrong_answer_is_seen_and_shrunk(self):
        class Wrong(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

            def forward(self, *inputs):
                return [
                    t.clone().add_(1) if t.dtype == torch.float32 else t
                    for t in self.module(*inputs)
                ]

        program = random_programs.Grower(3).grow()
        program = random_programs.dataclasses.replace(program, mode="plain")
        program.statements.append(random_programs.Statement("last = x0.to(torch.float32) * 2"))
        program.returned = ["last"]
        eager, calls = program.module(), range(len(program.shapes))
        references = [random_programs.Reference.of(program, k) for k in calls]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertIsNone(random_programs.compare(program, references, eager))
            self.assertIn("output 0", random_programs.compare(program, references, Wrong(eager)))


if __name__ == "__main__":
    unittest.main()
