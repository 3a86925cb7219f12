"""scramjet::softmax against torch's operators, and against the contract of an operator."""

import io
import itertools
import math
import unittest
import warnings
from typing import NamedTuple

import scramjet
import torch
from elementwise_inputs import DEVICES, FLOATING
from torch.nn import functional as F

op = torch.ops.scramjet.softmax
SCALE = 0.7
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float16: {"rtol": 2**-9, "atol": 2**-10},
    torch.bfloat16: {"rtol": 2**-6, "atol": 2**-7},
}


class Case(NamedTuple):
    """Called on the scores and, where `mask` is not None, a mask of that kind."""

    name: str
    mask: str | None
    causal: bool

    def ours(self, x, mask=None):
        return op(x, mask, scale=SCALE, causal=self.causal)

    def eager(self, x, mask=None):
        scores = x * SCALE
        if self.mask == "bool":
            scores = scores.masked_fill(~mask, -math.inf)
        if self.mask == "added":
            scores = scores + mask
        if self.causal:
            hidden = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        return torch.softmax(scores, -1)

    def inputs(self, *shape, of_mask=None, dtype=torch.float64):
        of_mask = of_mask or shape
        x = torch.randn(shape, dtype=dtype)
        if self.mask is None:
            return [x]
        if self.mask == "added":
            return [x, torch.randn(of_mask, dtype=dtype)]
        kept = torch.rand(of_mask) < 0.7
        kept[..., 0] = True
        return [x, kept]


CASES = (
    Case("plain", None, False),
    Case("bool", "bool", False),
    Case("added", "added", False),
    Case("causal", None, True),
    Case("bool and causal", "bool", True),
    Case("added and causal", "added", True),
)


def every_case(test):
    def run(self):
        for case in CASES:
            with self.subTest(case=case.name):
                torch.manual_seed(0)
                test(self, case)

    run.__name__ = test.__name__
    return run


def leaves_of(tensors):
    return [x.detach().requires_grad_() if x.is_floating_point() else x for x in tensors]


def gradients(function, inputs):
    leaves = leaves_of(inputs)
    wanted = [x for x in leaves if x.requires_grad]
    return torch.autograd.grad((function(*leaves).double() ** 3).sum(), wanted)


def widened(x):
    return x.double() if x.is_floating_point() else x


class AgainstTorch(unittest.TestCase):
    @every_case
    def test_values_and_gradients_of_every_layout(self, case):
        layouts = (
            lambda x: x,
            lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
            lambda x: x.repeat_interleave(2, -1)[..., 1::2],
            lambda x: torch.cat((x, x, x), -1)[..., 37:74],
            lambda x: x[:1].expand(5, 3, 37),
            lambda x: x.flip(0),
        )
        for dtype, device, layout, of_mask in itertools.product(
            FLOATING, DEVICES, layouts, ((5, 3, 37), (3, 37), (5, 1, 37))
        ):
            inputs = [x.to(device) for x in case.inputs(5, 3, 37, of_mask=of_mask)]
            inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
            inputs = [layout(inputs[0]), *inputs[1:]]
            actual, expected = case.ours(*inputs), case.eager(*map(widened, inputs))
            self.assertEqual(actual.dtype, dtype)
            self.assertTrue(actual.is_contiguous())
            torch.testing.assert_close(actual, expected.to(dtype), **TOLERANCE[dtype])
            ours, theirs = gradients(case.ours, inputs), gradients(case.eager, map(widened, inputs))
            rtol, atol = TOLERANCE[dtype].values()
            for mine, exact in zip(ours, theirs):
                # A cube has rounded weights; a mask's gradient has the roundings of 5 sums.
                torch.testing.assert_close(mine, exact.to(dtype), rtol=8 * rtol, atol=8 * atol)

    def test_it_is_the_softmax_of_attention(self):
        q, k, v = (torch.randn(2, 3, 8, 16) for _ in range(3))
        kept = torch.rand(2, 1, 8, 8) < 0.6
        kept[..., 0] = True
        added = torch.randn(8, 8)
        for mask, causal in ((None, False), (None, True), (kept, False), (added, False)):
            weights = op(q @ k.mT, mask, scale=0.25, causal=causal)
            expected = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
            torch.testing.assert_close(weights @ v, expected)

    def test_module_and_function(self):
        x, mask = torch.randn(2, 3, 3), torch.randn(3)
        torch.testing.assert_close(scramjet.functional.softmax(x), torch.softmax(x, -1))
        torch.testing.assert_close(
            scramjet.functional.softmax(x, mask, scale=2), torch.softmax(x * 2 + mask, -1)
        )
        torch.testing.assert_close(scramjet.nn.Softmax()(x), torch.nn.Softmax(-1)(x))
        torch.testing.assert_close(
            scramjet.nn.Softmax(SCALE, causal=True)(x, mask), CASES[5].eager(x, mask)
        )


class OperatorContract(unittest.TestCase):
    @every_case
    def test_gradcheck_and_gradgradcheck(self, case):
        for device, shape, of_mask in itertools.product(
            DEVICES, ((2, 3, 4), (3, 5), (4, 2)), (None, -1)
        ):
            inputs = case.inputs(*shape, of_mask=of_mask and shape[of_mask:])
            inputs = leaves_of(x.to(device) for x in inputs)
            self.assertTrue(
                torch.autograd.gradcheck(
                    case.ours, inputs, check_batched_grad=True, check_forward_ad=True
                )
            )
            self.assertTrue(
                torch.autograd.gradgradcheck(case.ours, inputs, check_batched_grad=True)
            )

    def test_any_part_of_the_inputs_needs_gradients(self):
        case = CASES[2]
        for needs in ((True, False), (False, True)):
            some = [x.requires_grad_(n) for x, n in zip(case.inputs(3, 4, of_mask=(4,)), needs)]
            wanted = [x for x in some if x.requires_grad]
            ours, theirs = (
                torch.autograd.grad((f(*some) ** 3).sum(), wanted) for f in (case.ours, case.eager)
            )
            torch.testing.assert_close(ours, theirs)
            self.assertTrue(torch.autograd.gradgradcheck(case.ours, some))

    @every_case
    def test_opcheck(self, case):
        for device in DEVICES:
            for make in (
                lambda: torch.randn(3, 5),
                lambda: torch.randn(5, 3).t(),
                lambda: torch.randn(2, 3, 4).half(),
                lambda: torch.randn(0, 4),
                lambda: torch.randn(4, 6)[:, ::2],
                lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
            ):
                x = make().to(device)
                mask = [m.to(device) for m in case.inputs(*x.shape)[1:]]
                mask = [m.to(x.dtype) if m.is_floating_point() else m for m in mask]
                options = {"scale": SCALE, "causal": case.causal}
                with self.subTest(device=device, x=x):
                    torch.library.opcheck(op, (x, *mask), options)
                    torch.library.opcheck(op, tuple(leaves_of((x, *mask))), options)
                    of_bool = [m for m in mask if m.dtype == torch.bool]
                    torch.library.opcheck(
                        torch.ops.scramjet.softmax_backward,
                        (torch.randn_like(x), torch.softmax(x, -1), *of_bool),
                        options,
                    )

    @every_case
    def test_compile(self, case):
        def f(x, *mask):
            return case.ours(x * 2, *mask) + 1

        for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", None)):
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend=backend)
            for shape in ((2, 3, 5), (3, 4, 6), (4, 7, 9)):
                inputs = case.inputs(*shape, of_mask=shape[1:], dtype=torch.float32)
                torch.testing.assert_close(compiled(*inputs), f(*inputs))
                torch.testing.assert_close(gradients(compiled, inputs), gradients(f, inputs))

    def test_export(self):
        batch = torch.export.Dim("batch", min=2)
        module = scramjet.nn.Softmax(SCALE, causal=True)
        program = torch.export.export(
            module, (torch.randn(4, 3, 5), torch.randn(3, 5)), dynamic_shapes=({0: batch}, None)
        )
        self.assertIn("scramjet.softmax.default", str(program.graph))
        longer = (torch.randn(9, 3, 5), torch.randn(3, 5))
        torch.testing.assert_close(program.module()(*longer), module(*longer))

    @every_case
    def test_vmap(self, case):
        for of_mask in ((2, 4, 5), (4, 5), (5,), (2, 1, 5)):
            inputs = case.inputs(2, 4, 5, of_mask=of_mask)
            batches = [torch.stack((x, x.flip(-2 if x.dim() > 1 else 0), x)) for x in inputs]
            batches = [b.index_fill(-1, torch.tensor(0), True) if b.dtype == torch.bool else b for b in batches]
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # "no batching rule" is a warning
                for is_mapped in itertools.product((False, True), repeat=len(inputs)):
                    if not any(is_mapped):
                        continue
                    arguments = [b if m else x for x, b, m in zip(inputs, batches, is_mapped)]
                    for dim in (0, -1):
                        moved = [x.movedim(0, dim) if m else x for x, m in zip(arguments, is_mapped)]
                        dims = tuple(dim if m else None for m in is_mapped)
                        ours, theirs = (
                            torch.vmap(f, in_dims=dims)(*moved) for f in (case.ours, case.eager)
                        )
                        torch.testing.assert_close(ours, theirs)
                twice = [b[:, None] for b in batches]
                ours, theirs = (torch.vmap(torch.vmap(f))(*twice) for f in (case.ours, case.eager))
                torch.testing.assert_close(ours, theirs)

    @every_case
    def test_gradients_of_each_sample(self, case):
        x, *mask = case.inputs(3, 4, 5, of_mask=(4, 5))
        count = 1 + (case.mask == "added")

        def of(function):
            def of_sample(*sample):
                return (function(*sample) ** 3).sum()

            dims = (0,) + (None,) * len(mask)
            return torch.vmap(torch.func.grad(of_sample, tuple(range(count))), in_dims=dims)(x, *mask)

        torch.testing.assert_close(of(case.ours), of(case.eager))

    @every_case
    def test_function_transforms(self, case):
        inputs = case.inputs(2, 3, of_mask=(3,))
        for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
            for argument in range(1 + (case.mask == "added")):
                torch.testing.assert_close(
                    transform(case.ours, argument)(*inputs), transform(case.eager, argument)(*inputs)
                )

    def test_script_save_load(self):
        module = scramjet.nn.Softmax(SCALE, causal=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (FutureWarning, DeprecationWarning))
            scripted = torch.jit.script(module)
            buffer = io.BytesIO()
            torch.jit.save(scripted, buffer)
            buffer.seek(0)
            loaded = torch.jit.load(buffer)
        x, mask = torch.randn(2, 3, 4), torch.randn(3, 4)
        for other in (scripted, loaded):
            torch.testing.assert_close(other(x), module(x))
            torch.testing.assert_close(other(x, mask), module(x, mask))

    @every_case
    def test_grad_modes(self, case):
        x, *mask = case.inputs(3, 4)
        x.requires_grad_()
        self.assertTrue(case.ours(x, *mask).requires_grad)
        with torch.no_grad():
            self.assertFalse(case.ours(x, *mask).requires_grad)
        with torch.inference_mode():
            self.assertTrue(case.ours(x, *mask).is_inference())

    def test_what_is_saved_must_not_be_written(self):
        x = torch.randn(3, 4, requires_grad=True)
        kept = torch.ones(3, 4, dtype=torch.bool)
        for write in (lambda y: y.detach().add_(1), lambda y: kept.fill_(True)):
            y = op(x, kept)
            write(y)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.sum().backward()
        x.detach().add_(1)  # The input is not saved.
        op(x, kept).sum().backward()

    def test_autocast_is_as_torchs(self):
        for device, dtype in itertools.product(DEVICES, (torch.bfloat16, torch.float16)):
            for of_input, of_mask in itertools.product(FLOATING, FLOATING):
                x, mask = (t.to(device) for t in CASES[2].inputs(3, 8, dtype=torch.float32))
                x, mask = x.to(of_input), mask.to(of_mask)
                with self.subTest(input=of_input, mask=of_mask):
                    with torch.autocast(device, dtype=dtype):
                        self.assertEqual(op(x).dtype, torch.softmax(x, -1).dtype)
                        ours, theirs = CASES[2].ours(x, mask), CASES[2].eager(x, mask)
                    # The mask does not make the result wider.
                    self.assertEqual(ours.dtype, op(x).dtype if device == "cpu" else theirs.dtype)
                    torch.testing.assert_close(
                        ours.double(), theirs.double(), rtol=2**-6, atol=2**-6
                    )

    @every_case
    def test_neg_view(self, case):
        x, *mask = case.inputs(3, 4)
        x = torch.complex(x, x).conj().imag
        self.assertTrue(x.is_neg())
        torch.testing.assert_close(case.ours(x, *mask), case.eager(x, *mask))


class BadInput(unittest.TestCase):
    def assert_says(self, error, pattern, call, *args, **options):
        with self.assertRaisesRegex(error, pattern):
            call(*args, **options)

    def test_each_device(self):
        for device in (*DEVICES, "meta"):
            x = torch.zeros(2, 3, device=device)
            self.assert_says(TypeError, "softmax: argument 'input' has dtype Long; expected", op, x.long())
            self.assert_says(TypeError, "'mask' has dtype Double; expected Bool", op, x, x.double())
            self.assert_says(TypeError, "'mask' has dtype Long; expected Bool", op, x, x.long())
            self.assert_says(ValueError, r"'mask' has shape \[2\]; expected one that", op, x, x[:, 0])
            self.assert_says(ValueError, r"'input' has shape \[3\]; expected", op, x[0], causal=True)

    def test_device_and_layout(self):
        x = torch.eye(3)
        self.assert_says(ValueError, "'mask' is on meta; expected the device", op, x, x.to("meta"))
        self.assert_says(NotImplementedError, "'input' is a Sparse", op, x.to_sparse())
        self.assert_says(NotImplementedError, "'mask' is a Sparse", op, x, x.to_sparse())


if __name__ == "__main__":
    unittest.main()
