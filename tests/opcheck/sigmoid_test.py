"""scramjet::sigmoid against torch.sigmoid, and against the contract of a torch operator."""

import io
import itertools
import unittest
import warnings

import scramjet
import torch
from elementwise_inputs import DEVICES, FLOATING, SPECIAL, as_meta, layouts, one_shape

op = torch.ops.scramjet.sigmoid
op_backward = torch.ops.scramjet.sigmoid_backward

INTEGRAL = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
)
# ATen's scalar code (tails, strided tensors) calls libm's exp, its vector code Sleef's, as Scramjet
# does everywhere: each is within 1 unit in the last place, and the division adds to it.
MAX_ULPS = 2


def ulps(actual, expected):
    """The largest distance in units in the last place; NaN equals NaN."""
    if actual.numel() == 0:
        return 0
    integer = {8: torch.int64, 4: torch.int32, 2: torch.int16}[actual.element_size()]
    assert torch.equal(actual.isnan(), expected.isnan())
    # Sigmoid is never negative, so the bit patterns are ordered as the values.
    bits = [t.nan_to_num(nan=0.0).contiguous().view(integer).long() for t in (actual, expected)]
    return (bits[0] - bits[1]).abs().max().item()


class AgainstTorch(unittest.TestCase):
    def test_forward_values_and_strides(self):
        for dtype, device in itertools.product(FLOATING, DEVICES):
            for name, x in layouts(dtype, device):
                with self.subTest(dtype=dtype, device=device, layout=name):
                    expected, actual = torch.sigmoid(x), op(x)
                    self.assertEqual(actual.dtype, expected.dtype)
                    self.assertEqual(actual.shape, expected.shape)
                    self.assertEqual(actual.stride(), expected.stride())
                    self.assertLessEqual(ulps(actual, expected), MAX_ULPS)

    def test_vector_body_is_equal_to_the_bit(self):
        for dtype in FLOATING:
            # A multiple of two vectors, and too small for threads: ATen has no scalar tail here.
            x = (torch.randn(128 * 200, dtype=torch.float64) * 20).to(dtype)
            self.assertTrue(torch.equal(op(x), torch.sigmoid(x)), dtype)
            y = torch.sigmoid(x)
            if dtype != torch.float16:  # ATen rounds Half after each step
                self.assertTrue(
                    torch.equal(op_backward(x, y), torch.ops.aten.sigmoid_backward(x, y)), dtype
                )

    def test_special_values(self):
        for dtype, device, repeats in itertools.product(FLOATING, DEVICES, (1, 40)):
            with self.subTest(dtype=dtype, device=device, repeats=repeats):
                x = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype).to(device).repeat(repeats)
                self.assertLessEqual(ulps(op(x), torch.sigmoid(x)), MAX_ULPS)

    def test_every_half_and_bfloat16(self):
        for dtype, device in itertools.product((torch.float16, torch.bfloat16), DEVICES):
            x = (
                torch.arange(-(2**15), 2**15, dtype=torch.int32)
                .to(torch.int16)
                .view(dtype)
                .to(device)
            )
            self.assertLessEqual(ulps(op(x), torch.sigmoid(x)), MAX_ULPS)
            self.assertLessEqual(ulps(op(x), torch.sigmoid(x.float()).to(dtype)), 1)

    def test_value_does_not_depend_on_place(self):
        x = torch.randn(1003)
        strided = torch.empty(1003, 2)[:, 0].copy_(x)
        self.assertTrue(torch.equal(op(x), op(strided)))
        self.assertTrue(torch.equal(op(x)[17:30], op(x[17:30])))

    def test_integers_are_promoted(self):
        for dtype, device in itertools.product(INTEGRAL, DEVICES):
            x = torch.tensor([[0, 1, 3], [2, 7, 100]]).to(dtype).to(device)
            for default in (torch.float32, torch.float64):
                with self.subTest(dtype=dtype, device=device, default=default):
                    torch.set_default_dtype(default)
                    self.addCleanup(torch.set_default_dtype, torch.float32)
                    for view in (x, x.t(), x[:, ::2]):
                        expected, actual = torch.sigmoid(view), op(view)
                        self.assertEqual(
                            (actual.dtype, actual.stride()), (default, expected.stride())
                        )
                        torch.testing.assert_close(actual, expected)

    def test_gradient_in_double(self):
        for device in DEVICES:
            for name, x in layouts(torch.float64, device):
                with self.subTest(device=device, layout=name):
                    ours = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
                    theirs = (
                        ours.detach().clone(memory_format=torch.preserve_format).requires_grad_()
                    )
                    weight = torch.rand_like(x)
                    (op(ours) * weight).sum().backward()
                    (torch.sigmoid(theirs) * weight).sum().backward()
                    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-14, atol=0)
                    self.assertEqual(ours.grad.stride(), theirs.grad.stride())

    def test_backward_operator(self):
        for dtype, device in itertools.product(FLOATING, DEVICES):
            inputs = list(layouts(dtype, device))
            for (name, grad), (_, y) in itertools.product(inputs, inputs):
                if grad.shape != y.shape:
                    continue
                with self.subTest(dtype=dtype, device=device, layout=name):
                    expected = torch.ops.aten.sigmoid_backward(grad, y)
                    actual = op_backward(grad, y)
                    self.assertEqual(actual.stride(), expected.stride())
                    # ATen rounds Half after each step, Scramjet once: compare with double.
                    oracle = torch.ops.aten.sigmoid_backward(grad.double(), y.double())
                    rtol = 4 * torch.finfo(dtype).eps
                    torch.testing.assert_close(
                        actual, oracle.to(dtype), rtol=rtol, atol=torch.finfo(dtype).tiny
                    )

    def test_backward_strides_of_two_layouts(self):
        views = one_shape(torch.float32, "cpu")
        for a, b in itertools.product(views, views):
            expected, actual = torch.ops.aten.sigmoid_backward(a, b), op_backward(a, b)
            torch.testing.assert_close(actual, expected)
            self.assertEqual(actual.stride(), expected.stride())
            self.assertEqual(op_backward(as_meta(a), as_meta(b)).stride(), expected.stride())


class OperatorContract(unittest.TestCase):
    def test_cuda_kernels_are_registered_where_built(self):
        has = [
            torch._C._dispatch_has_kernel_for_dispatch_key(f"scramjet::{name}", "CUDA")
            for name in ("sigmoid", "sigmoid_backward")
        ]
        self.assertEqual(has[0], has[1])
        if not has[0]:
            self.skipTest("libscramjet.so was built without CUDA")

    def test_gradcheck_and_gradgradcheck(self):
        for device in DEVICES:
            for x in (
                torch.randn(3, 5, device=device),
                torch.randn(3, 5, device=device).t(),
                torch.randn(2, 3, 2, 2, device=device).to(memory_format=torch.channels_last),
            ):
                x = x.double().requires_grad_()
                self.assertTrue(
                    torch.autograd.gradcheck(op, x, check_batched_grad=True, check_forward_ad=True)
                )
                self.assertTrue(torch.autograd.gradgradcheck(op, x, check_batched_grad=True))
                third = torch.autograd.grad(
                    torch.autograd.grad(
                        torch.autograd.grad(op(x).sum(), x, create_graph=True)[0].sum(),
                        x,
                        create_graph=True,
                    )[0].sum(),
                    x,
                )[0]
                s = torch.sigmoid(x.detach())
                torch.testing.assert_close(third, s * (1 - s) * (1 - 6 * s + 6 * s * s))

    def test_opcheck(self):
        for device in DEVICES:
            samples = [
                torch.randn(3, 5),
                torch.randn(5, 3).t(),
                torch.randn(()),
                torch.randn(0, 4),
                torch.randn(4, 6)[:, ::2],
                torch.randn(4, 1).expand(4, 3),
                torch.arange(4),
                torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
                torch.randn(6).half(),
            ]
            for x in samples:
                x = x.to(device)
                with self.subTest(device=device, x=x):
                    torch.library.opcheck(op, (x,))
                    if x.is_floating_point():
                        torch.library.opcheck(op, (x.clone().requires_grad_(),))
                        y = torch.sigmoid(x).detach()
                        torch.library.opcheck(op_backward, (torch.ones_like(x), y))
                        torch.library.opcheck(
                            op_backward, (x.clone().requires_grad_(), y.requires_grad_())
                        )

    def test_meta_and_fake_strides(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        for name, x in layouts(torch.float32, "cpu"):
            with self.subTest(layout=name):
                expected = torch.sigmoid(x)
                for actual in (op(as_meta(x)), op(FakeTensorMode().from_tensor(x))):
                    self.assertEqual(
                        (actual.shape, actual.stride()), (expected.shape, expected.stride())
                    )
        self.assertEqual(op(torch.empty(2, dtype=torch.int64, device="meta")).dtype, torch.float32)

    def test_compile(self):
        def f(x):
            return op(x * 2).sum(dim=-1) + 1

        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend="aot_eager")
            for shape in ((3, 5), (4, 6), (2, 3, 7)):
                x = torch.randn(shape, requires_grad=True)
                torch.testing.assert_close(compiled(x), f(x))
                (ours,) = torch.autograd.grad(compiled(x).sum(), x)
                (expected,) = torch.autograd.grad(f(x).sum(), x)
                torch.testing.assert_close(ours, expected)

    def test_compile_inductor(self):
        torch._dynamo.reset()
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), scramjet.nn.Sigmoid())
        x = torch.randn(5, 4)
        compiled = torch.compile(module, fullgraph=True)
        torch.testing.assert_close(compiled(x), module(x))
        compiled(x).sum().backward()
        self.assertIsNotNone(module[0].weight.grad)

    def test_dynamic_shapes_of_every_layout(self):
        for name, x in layouts(torch.float32, "cpu"):
            with self.subTest(layout=name):
                torch._dynamo.reset()
                compiled = torch.compile(
                    lambda t: op(t), fullgraph=True, dynamic=True, backend="aot_eager"
                )
                actual = compiled(x)
                self.assertEqual(actual.stride(), torch.sigmoid(x).stride())

    def test_export(self):
        batch = torch.export.Dim("batch", min=2)
        x = torch.randn(4, 3)
        program = torch.export.export(scramjet.nn.Sigmoid(), (x,), dynamic_shapes=({0: batch},))
        self.assertIn("scramjet.sigmoid.default", str(program.graph))
        longer = torch.randn(9, 3)
        torch.testing.assert_close(program.module()(longer), torch.sigmoid(longer))

    def test_export_of_a_size_that_data_decides(self):
        class Nonzero(torch.nn.Module):
            def forward(self, x):
                return torch.ops.scramjet.sigmoid(x.nonzero().float().t())

        x = torch.tensor([1.0, 0.0, 2.0])
        program = torch.export.export(Nonzero(), (x,))
        torch.testing.assert_close(program.module()(x), Nonzero()(x))

    def test_vmap(self):
        x = torch.randn(4, 3, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "no batching rule" is a warning
            for dims in (0, 1, 2):
                torch.testing.assert_close(
                    torch.vmap(op, in_dims=dims)(x), torch.vmap(torch.sigmoid, in_dims=dims)(x)
                )
            torch.testing.assert_close(torch.vmap(torch.vmap(op))(x), torch.sigmoid(x))
            aten = torch.ops.aten.sigmoid_backward
            for dims in ((0, 0), (0, 1), (2, 0)):
                a, b = (x.movedim(0, d) for d in dims)
                torch.testing.assert_close(torch.vmap(op_backward, in_dims=dims)(a, b), aten(x, x))
            torch.testing.assert_close(
                torch.vmap(op_backward, in_dims=(0, None))(x, x[0]), aten(x, x[:1].expand_as(x))
            )
            torch.testing.assert_close(
                torch.vmap(op_backward, in_dims=(None, 0))(x[0], x), aten(x[:1].expand_as(x), x)
            )
            leaf = x.clone().requires_grad_()
            torch.vmap(op)(leaf).sum().backward()
            torch.testing.assert_close(leaf.grad, aten(torch.ones_like(x), torch.sigmoid(x)))

    def test_function_transforms(self):
        x = torch.randn(6, dtype=torch.float64)
        s = torch.sigmoid(x)

        def total(t):
            return op(t).sum()

        torch.testing.assert_close(torch.func.grad(total)(x), s * (1 - s))
        torch.testing.assert_close(torch.func.jacrev(op)(x), torch.diag(s * (1 - s)))
        torch.testing.assert_close(torch.func.jacfwd(op)(x), torch.diag(s * (1 - s)))
        torch.testing.assert_close(
            torch.func.hessian(total)(x), torch.diag(s * (1 - s) * (1 - 2 * s))
        )
        torch.testing.assert_close(
            torch.vmap(torch.func.grad(total))(x.reshape(3, 2)), (s * (1 - s)).reshape(3, 2)
        )

    def test_script_save_load(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (FutureWarning, DeprecationWarning))
            scripted = torch.jit.script(scramjet.nn.Sigmoid())
            buffer = io.BytesIO()
            torch.jit.save(scripted, buffer)
            buffer.seek(0)
            loaded = torch.jit.load(buffer)
        x = torch.randn(3, 4)
        for module in (scripted, loaded):
            torch.testing.assert_close(module(x), torch.sigmoid(x))

    def test_grad_modes(self):
        x = torch.randn(5, requires_grad=True)
        self.assertTrue(op(x).requires_grad)
        with torch.no_grad():
            self.assertFalse(op(x).requires_grad)
        with torch.inference_mode():
            y = op(x)
        self.assertFalse(y.requires_grad)
        self.assertTrue(y.is_inference())
        self.assertFalse(op(torch.randn(5)).requires_grad)
        self.assertFalse(op(torch.ones(5, dtype=torch.int64)).requires_grad)

    def test_saved_output_that_was_written_is_an_error(self):
        y = op(torch.randn(5, requires_grad=True))
        with torch.no_grad():
            y.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()

    def test_autocast_is_as_torch_sigmoid(self):
        for device, dtype in itertools.product(DEVICES, (torch.bfloat16, torch.float16)):
            with torch.autocast(device, dtype=dtype):
                for given in FLOATING:
                    x = torch.randn(4, 4, device=device, dtype=given, requires_grad=True)
                    self.assertEqual(op(x).dtype, torch.sigmoid(x).dtype)
                mixed = op(
                    torch.nn.functional.linear(
                        torch.randn(2, 3, device=device), torch.randn(3, 3, device=device)
                    )
                )
                self.assertEqual(mixed.dtype, dtype)

    def test_neg_view(self):
        x = torch.randn(7, dtype=torch.complex64).conj().imag
        self.assertTrue(x.is_neg())
        torch.testing.assert_close(op(x), torch.sigmoid(x.resolve_neg()))

    def test_more_than_2_to_the_31_elements_on_cuda(self):
        if "cuda" not in DEVICES:
            self.skipTest("no CUDA device")
        x = torch.zeros(2**31 + 7, dtype=torch.float16, device="cuda")
        for view in (x, x.as_strided((2**31 + 6,), (1,), 1)):
            view[-1] = 20
            y = op(view)
            self.assertEqual((y[0].item(), y[-2].item(), y[-1].item()), (0.5, 0.5, 1.0))


class BadInput(unittest.TestCase):
    def assert_says(self, error, pattern, call, *args):
        with self.assertRaisesRegex(error, pattern):
            call(*args)

    def test_dtype(self):
        for device in (*DEVICES, "meta"):
            for dtype, said in (
                (torch.complex64, "ComplexFloat"),
                (torch.float8_e4m3fn, "Float8_e4m3fn"),
            ):
                x = torch.empty(2, dtype=dtype, device=device)
                self.assert_says(
                    TypeError,
                    f"scramjet::sigmoid: argument 'x' has dtype {said}; expected Float",
                    op,
                    x,
                )

    def test_layout_and_device(self):
        message = "scramjet::sigmoid: argument 'x' is a .*{} tensor on {}; expected a dense"
        x = torch.eye(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = [
                (x.to_sparse(), "Sparse"),
                (x.to_sparse_csr(), "SparseCsr"),
                (x.to_mkldnn(), "Mkldnn"),
                (torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "quantized Strided"),
            ]
        for bad, layout in cases:
            self.assert_says(NotImplementedError, message.format(layout, "cpu"), op, bad)
        self.assert_says(
            NotImplementedError, "argument 'grad_output' is a Sparse", op_backward, x.to_sparse(), x
        )
        self.assert_says(
            NotImplementedError, "argument 'output' is a Sparse", op_backward, x, x.to_sparse()
        )

    def test_backward_arguments(self):
        x = torch.randn(2, 3)
        for device in ("cpu", "meta"):
            y = x.to(device)
            self.assert_says(
                ValueError,
                r"'grad_output' has shape \[3\]; expected that of 'output', \[2, 3\]",
                op_backward,
                y[0],
                y,
            )
            self.assert_says(
                TypeError,
                "'grad_output' has dtype Double; expected that of 'output', Float",
                op_backward,
                y.double(),
                y,
            )
            self.assert_says(TypeError, "'output' has dtype Long", op_backward, y, y.long())

    def test_not_a_tensor(self):
        self.assert_says((RuntimeError, TypeError), "sigmoid", op, "text")


if __name__ == "__main__":
    unittest.main()
