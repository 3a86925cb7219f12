"""A module compiled with `autocast` against the original under torch.autocast: equal to the bit."""

import copy
import unittest

import scramjet
import torch
from torch import Tensor, nn
from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists

LISTS = AutocastCPUTestLists(torch.device("cpu"))


def tensors(value):
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors(item)] if isinstance(value, (list, tuple)) else []


def scripted_call(name, arguments, keywords=()):
    """A module whose forward calls torch's `name`; its inputs are the tensors among the arguments."""
    inputs = []

    def text(value):
        if isinstance(value, Tensor):
            inputs.append(value)
            return f"x{len(inputs) - 1}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(text, value)) + "]"
        return repr(value)

    call = ", ".join([*map(text, arguments), *(f"{key}={text(value)}" for key, value in dict(keywords).items())])
    names = ", ".join(f"x{k}" for k in range(len(inputs)))
    module = type(f"Call_{name.replace('.', '_')}", (torch.jit.ScriptModule,), {})()  # each a type of its own
    module.define(f"def forward(self, {names}):\n    return {name}({call})\n")
    return module, inputs


class AutocastTest(unittest.TestCase):
    def assert_equal(self, want, got, what):
        want, got = tensors(want), tensors(got)
        self.assertEqual(len(want), len(got), what)
        for a, b in zip(want, got):
            self.assertEqual((a.dtype, a.requires_grad), (b.dtype, b.requires_grad), what)
            self.assertTrue(torch.equal(a, b), f"{what}: {b}, want {a}")

    def check(self, module, *calls, dtype=torch.bfloat16, **options):
        for freeze in (False, True):
            compiled = scramjet.compile(
                torch.jit.script(copy.deepcopy(module)).eval(), autocast=dtype, freeze=freeze, **options
            )
            for arguments in calls:
                for gradients in (False, True) if not freeze else (False,):
                    with torch.set_grad_enabled(gradients):
                        with torch.autocast("cpu", dtype=dtype):
                            want = module(*arguments)
                        self.assert_equal(want, compiled(*arguments), f"freeze={freeze}")
                        # A region around it changes nothing: the graph has its own.
                        for enabled in (False, True):
                            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                                self.assert_equal(want, compiled(*arguments), f"freeze={freeze}, in a region")
                        self.assertFalse(torch.is_autocast_enabled("cpu"))
        return compiled

    def test_every_op_of_torchs_lists(self):
        parts = [value for name, value in vars(LISTS).items() if isinstance(value, list) and "methods" not in name]
        tried = set()
        for name, arguments, *rest in [case for part in parts for case in part]:
            keywords = next((item for item in rest if isinstance(item, dict)), {})
            with self.subTest(name), torch.no_grad():
                module, inputs = scripted_call(f"torch.ops.aten.{name}", arguments, keywords)
                compiled = scramjet.compile(module, autocast=torch.bfloat16)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    want = getattr(torch.ops.aten, name)(*arguments, **keywords)
                self.assert_equal(want, compiled(*inputs), name)
                tried.add(name)
        self.assertGreater(len(tried), 40)

    def test_control_flow(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

            def forward(self, x: Tensor, n: int):
                h = torch.relu(self.a(x)) * 0.5
                for _ in range(n):
                    h = torch.tanh(self.a(self.b(h)))
                y = self.norm(self.b(h))
                if n > 1:
                    y = torch.softmax(torch.cat([y, x], -1), -1)
                return y, torch.cumsum(y, 0), torch.einsum("ij,kj->ik", [y.float(), y.float()])

        for dtype in (torch.bfloat16, torch.float16):
            self.check(Net(), *((torch.randn(4, 8), n) for n in (0, 1, 3)), dtype=dtype)

    def test_double_and_integers_are_left_alone(self):
        class Net(nn.Module):
            def forward(self, x: Tensor, w: Tensor):
                return torch.mm(x, w), x * 2 + 1

        self.check(Net(), *((torch.ones(2, 2).to(dtype), torch.ones(2, 2).to(dtype))
                            for dtype in (torch.float64, torch.int64, torch.float16, torch.bfloat16)))

    def test_weights_that_the_graph_changes(self):
        """A cast must not outlive what it was made of."""

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("w", torch.ones(2, 2))

            def forward(self, x: Tensor, n: int):
                y = torch.mm(x, self.w)
                for _ in range(n):
                    y = y + torch.mm(x, self.w)
                    self.w.add_(1)
                self.w = self.w * 2
                return y + torch.mm(x, self.w)

        module = Net()
        compiled = scramjet.compile(torch.jit.script(copy.deepcopy(module)), autocast=torch.bfloat16)
        for n in (0, 1, 3):
            x = torch.randn(2, 2)
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                want = module(x, n)
            with torch.no_grad():
                self.assert_equal(want, compiled(x, n), n)

    def test_regions_of_its_own(self):
        class Net(nn.Module):
            def forward(self, x: Tensor):
                a = torch.mm(x, x)
                with torch.autocast("cpu", enabled=False):
                    b = torch.mm(x, x)
                with torch.autocast("cpu", dtype=torch.float16):
                    c = torch.mm(x, x) * 2
                return a, b, c, torch.mm(x, x), torch.is_autocast_cpu_enabled()

        class Eager(Net):
            def forward(self, x: Tensor):
                a = torch.mm(x, x)
                with torch.autocast("cpu", enabled=False):
                    b = torch.mm(x, x)
                with torch.autocast("cpu", dtype=torch.float16):
                    c = torch.mm(x, x) * 2
                return a, b, c, torch.mm(x, x), True

        compiled = scramjet.compile(torch.jit.script(Net()), autocast=torch.bfloat16)
        x = torch.randn(3, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            want = Eager()(x)
        got = compiled(x)
        self.assert_equal(want, got, "regions")
        self.assertTrue(got[-1])

    def test_overrides(self):
        class Net(nn.Module):
            def forward(self, x: Tensor):
                return torch.mm(x, x), torch.softmax(x, -1), nn.functional.mse_loss(x, x + 1)

        x = torch.randn(3, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            default = [y.dtype for y in Net()(x)]
        compiled = scramjet.compile(torch.jit.script(Net()), autocast=torch.bfloat16)
        self.assertEqual([y.dtype for y in compiled(x)], default)
        compiled = scramjet.compile(
            torch.jit.script(Net()),
            autocast=torch.bfloat16,
            autocast_overrides={"aten::mm": "fp32", "aten::softmax.int": "lower_precision_fp", "aten::mse_loss": "none"},
        )
        mm, softmax, loss = compiled(x)
        self.assertEqual((mm.dtype, softmax.dtype, loss.dtype), (torch.float32, torch.bfloat16, torch.float32))
        for wrong in ({"aten::nothing": "fp32"}, {"aten::mm": "fp16"}):
            with self.assertRaisesRegex(ValueError, "overrides"):
                scramjet.compile(torch.jit.script(Net()), autocast=torch.bfloat16, autocast_overrides=wrong)
        with self.assertRaisesRegex(ValueError, "dtype must be"):
            scramjet.compile(torch.jit.script(Net()), autocast=torch.float64)

    def test_training_step(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        twin = copy.deepcopy(net)
        compiled = scramjet.compile(torch.jit.script(twin), autocast=torch.bfloat16)
        x = torch.randn(16, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            net(x).float().pow(2).mean().backward()
        compiled(x).float().pow(2).mean().backward()
        for a, b in zip(net.parameters(), twin.parameters()):
            self.assertTrue(torch.equal(a.grad, b.grad))

    def test_a_frozen_weight_is_cast_once(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
        compiled = self.check(module, (torch.randn(2, 4),))
        graph = str(compiled._scramjet_forward.graph)
        self.assertEqual(graph.count("scramjet::autocast_to"), 1, "the other is in a group with relu")
        self.assertIn("BFloat16(4, 4", graph)


if __name__ == "__main__":
    unittest.main()
