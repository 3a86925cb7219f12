"""scramjet::silu_mul and gelu_mul against torch's two operators, and against the contract of one."""

import io
import itertools
import unittest
import warnings
from functools import partial
from typing import Callable, NamedTuple

import scramjet
import torch
from elementwise_inputs import DEVICES, FLOATING, SPECIAL, as_meta, layouts, one_shape
from torch.nn.functional import gelu, silu

ops = torch.ops.scramjet


class Operator(NamedTuple):
    name: str
    op: Callable
    backward: Callable
    activation: Callable
    module: torch.nn.Module

    def eager(self, gate, up):
        return self.activation(gate) * up

    def eager_gradients(self, grad_output, gate, up):
        with torch.enable_grad():
            inputs = [t.detach().requires_grad_() for t in (gate, up)]
            return torch.autograd.grad(self.eager(*inputs), inputs, grad_output)


OPERATORS = (
    Operator("silu_mul", ops.silu_mul, ops.silu_mul_backward, silu, scramjet.nn.SiluMul()),
    *(
        Operator(
            "gelu_mul",
            partial(ops.gelu_mul, approximate=approximate),
            partial(ops.gelu_mul_backward, approximate=approximate),
            partial(gelu, approximate=approximate),
            scramjet.nn.GeluMul(approximate),
        )
        for approximate in ("none", "tanh")
    ),
)
# Half and bfloat16 round once, after float to 6e-6: one unit in the last place next to a tie, and
# more where a derivative crosses 0.
TOLERANCE = {
    torch.float64: {"rtol": 1e-14, "atol": 1e-12},
    torch.float32: {"rtol": 4e-6, "atol": 1e-5},
    torch.float16: {"rtol": 2**-10, "atol": 1e-4},
    torch.bfloat16: {"rtol": 2**-7, "atol": 1e-4},
}


def every_operator(test):
    def run(self):
        for operator in OPERATORS:
            with self.subTest(operator=operator.name, activation=operator.activation):
                test(self, operator)

    run.__name__ = test.__name__
    return run


def random(*shape, dtype=torch.float64, **options):
    return torch.randn(shape, dtype=dtype, **options)


def in_double(function, *tensors):
    return function(*(t.double() for t in tensors))


def error(actual, exact):
    """The root mean square of the differences."""
    return (actual.double() - exact).square().mean().sqrt().item()


class AgainstTorch(unittest.TestCase):
    @every_operator
    def test_values_and_strides_of_every_layout(self, operator):
        for dtype, device in itertools.product(FLOATING, DEVICES):
            for (name, gate), (_, up) in zip(layouts(dtype, device), layouts(dtype, device)):
                with self.subTest(dtype=dtype, device=device, layout=name):
                    expected, actual = operator.eager(gate, up), operator.op(gate, up)
                    self.assertEqual(actual.dtype, dtype)
                    self.assertEqual(actual.stride(), expected.stride())
                    torch.testing.assert_close(
                        actual, in_double(operator.eager, gate, up).to(dtype), **TOLERANCE[dtype]
                    )
                    grad = torch.randn_like(gate)
                    gradients = operator.backward(grad, gate, up)
                    exact = in_double(operator.eager_gradients, grad, gate, up)
                    for ours, theirs in zip(gradients, exact):
                        self.assertEqual(ours.stride(), (grad * gate * up).stride())
                        torch.testing.assert_close(ours, theirs.to(dtype), **TOLERANCE[dtype])

    @every_operator
    def test_two_layouts(self, operator):
        for device in DEVICES:
            views = one_shape(torch.float64, device)
            for gate, up in itertools.product(views, views):
                expected, actual = operator.eager(gate, up), operator.op(gate, up)
                torch.testing.assert_close(actual, expected, **TOLERANCE[torch.float64])
                self.assertEqual(actual.stride(), (gate * up).stride())
                self.assertEqual(
                    operator.op(as_meta(gate), as_meta(up)).stride(), actual.stride()
                )
                for grad in views:
                    gradients = operator.backward(grad, gate, up)
                    exact = operator.eager_gradients(grad, gate, up)
                    on_meta = operator.backward(*map(as_meta, (grad, gate, up)))
                    for ours, theirs, meta in zip(gradients, exact, on_meta):
                        torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.float64])
                        self.assertEqual(ours.stride(), meta.stride())

    @every_operator
    def test_error_is_not_above_eagers(self, operator):
        for dtype in FLOATING[:1] + FLOATING[2:]:
            gate, up, grad = (random(1_000_000).to(dtype) for _ in range(3))
            exact = in_double(operator.eager, gate, up)
            eager = error(operator.eager(gate, up), exact)
            self.assertLessEqual(error(operator.op(gate, up), exact), eager, dtype)
            exact = in_double(operator.eager_gradients, grad, gate, up)
            eager = operator.eager_gradients(grad, gate, up)
            for ours, theirs, true in zip(operator.backward(grad, gate, up), eager, exact):
                self.assertLessEqual(error(ours, true), error(theirs, true), dtype)

    @every_operator
    def test_special_values(self, operator):
        for dtype, device, repeats in itertools.product(FLOATING, DEVICES, (1, 40)):
            special = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype).to(device)
            gate, up = (
                t.flatten().repeat(repeats) for t in torch.meshgrid(special, special, indexing="ij")
            )
            with self.subTest(dtype=dtype, device=device, repeats=repeats):
                # In double: torch's vectorised float gelu of inf is NaN, its silu of -88.8 is -0.
                expected = in_double(operator.eager, gate, up).to(dtype)
                # What float flushes to 0 and double does not is another thing times infinity or 3e38.
                activation = operator.activation(gate.double())
                underflows = (activation != 0) & (activation.abs() < 1e-36)
                defined = ~(underflows & (up.double().abs() > 1e30))
                torch.testing.assert_close(
                    operator.op(gate, up)[defined],
                    expected[defined],
                    equal_nan=True,
                    **TOLERANCE[dtype],
                )

    @every_operator
    def test_every_half_and_bfloat16(self, operator):
        for dtype, device in itertools.product((torch.float16, torch.bfloat16), DEVICES):
            bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
            gate = bits.view(dtype).to(device)
            gate = gate[gate.isfinite()]
            for up in (torch.ones_like(gate), torch.full_like(gate, 0.3)):
                torch.testing.assert_close(
                    operator.op(gate, up),
                    in_double(operator.eager, gate, up).to(dtype),
                    **TOLERANCE[dtype],
                )

    @every_operator
    def test_value_does_not_depend_on_place(self, operator):
        gate, up = torch.randn(1003), torch.randn(1003)
        strided = torch.empty(1003, 2)[:, 0].copy_(gate)
        self.assertTrue(torch.equal(operator.op(gate, up), operator.op(strided, up)))
        self.assertTrue(torch.equal(operator.op(gate, up)[17:30], operator.op(gate[17:30], up[17:30])))

    @every_operator
    def test_halves_of_one_projection(self, operator):
        x = torch.randn(3, 7, 70)
        gate, up = x.chunk(2, -1)
        torch.testing.assert_close(operator.op(gate, up), operator.eager(gate, up))
        self.assertTrue(operator.op(gate, up).is_contiguous())

    @every_operator
    def test_one_tensor_is_gate_and_up(self, operator):
        x = random(5, requires_grad=True)
        ours = torch.autograd.grad(operator.op(x, x).sum(), x)
        theirs = torch.autograd.grad(operator.eager(x, x).sum(), x)
        torch.testing.assert_close(ours, theirs)


class OperatorContract(unittest.TestCase):
    def test_cuda_kernels_are_registered_where_built(self):
        has = {
            torch._C._dispatch_has_kernel_for_dispatch_key(f"scramjet::{name}", "CUDA")
            for name in ("sigmoid", "silu_mul", "silu_mul_backward", "gelu_mul", "gelu_mul_backward")
        }
        self.assertEqual(len(has), 1)

    @every_operator
    def test_gradcheck_and_gradgradcheck(self, operator):
        for device in DEVICES:
            for make in (
                lambda: random(3, 5, device=device),
                lambda: random(5, 3, device=device).t(),
                lambda: random(2, 3, 2, 2, device=device).to(memory_format=torch.channels_last),
            ):
                inputs = (make().requires_grad_(), make().requires_grad_())
                self.assertTrue(
                    torch.autograd.gradcheck(
                        operator.op, inputs, check_batched_grad=True, check_forward_ad=True
                    )
                )
                self.assertTrue(
                    torch.autograd.gradgradcheck(operator.op, inputs, check_batched_grad=True)
                )

    @every_operator
    def test_only_one_needs_gradients(self, operator):
        gate, up = random(4), random(4)
        for needs in ((True, False), (False, True)):
            inputs = [t.clone().requires_grad_(n) for t, n in zip((gate, up), needs)]
            wanted = [t for t in inputs if t.requires_grad]
            ours = torch.autograd.grad(operator.op(*inputs).sum(), wanted)
            theirs = torch.autograd.grad(operator.eager(*inputs).sum(), wanted)
            torch.testing.assert_close(ours, theirs)
            self.assertTrue(torch.autograd.gradgradcheck(operator.op, inputs))

    @every_operator
    def test_opcheck(self, operator):
        op, options = operator.op, {}
        backward = operator.backward
        if isinstance(op, partial):
            op, backward, options = op.func, backward.func, op.keywords
        for device in DEVICES:
            for make in (
                lambda: torch.randn(3, 5),
                lambda: torch.randn(5, 3).t(),
                lambda: torch.randn(()),
                lambda: torch.randn(0, 4),
                lambda: torch.randn(4, 6)[:, ::2],
                lambda: torch.randn(4, 1).expand(4, 3),
                lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
                lambda: torch.randn(6).half(),
            ):
                gate, up, grad = (make().to(device) for _ in range(3))
                with self.subTest(device=device, gate=gate):
                    torch.library.opcheck(op, (gate, up), options)
                    torch.library.opcheck(backward, (grad, gate, up), options)
                    leaves = [t.clone().requires_grad_() for t in (grad, gate, up)]
                    torch.library.opcheck(op, leaves[1:], options)
                    torch.library.opcheck(backward, leaves, options)

    @every_operator
    def test_fake_strides(self, operator):
        from torch._subclasses.fake_tensor import FakeTensorMode

        for (name, gate), (_, up) in zip(
            layouts(torch.float32, "cpu"), layouts(torch.float32, "cpu")
        ):
            with self.subTest(layout=name):
                mode = FakeTensorMode()
                fake = operator.op(mode.from_tensor(gate), mode.from_tensor(up))
                self.assertEqual(fake.stride(), operator.op(gate, up).stride())

    @every_operator
    def test_compile(self, operator):
        def f(gate, up):
            return operator.op(gate * 2, up).sum(dim=-1) + 1

        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend="aot_eager")
            for shape in ((3, 5), (4, 6), (2, 3, 7)):
                inputs = [torch.randn(shape, requires_grad=True) for _ in range(2)]
                torch.testing.assert_close(compiled(*inputs), f(*inputs))
                ours = torch.autograd.grad(compiled(*inputs).sum(), inputs)
                theirs = torch.autograd.grad(f(*inputs).sum(), inputs)
                torch.testing.assert_close(ours, theirs)

    @every_operator
    def test_compile_inductor(self, operator):
        torch._dynamo.reset()
        gate, up = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4)
        compiled = torch.compile(operator.module, fullgraph=True)
        torch.testing.assert_close(compiled(gate, up), operator.module(gate, up))
        ours = torch.autograd.grad(compiled(gate, up).sum(), gate)
        theirs = torch.autograd.grad(operator.eager(gate, up).sum(), gate)
        torch.testing.assert_close(ours, theirs)

    @every_operator
    def test_export(self, operator):
        batch = torch.export.Dim("batch", min=2)
        x = torch.randn(4, 3)
        program = torch.export.export(
            operator.module, (x, x), dynamic_shapes=({0: batch}, {0: batch})
        )
        self.assertIn(f"scramjet.{operator.name}.default", str(program.graph))
        longer = torch.randn(9, 3)
        torch.testing.assert_close(
            program.module()(longer, longer), operator.eager(longer, longer)
        )

    @every_operator
    def test_vmap(self, operator):
        gate, up, grad = random(4, 3, 5), random(4, 3, 5), random(4, 3, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "no batching rule" is a warning
            for dims in ((0, 0), (1, 2), (2, 0), (0, None), (None, 1)):
                inputs = [
                    t[0] if dim is None else t.movedim(0, dim) for t, dim in zip((gate, up), dims)
                ]
                torch.testing.assert_close(
                    torch.vmap(operator.op, in_dims=dims)(*inputs),
                    torch.vmap(operator.eager, in_dims=dims)(*inputs),
                )
            for dims in ((0, 0, 0), (1, 0, 2), (0, None, 1), (None, 0, None), (None, None, 0)):
                inputs = [
                    t[0] if dim is None else t.movedim(0, dim)
                    for t, dim in zip((grad, gate, up), dims)
                ]
                ours = torch.vmap(operator.backward, in_dims=dims)(*inputs)
                full = [
                    t[:1].expand_as(t) if dim is None else t
                    for t, dim in zip((grad, gate, up), dims)
                ]
                torch.testing.assert_close(ours, operator.eager_gradients(*full))
            torch.testing.assert_close(
                torch.vmap(torch.vmap(operator.op))(gate, up), operator.eager(gate, up)
            )

    @every_operator
    def test_function_transforms(self, operator):
        gate, up = random(6), random(6)
        for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
            for argument in (0, 1):
                torch.testing.assert_close(
                    transform(operator.op, argument)(gate, up),
                    transform(operator.eager, argument)(gate, up),
                )

        def total(function):
            return lambda *inputs: function(*inputs).sum()

        per_sample = [
            torch.vmap(torch.func.grad(total(f)))(gate.reshape(3, 2), up.reshape(3, 2))
            for f in (operator.op, operator.eager)
        ]
        torch.testing.assert_close(*per_sample)

    @every_operator
    def test_script_save_load(self, operator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (FutureWarning, DeprecationWarning))
            scripted = torch.jit.script(operator.module)
            buffer = io.BytesIO()
            torch.jit.save(scripted, buffer)
            buffer.seek(0)
            loaded = torch.jit.load(buffer)
        gate, up = torch.randn(3, 4), torch.randn(3, 4)
        for module in (scripted, loaded):
            torch.testing.assert_close(module(gate, up), operator.eager(gate, up))

    @every_operator
    def test_grad_modes(self, operator):
        gate, up = torch.randn(5, requires_grad=True), torch.randn(5)
        self.assertTrue(operator.op(gate, up).requires_grad)
        with torch.no_grad():
            self.assertFalse(operator.op(gate, up).requires_grad)
        with torch.inference_mode():
            self.assertTrue(operator.op(gate, up).is_inference())
        self.assertFalse(operator.op(up, up).requires_grad)

    @every_operator
    def test_saved_input_that_was_written_is_an_error(self, operator):
        up = torch.randn(5)
        y = operator.op(torch.randn(5, requires_grad=True), up)
        up.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()

    @every_operator
    def test_autocast_is_as_a_product(self, operator):
        for device, dtype in itertools.product(DEVICES, (torch.bfloat16, torch.float16)):
            with torch.autocast(device, dtype=dtype):
                for a, b in itertools.product(FLOATING, FLOATING):
                    gate = torch.randn(4, 4, device=device).to(a)
                    up = torch.randn(4, 4, device=device).to(b)
                    self.assertEqual(operator.op(gate, up).dtype, (gate * up).dtype)

    @every_operator
    def test_neg_view(self, operator):
        x = torch.randn(7, dtype=torch.complex64).conj().imag
        self.assertTrue(x.is_neg())
        torch.testing.assert_close(operator.op(x, x), operator.eager(x, x))

    def test_functions(self):
        gate, up = torch.randn(4), torch.randn(4)
        torch.testing.assert_close(scramjet.functional.silu_mul(gate, up), silu(gate) * up)
        torch.testing.assert_close(scramjet.functional.gelu_mul(gate, up), gelu(gate) * up)
        torch.testing.assert_close(
            scramjet.functional.gelu_mul(gate, up, "tanh"), gelu(gate, approximate="tanh") * up
        )


class BadInput(unittest.TestCase):
    def assert_says(self, error, pattern, call, *args, **options):
        with self.assertRaisesRegex(error, pattern):
            call(*args, **options)

    def test_dtype(self):
        for device in (*DEVICES, "meta"):
            x = torch.zeros(3, device=device)
            self.assert_says(
                TypeError,
                "scramjet::silu_mul: argument 'gate' has dtype Long; expected Float",
                ops.silu_mul,
                x.long(),
                x.long(),
            )
            self.assert_says(
                TypeError,
                "scramjet::silu_mul: argument 'up' has dtype Double; expected that of 'gate', Float",
                ops.silu_mul,
                x,
                x.double(),
            )

    def test_shape_and_device(self):
        x = torch.zeros(2, 3)
        self.assert_says(
            ValueError,
            r"'up' has shape \[3\]; expected that of 'gate', \[2, 3\]",
            ops.gelu_mul,
            x,
            x[0],
        )
        self.assert_says(
            (ValueError, RuntimeError), "'up'.*meta|meta.*cpu|cpu.*meta", ops.gelu_mul, x, x.to("meta")
        )

    def test_layout(self):
        x = torch.eye(3)
        self.assert_says(
            NotImplementedError, "argument 'gate' is a Sparse", ops.silu_mul, x.to_sparse(), x
        )
        self.assert_says(
            NotImplementedError, "argument 'up' is a Sparse", ops.silu_mul, x, x.to_sparse()
        )

    def test_approximate(self):
        x = torch.zeros(3)
        message = "argument 'approximate' is '(Tanh|erf)'; expected 'none' or 'tanh'"
        self.assert_says(ValueError, message, ops.gelu_mul, x, x, approximate="Tanh")
        self.assert_says(ValueError, message, ops.gelu_mul_backward, x, x, x, approximate="erf")
        self.assert_says(ValueError, message, scramjet.nn.GeluMul, "erf")


if __name__ == "__main__":
    unittest.main()
