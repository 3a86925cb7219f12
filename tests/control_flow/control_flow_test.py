"""Small programs with branches, loops, writes and exceptions against eager, fresh and reloaded.

A case is a module that TorchScript accepts and the arguments of some calls. Outputs, arguments
after the call, and what an exception says must be eager's, call after call; memory is shared where
eager's is.
"""

import io
import unittest
from typing import Dict, List, Optional, Tuple

import scramjet
import torch
from torch import Tensor


def reload(module):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def copy(value):
    """A copy that keeps strides, and lists and dictionaries apart from the caller's."""
    if isinstance(value, Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype).copy_(value)
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    return type(value)(copy(item) for item in value) if isinstance(value, (list, tuple)) else value


def tensors(value):
    if isinstance(value, Tensor):
        return [value]
    items = (
        value.values()
        if isinstance(value, dict)
        else value if isinstance(value, (list, tuple)) else []
    )
    return [tensor for item in items for tensor in tensors(item)]


def shared(value):
    """Which of the tensors in `value` start at the same place."""
    pointers = [tensor.data_ptr() for tensor in tensors(value)]
    return [(i, j) for i in range(len(pointers)) for j in range(i) if pointers[i] == pointers[j]]


class ControlFlowTest(unittest.TestCase):
    def assert_same(self, expected, got, where):
        if isinstance(expected, Tensor):
            for what in ("dtype", "shape", "requires_grad"):
                self.assertEqual(getattr(expected, what), getattr(got, what), f"{where}: {what}")
            self.assertEqual(expected.stride(), got.stride(), f"{where}: strides")
            torch.testing.assert_close(
                got, expected, rtol=2e-6, atol=0, equal_nan=True, msg=lambda m: f"{where}: {m}"
            )
        elif isinstance(expected, dict):
            self.assertEqual(list(expected), list(got), where)
            for key in expected:
                self.assert_same(expected[key], got[key], f"{where}[{key!r}]")
        elif isinstance(expected, (list, tuple)):
            self.assertEqual(len(expected), len(got), where)
            for k, pair in enumerate(zip(expected, got)):
                self.assert_same(*pair, f"{where}[{k}]")
        else:
            self.assertEqual((type(expected), expected), (type(got), got), where)

    def check(self, make, *calls, repeats=3):
        """make() gives a module; each call is its arguments."""
        for reloaded in (False, True):
            eager, compiled = make(), scramjet.compile(torch.jit.script(make()))
            compiled = reload(compiled) if reloaded else compiled
            early = []
            for number in range(repeats):
                for arguments in calls:
                    where = f"{'reloaded' if reloaded else 'fresh'}, call {number}"
                    ours, theirs = copy(arguments), copy(arguments)
                    expected, got = self.outcome(eager, ours), self.outcome(compiled, theirs)
                    self.assert_same(expected, got, where)
                    self.assert_same(ours, theirs, f"{where}, arguments")
                    self.assertEqual(
                        shared([expected, ours]), shared([got, theirs]), f"{where}, shared memory"
                    )
                    self.assert_same(
                        dict(eager.named_buffers()),
                        dict(compiled.named_buffers()),
                        f"{where}, buffers",
                    )
                    early.append((expected, got))
            # Later calls touch early answers no more than eager's do.
            self.assert_same([e for e, _ in early], [g for _, g in early], "early answers")

    @staticmethod
    def outcome(module, arguments):
        try:
            return module(*arguments)
        except Exception as error:
            return "raised " + str(error).strip().splitlines()[-1].rpartition("Error: ")[2]

    # --- aliasing ---

    def test_write_through_a_view_between_two_reads(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = x * 1.0
                before = y * 2 + 1
                y[0] = 5
                y.view(-1)[1:].mul_(3)
                between = y * 2 + before
                row = y.t()
                after = row * 2 + 1
                y.zero_()
                return before, between, row, after, y

        self.check(M, (torch.ones(3, 3),))

    def test_cast_that_returns_its_input(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = x.to(torch.float32)
                first = y * 2 + y
                y.add_(1)
                z = x.to(torch.float32)
                second = (z + 1) * 2
                z.view(-1).mul_(3)
                return first, second, x, x.to(torch.float32)

        self.check(
            M,
            (torch.ones(3),),
            (torch.ones(3, dtype=torch.int32),),
            (torch.ones(3, dtype=torch.float64),),
        )

    def test_out_arguments(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                result = torch.empty_like(x)
                y = x * 2 + 1
                torch.add(y, x, out=result)
                z = result * y + 1
                torch.mul(result, 2, out=y)
                return result, y, z

        self.check(M, (torch.ones(2),))

    def test_argument_given_twice_and_returned(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, y: Tensor):
                z = (x * 2).tanh() + y
                x.add_(z)
                return y, (y * 2).tanh() + x, x

        x = torch.ones(3)
        self.check(M, (x, torch.ones(3)))
        eager, compiled = M(), scramjet.compile(torch.jit.script(M()))
        for module in (eager, compiled):
            tensor = x.clone()
            self.assertIs(module(tensor, tensor)[0], tensor)
        ours, theirs = x.clone(), x.clone()
        self.assert_same(eager(ours, ours), compiled(theirs, theirs), "twice")

    def test_intermediates_that_someone_keeps(self):
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.last = torch.zeros(1)

            def forward(self, x: Tensor):
                kept = torch.mm(x, x)
                self.last = kept
                a = (kept * 2).relu() + 1
                base = torch.mm(x, x)
                view = base.view(-1)
                b = (base * 2).relu() + 1
                cut = torch.mm(x, x)
                detached = cut.detach()
                c = cut * 2 + 1
                listed = [torch.mm(x, x)]
                d = listed[0] * 2 + 1
                return a, b, view, c, detached, d, listed, self.last

        self.check(M, (torch.ones(3, 3),))

    def test_answers_are_the_callers_to_write(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = (x * 2).relu() + 1
                return y, y * 2, y

        compiled = scramjet.compile(torch.jit.script(M()))
        for size in (3, 1 << 20):
            answers = [compiled(torch.ones(size)) for _ in range(3)]
            for k, (y, doubled, again) in enumerate(answers):
                self.assertIs(y, again)
                y.fill_(k)
                self.assertTrue(bool((doubled == 6).all()))
            self.assertEqual([answer[0][0].item() for answer in answers], [0, 1, 2])
            array = answers[0][0].numpy()
            del answers, y, doubled, again
            compiled(torch.ones(size))
            self.assertEqual(array[0], 0)

    # --- lists, dictionaries, state ---

    def test_lists_and_dictionaries_inside(self):
        class M(torch.nn.Module):
            def forward(
                self, x: Tensor, extra: Optional[Tensor]
            ) -> Tuple[Dict[str, Tensor], List[Tensor], int]:
                found: Dict[str, Tensor] = {"x": x * 2 + 1}
                found["y"] = found["x"]
                found["y"].add_(1)
                many: List[Tensor] = [found["x"] * 2 + 1]
                if extra is not None:
                    many.append(many[0])
                    many[1].mul_(extra)
                    many.append(many[0] * 2 + extra)
                return found, many, len(many)

        self.check(M, (torch.ones(2), torch.full((2,), 3.0)), (torch.ones(2), None))

    def test_state_in_loops_and_branches(self):
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("state", torch.zeros(2))
                self.count = 0

            def forward(self, x: Tensor):
                first = self.state * 2 + x
                if self.count % 2 == 0:
                    self.state = first
                else:
                    self.state.add_(first)
                for _ in range(2):
                    self.state += 1
                    self.count += 1
                return first, self.state * 2 + x, self.count

        self.check(M, (torch.ones(2),), (-torch.ones(2),))

    # --- loops and branches ---

    def test_rotated_buffers(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, n: int):
                a, b, made = x * 1.0, x * 2.0, torch.jit.annotate(List[Tensor], [])
                for _ in range(n):
                    c = a * 2 + b
                    a.add_(1)
                    a, b = b, c
                    if bool(c.sum() > 50):
                        break
                    made.append(a + b * 2)
                    b.mul_(0.5)
                return a, b, made

        self.check(M, (torch.ones(2), 0), (torch.ones(2), 1), (torch.ones(2), 9))

    def test_while_with_continue(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                turns = 0
                y = x * 1.0
                while bool(y.sum() < 100):
                    y = y * 1.5 + 1
                    turns += 1
                    if turns % 3 == 0:
                        continue
                    y = (y * 0.9) + 0.5
                return y, turns

        self.check(M, (torch.ones(2),), (torch.full((2,), 500.0),))

    def test_early_returns(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, n: int):
                y = (x * 2).tanh() + 1
                if n == 0:
                    return y, x
                for k in range(n):
                    y = y * 2 - x
                    if k == 2:
                        y.zero_()
                        return x, y * 2 + 1
                return y * 3 + 1, y

        self.check(M, *[(torch.ones(2), n) for n in (0, 1, 5)])

    def test_write_in_one_branch(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = x * 2 + 1
                if bool(y.sum() > 0):
                    y.mul_(2)
                    z = y * 3 + 1
                else:
                    z = y
                    z.add_(7)
                y += 1
                return y, z

        self.check(M, (torch.ones(2),), (-torch.ones(2),))

    def test_shadowed_argument_in_nested_loops(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                total = x
                for i in range(3):
                    for j in range(2):
                        x = (x * 0.5 + float(i)).tanh()
                        total = total * 2 + x * float(j)
                return total, x

        self.check(M, (torch.ones(2),))

    # --- exceptions ---

    def test_exceptions_say_what_eager_says(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, n: int):
                y = (x * 2).tanh() + 1
                x.add_(1)
                if n == 0:
                    raise ValueError("zero")
                if n == 1:
                    assert x.size(0) == 99, "the size"
                z = y * 2 + torch.ones(7) if n == 2 else y
                x.add_(1)
                return z.view(50) if n == 3 else z * 2 + y

        self.check(M, *[(torch.ones(3), n) for n in range(5)])

    # --- autocast ---

    def test_autocast_regions(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, w: Tensor, n: int):
                made = [x @ w]
                for k in range(4):
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        made.append((x @ w * 2).tanh())
                        if k >= n:
                            break
                        with torch.autocast("cpu", enabled=False, dtype=torch.bfloat16):
                            made.append((x @ w).relu() + 1)
                    made.append((x @ w * 2).relu())
                return made, (x @ w).relu() * 2

        self.check(M, *[(torch.full((3, 3), 0.5), torch.ones(3, 3), n) for n in (0, 2, 9)])

    def test_exception_leaves_the_autocast_region(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y = (x @ x * 2).tanh()
                    if bool(y.sum() > 0):
                        raise ValueError("positive")
                return y

        self.check(M, (torch.ones(2, 2),), (-torch.eye(2),))
        self.assertFalse(torch.is_autocast_enabled("cpu"))

    # --- modes ---

    def test_gradient_mode_is_read_when_called(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = (x * 2).tanh() + 1
                if torch.is_grad_enabled():
                    y = y * 3 + 1
                with torch.no_grad():
                    z = y * 2 + 1
                    if torch.is_grad_enabled():
                        z = z * 5 + 1
                return y, z

        for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with context():
                self.check(M, (torch.ones(2),))

    def test_gradients_off_still_keep_versions_and_views(self):
        """What autograd would miss later: writes to what was there before, and views of it."""

        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2, 2))
                self.register_buffer("seen", torch.zeros(2))

            def forward(self, x: Tensor, how: int):
                y = (x @ self.weight * 2).tanh() + 1
                if how == 0:
                    return y, y + 1
                if how == 1:
                    self.seen.add_(1)
                    return y, self.seen
                if how == 2:
                    x[0].mul_(2)
                    return y, x
                return y, self.weight[0]

        eager, compiled = M(), scramjet.compile(torch.jit.script(M()))
        for how in range(4):
            ours, theirs = torch.ones(2, 2), torch.ones(2, 2)
            with torch.no_grad():
                want, got = eager(ours, how), compiled(theirs, how)
            self.assert_same(want, got, how)
            self.assertEqual(ours._version, theirs._version)
            self.assertEqual(eager.seen._version, compiled.seen._version)
            for a, b in zip(want, got):
                self.assertEqual((a.is_leaf, a._is_view()), (b.is_leaf, b._is_view()), how)
        for module in (eager, compiled):
            with torch.no_grad():
                _, row = module(torch.ones(2, 2), 3)
            with self.assertRaisesRegex(RuntimeError, "no_grad"):
                row.add_(1)

    def test_random_numbers_in_order(self):
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.drop = torch.nn.Dropout(0.5)

            def forward(self, x: Tensor):
                torch.manual_seed(3)
                a = (torch.rand_like(x) * 2).tanh() + x
                b = (torch.randn_like(x) * 2).tanh() + self.drop(x) * 2
                torch.manual_seed(4)
                return a, b, torch.rand_like(x) * 2 + a

        self.check(M, (torch.ones(5),))


if __name__ == "__main__":
    unittest.main()
