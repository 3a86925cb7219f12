"""scramjet::rope against torch's operators, and against the contract of an operator."""

import io
import itertools
import unittest
import warnings

import scramjet
import torch
from elementwise_inputs import DEVICES, FLOATING
from scramjet.functional import rope, rope_tables

op = torch.ops.scramjet.rope
LAYOUTS = tuple(itertools.product((False, True), (-2, -3)))
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float16: {"rtol": 2**-9, "atol": 2**-9},
    torch.bfloat16: {"rtol": 2**-6, "atol": 2**-6},
}


def eager(x, cos, sin, positions=None, *, interleaved=False, sequence_dim=-2, inverse=False):
    """By complex numbers, as the paper writes it."""
    rotary = 2 * cos.shape[1]
    if positions is None:
        positions = torch.arange(x.shape[sequence_dim], device=x.device)
    angle = torch.complex(cos, -sin if inverse else sin)[positions]
    if sequence_dim == -3:
        angle = angle.unsqueeze(-2)
    elif positions.dim() == 2:
        angle = angle.reshape(len(positions), *(1,) * (x.dim() - 3), *angle.shape[1:])
    turned = x[..., :rotary]
    if interleaved:
        y = torch.view_as_complex(turned.unflatten(-1, (-1, 2)).contiguous()) * angle
        turned = torch.view_as_real(y).flatten(-2)
    else:
        y = torch.complex(*turned.chunk(2, -1)) * angle
        turned = torch.cat((y.real, y.imag), -1)
    return torch.cat((turned, x[..., rotary:]), -1)


def gradient(function, x, *others, **options):
    x = x.detach().requires_grad_()
    return torch.autograd.grad((function(x, *others, **options).double() ** 3).sum(), x)[0]


class AgainstTorch(unittest.TestCase):
    def test_values_and_gradients(self):
        layouts = (
            lambda x: x,
            lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
            lambda x: torch.cat((x, x, x), -1).chunk(3, -1)[1],
            lambda x: x[:, :, :1].expand(x.shape),
        )
        places = (None, torch.randint(9, (5,)), torch.randint(9, (2, 5)), torch.randint(9, (2, 5)).int())
        for dtype, device, layout, positions in itertools.product(FLOATING, DEVICES, layouts, places):
            for (interleaved, sequence_dim), inverse in itertools.product(LAYOUTS, (False, True)):
                options = {"interleaved": interleaved, "sequence_dim": sequence_dim, "inverse": inverse}
                x = torch.randn((2, 3, 5, 14) if sequence_dim == -2 else (2, 5, 3, 14)).to(device, dtype)
                x = layout(x)
                tables = [t.to(device, dtype) for t in rope_tables(9, 12)]
                wide = [t.double() for t in tables]
                at = None if positions is None else positions.to(device)
                actual = op(x, *tables, at, **options)
                self.assertEqual(actual.dtype, dtype)
                self.assertTrue(actual.is_contiguous())
                expected = eager(x.double(), *wide, at, **options)
                torch.testing.assert_close(actual, expected.to(dtype), **TOLERANCE[dtype])
                grad = torch.randn_like(actual)
                leaf = x.detach().requires_grad_()
                (ours,) = torch.autograd.grad(op(leaf, *tables, at, **options), leaf, grad)
                leaf = x.detach().double().requires_grad_()
                (theirs,) = torch.autograd.grad(eager(leaf, *wide, at, **options), leaf, grad.double())
                torch.testing.assert_close(ours, theirs.to(dtype), **TOLERANCE[dtype])

    def test_tables(self):
        cos, sin = rope_tables(7, 6, 100.0, dtype=torch.float64)
        angle = 5 * 100 ** (-2 * 2 / 6)
        torch.testing.assert_close(cos[5, 2].item(), torch.tensor(angle).double().cos().item())
        torch.testing.assert_close(cos**2 + sin**2, torch.ones(7, 3, dtype=torch.float64))
        self.assertEqual(rope_tables(3, 4)[0].dtype, torch.float32)
        with self.assertRaisesRegex(ValueError, "'rotary_dim' is 5; expected an even number"):
            rope_tables(3, 5)

    def test_a_product_sees_the_distance_alone(self):
        tables = rope_tables(40, 16, dtype=torch.float64)
        q, k = torch.randn(2, 1, 16, dtype=torch.float64)
        near, far = (
            rope(q, *tables, torch.tensor([p + 7])) @ rope(k, *tables, torch.tensor([p])).mT for p in (1, 30)
        )
        torch.testing.assert_close(near, far)


class OperatorContract(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.tables = rope_tables(6, 4, dtype=torch.float64)
        self.x = torch.randn(2, 3, 5, 6, dtype=torch.float64)
        self.positions = torch.tensor([[5, 0, 1, 1, 3], [0, 1, 2, 3, 4]])

    def test_gradcheck_and_gradgradcheck(self):
        for device, (interleaved, sequence_dim), at in itertools.product(DEVICES, LAYOUTS, (None, 0)):
            x, cos, sin = (t.to(device) for t in (self.x, *self.tables))
            x = (x if sequence_dim == -2 else x.transpose(1, 2)).detach().requires_grad_()
            positions = None if at is None else self.positions.to(device)

            def f(x, cos, sin):
                return op(x, cos, sin, positions, interleaved=interleaved, sequence_dim=sequence_dim)

            for needs in (False, True):
                inputs = (x, cos.clone().requires_grad_(needs), sin.clone().requires_grad_(needs))
                self.assertTrue(
                    torch.autograd.gradcheck(f, inputs, check_batched_grad=True, check_forward_ad=True)
                )
                self.assertTrue(torch.autograd.gradgradcheck(f, inputs, check_batched_grad=True))

    def test_opcheck(self):
        for device, (interleaved, sequence_dim) in itertools.product(DEVICES, LAYOUTS):
            for make in (
                lambda: torch.randn(2, 5, 5, 6),
                lambda: torch.randn(2, 5, 5, 12)[..., ::2],
                lambda: torch.randn(5, 5, 2, 6).transpose(0, 2).bfloat16(),
                lambda: torch.randn(2, 0, 5, 6),
            ):
                x = make().to(device)
                tables = [t.to(device, x.dtype) for t in self.tables]
                options = {"interleaved": interleaved, "sequence_dim": sequence_dim}
                for needs in (False, True):
                    leaf = x.clone().requires_grad_(needs)
                    torch.library.opcheck(op, (leaf, *tables), options)
                    if x.numel():
                        at = self.positions.to(device)
                        torch.library.opcheck(op, (leaf, *tables, at), options)

    def test_compile(self):
        def f(x, cos, sin, positions):
            return op(x * 2, cos, sin, positions) + op(x, cos, sin, interleaved=True)

        for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", None)):
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend=backend)
            for batch, sequence in ((2, 5), (3, 4), (4, 6)):
                inputs = torch.randn(batch, 3, sequence, 6), *(t.float() for t in self.tables)
                positions = torch.randint(6, (batch, sequence))
                torch.testing.assert_close(compiled(*inputs, positions), f(*inputs, positions))
                torch.testing.assert_close(
                    gradient(compiled, *inputs, positions), gradient(f, *inputs, positions)
                )

    def test_export(self):
        class Module(torch.nn.Module):
            def forward(self, x, cos, sin):
                return op(x, cos, sin)

        batch = torch.export.Dim("batch", min=2)
        program = torch.export.export(
            Module(), (self.x, *self.tables), dynamic_shapes=({0: batch}, None, None)
        )
        self.assertIn("scramjet.rope.default", str(program.graph))
        longer = torch.randn(9, 3, 5, 6, dtype=torch.float64)
        torch.testing.assert_close(program.module()(longer, *self.tables), op(longer, *self.tables))

    def test_vmap(self):
        arguments = (self.x, *self.tables, self.positions[0])
        batches = [torch.stack((t, t.flip(0))) for t in arguments]
        of_batch = torch.stack((self.positions, self.positions.flip(0)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "no batching rule" is a warning
            for is_mapped in itertools.product((False, True), repeat=4):
                if not any(is_mapped):
                    continue
                mixed = [b if m else t for t, b, m in zip(arguments, batches, is_mapped)]
                dims = tuple(0 if m else None for m in is_mapped)
                for interleaved, sequence_dim in LAYOUTS:
                    x = mixed[0] if sequence_dim == -2 else mixed[0].transpose(-2, -3)

                    def of(function):
                        def f(*inputs):
                            return function(*inputs, interleaved=interleaved, sequence_dim=sequence_dim)

                        return torch.stack(
                            [f(*(t[k] if m else t for t, m in zip((x, *mixed[1:]), is_mapped))) for k in (0, 1)]
                        ) if function is eager else torch.vmap(f, in_dims=dims)(x, *mixed[1:])

                    torch.testing.assert_close(of(op), of(eager))
            ours = torch.vmap(op, in_dims=(0, None, None, 0))(batches[0], *self.tables, of_batch)
            theirs = [eager(x, *self.tables, p) for x, p in zip(batches[0], of_batch)]
            torch.testing.assert_close(ours, torch.stack(theirs))

    def test_function_transforms(self):
        x = self.x[0, 0]

        def cube(function):
            return lambda x: function(x, *self.tables) ** 3

        for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
            torch.testing.assert_close(transform(cube(op))(x), transform(cube(eager))(x))

    def test_script_save_load(self):
        def f(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            return torch.ops.scramjet.rope(x, cos, sin, interleaved=True)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (FutureWarning, DeprecationWarning))
            scripted = torch.jit.script(f)
            buffer = io.BytesIO()
            torch.jit.save(scripted, buffer)
            buffer.seek(0)
            loaded = torch.jit.load(buffer)
        for other in (scripted, loaded):
            torch.testing.assert_close(other(self.x, *self.tables), f(self.x, *self.tables))

    def test_autocast_keeps_the_inputs_dtype(self):
        for device, of_input, of_tables in itertools.product(DEVICES, FLOATING, FLOATING):
            x, cos, sin = self.x.to(device, of_input), *(t.to(device, of_tables) for t in self.tables)
            with torch.autocast(device, dtype=torch.bfloat16):
                y = op(x, cos, sin)
            self.assertEqual(y.dtype, of_input)
            expected = eager(x.double(), cos.double(), sin.double())
            torch.testing.assert_close(y.double(), expected, rtol=2**-6, atol=2**-6)

    def test_neg_view(self):
        x = torch.complex(self.x, self.x).conj().imag
        self.assertTrue(x.is_neg())
        torch.testing.assert_close(op(x, *self.tables), eager(x, *self.tables))


class BadInput(unittest.TestCase):
    def assert_says(self, error, pattern, call, *args, **options):
        with self.assertRaisesRegex(error, pattern):
            call(*args, **options)

    def test_each_device(self):
        for device in (*DEVICES, "meta"):
            x = torch.zeros(2, 3, 4, device=device)
            cos, sin = torch.zeros(2, 3, 2, device=device)
            self.assert_says(TypeError, "rope: argument 'input' has dtype Long", op, x.long(), cos, sin)
            self.assert_says(TypeError, "'cos' has dtype Double; expected", op, x, cos.double(), sin)
            self.assert_says(ValueError, "'sin' has shape", op, x, cos, sin[:1])
            self.assert_says(ValueError, "expected a row for each", op, x, cos[:2], sin[:2])
            self.assert_says(ValueError, "'sequence_dim' is -1", op, x, cos, sin, sequence_dim=-1)
            self.assert_says(ValueError, "'positions' has shape", op, x, cos, sin, cos[0].long())

    def test_values_and_layout(self):
        x, (cos, sin) = torch.zeros(2, 3, 4), torch.zeros(2, 3, 2)
        for position in (-1, 3):
            at = torch.full((3,), position)
            self.assert_says(ValueError, f"'positions' has {position}; expected", op, x, cos, sin, at)
        self.assert_says(NotImplementedError, "'cos' is a Sparse", op, x, cos.to_sparse(), sin)


if __name__ == "__main__":
    unittest.main()
