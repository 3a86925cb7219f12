"""One short test per fault that was found, each named for what went wrong."""

import io
import unittest
import zipfile
from typing import Tuple

import scramjet
import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


class Chain(torch.nn.Module):
    def forward(self, x: Tensor):
        return (x * 2).tanh() + 1


def compiled(module: torch.nn.Module) -> torch.jit.ScriptModule:
    return scramjet.compile(torch.jit.script(module))


def reload(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


class TransformsTest(unittest.TestCase):
    """scramjet.call went through the dispatcher, with its tensors hidden in Any arguments."""

    def test_forward_gradient(self):
        module = compiled(Chain())
        for gradients in (True, False):
            with forward_ad.dual_level(), torch.set_grad_enabled(gradients):
                dual = forward_ad.make_dual(torch.ones(3), torch.ones(3))
                want = forward_ad.unpack_dual(Chain()(dual)).tangent
                got = forward_ad.unpack_dual(module(dual)).tangent
                self.assertIsNotNone(got, "the tangent is lost")
                torch.testing.assert_close(got, want)

    def test_functional_gradients(self):
        def total(module):
            return lambda x: module(x).sum()

        x, module = torch.ones(3), compiled(Chain())
        torch.testing.assert_close(
            torch.func.grad(total(module))(x), torch.func.grad(total(Chain()))(x)
        )
        torch.testing.assert_close(
            torch.func.hessian(total(module))(x), torch.func.hessian(total(Chain()))(x)
        )
        torch.testing.assert_close(
            torch.func.jvp(module, (x,), (x,)), torch.func.jvp(Chain(), (x,), (x,))
        )

    def test_vmap(self):
        x = torch.arange(6.0).view(3, 2)
        torch.testing.assert_close(torch.vmap(compiled(Chain()))(x), torch.vmap(Chain())(x))

    def test_functionalize(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = x * 2 + 1
                y.add_(1)
                return y.tanh() * 2

        x = torch.ones(2)
        torch.testing.assert_close(torch.func.functionalize(compiled(M()))(x), M()(x))

    def test_fake_tensors_without_gradients(self):
        with FakeTensorMode() as mode, torch.no_grad():
            self.assertEqual(compiled(Chain())(mode.from_tensor(torch.ones(3))).shape, (3,))

    def test_make_fx_records_the_ops(self):
        module, x = compiled(Chain()), torch.arange(3.0)
        traced = make_fx(lambda tensor: module(tensor))(torch.ones(3))
        torch.testing.assert_close(traced(x), Chain()(x))


class ReusedMemoryTest(unittest.TestCase):
    """The output took over an input's whole tensor, and not just its memory."""

    def test_no_history_from_the_input(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, w: Tensor):
                y = x @ w
                with torch.no_grad():
                    z = y.relu() * 2
                return z

        result = compiled(M())(torch.ones(2, 2, requires_grad=True), torch.ones(2, 2))
        self.assertFalse(result.requires_grad)
        self.assertIsNone(result.grad_fn)

    def test_no_offset_from_a_slice(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = (x @ x)[1:]
                return (y * 2).relu() + 1

        with torch.inference_mode():
            result = compiled(M())(torch.ones(3, 3))
        self.assertEqual(result.storage_offset(), 0)
        self.assertEqual(result.untyped_storage().nbytes(), 24)


class CompileTest(unittest.TestCase):
    def test_a_hundred_outputs_in_a_group(self):
        outputs = ", ".join(f"y * {k}.0" for k in range(100))
        module = torch.jit.CompilationUnit(f"def f(x):\n    y = x + 1\n    return [{outputs}]\n")

        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.f = module.f

            def forward(self, x: Tensor):
                return self.f(x)

        got = compiled(M())(torch.ones(3))
        self.assertEqual([tensor[0].item() for tensor in got], [2.0 * k for k in range(100)])

    def test_hooks_of_the_module_itself(self):
        def before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
            return (input[0] * 2,)

        def after(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
            return output * 3

        class M(torch.nn.Module):
            def forward(self, input: Tensor):
                return (input * 2).tanh() + 1

        module = M()
        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        x = torch.ones(2) * 0.1
        torch.testing.assert_close(compiled(module)(x), module(x))
        torch.testing.assert_close(reload(compiled(module))(x), module(x))

    def test_an_attribute_named_as_a_kernel(self):
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self._scramjet_kernel_0 = 3

            def forward(self, x: Tensor):
                return (x * self._scramjet_kernel_0).tanh() + 1

        torch.testing.assert_close(compiled(M())(torch.ones(2)), M()(torch.ones(2)))

    def test_freeze_of_a_compiled_module_says_what_to_do(self):
        class M(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(4))

            def forward(self, x: Tensor):
                return (x * self.weight).tanh() + 1

        frozen = torch.jit.freeze(compiled(M().eval()))
        with self.assertRaisesRegex(RuntimeError, "option 'freeze'"):
            frozen(torch.ones(4))


class InterpreterTest(unittest.TestCase):
    def test_value_of_the_outer_loop_that_the_inner_loop_reads(self):
        # torch's interpreter emits the inner loop at its one use, after the last LOAD of y.
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                last = x
                for _ in range(2):
                    y = torch.neg(x)
                    for _ in range(2):
                        x = torch.exp(y)
                    last = y
                return last

        torch.testing.assert_close(compiled(M())(torch.ones(2)), M()(torch.ones(2)))

    def test_the_same_inside_a_branch(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor, deep: bool):
                last = x
                for _ in range(2):
                    y = torch.neg(x)
                    if deep:
                        for _ in range(2):
                            x = torch.exp(y) + x
                    last = y
                return last

        torch.testing.assert_close(compiled(M())(torch.ones(2), True), M()(torch.ones(2), True))

    def test_wait_inside_an_autocast_region(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    future = torch.jit.fork(torch.mm, x, x)
                    inside = torch.jit.wait(future) * 2 + (x @ x)
                return inside, x @ x

        module = compiled(M())
        for _ in range(20):
            inside, outside = module(torch.ones(64, 64))
            self.assertEqual((inside.dtype, outside.dtype), (torch.bfloat16, torch.float32))
        self.assertFalse(torch.is_autocast_enabled("cpu"))


class LayoutTest(unittest.TestCase):
    def test_strides_of_a_dimension_of_one(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                return (x & 2) / 0.5

        x = torch.ones(9, 1, dtype=torch.int8).t()
        self.assertEqual(compiled(M())(x).stride(), M()(x).stride())

    def test_strides_where_eager_casts_an_expanded_operand_first(self):
        # TensorIterator makes it dense in its own order; that order, not x's, is the output's.
        class M(torch.nn.Module):
            def forward(self, mask: Tensor, x: Tensor):
                return torch.maximum(mask, x) * 2

        mask, x = torch.ones(7, dtype=torch.bool).expand(5, 7), torch.ones(7, 5).t()
        self.assertEqual(compiled(M())(mask, x).stride(), M()(mask, x).stride())

    def test_strides_of_nan_to_num(self):
        # It allocates by empty_like: strides of dimensions of one stay as they are.
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                y = torch.nan_to_num(x)
                return y, torch.exp(y)

        x = torch.ones(1, 2)[:, ::2]
        got, want = compiled(M())(x), M()(x)
        self.assertEqual([y.stride() for y in got], [y.stride() for y in want])


class UntrustedFileTest(unittest.TestCase):
    def test_compare_element_with_fewer_indices_than_dims(self):
        class M(torch.nn.Module):
            def forward(self, x: Tensor):
                if bool(x[0, 0] > 0.5):
                    return x * 2
                return x

        original, edited = io.BytesIO(), io.BytesIO()
        torch.jit.save(compiled(M()), original)
        with zipfile.ZipFile(original) as source, zipfile.ZipFile(edited, "w") as target:
            text = b"".join(source.read(name) for name in source.namelist())
            if b"compare_element" not in text:
                self.skipTest("the condition is not a compare_element")
            for name in source.namelist():
                target.writestr(
                    name, source.read(name).replace(b"[0, 0], [0, 0]", b"[0, 0, 0, 0, 0, 0], [0]")
                )
        edited.seek(0)
        with self.assertRaises((RuntimeError, ValueError)):
            torch.jit.load(edited)(torch.ones([1] * 8))


if __name__ == "__main__":
    unittest.main()
