"""The losses of scramjet:: against torch's operators, and against the contract of an operator."""

import io
import itertools
import unittest
import warnings
from typing import NamedTuple

import scramjet
import torch
from elementwise_inputs import DEVICES, FLOATING
from torch.nn import functional as F

ops = torch.ops.scramjet
NAMES = ("cross_entropy", "linear_cross_entropy")
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 2**-8, "atol": 2**-9},
    torch.bfloat16: {"rtol": 2**-5, "atol": 2**-6},
}


class Options(NamedTuple):
    reduction: str = "mean"
    ignore_index: int = -100
    label_smoothing: float = 0.0
    z_loss: float = 0.0


OPTIONS = (
    Options(),
    Options("none"),
    Options("sum", 1),
    Options("mean", label_smoothing=0.1),
    Options("none", label_smoothing=0.2, z_loss=1e-2),
    Options("mean", 0, z_loss=1e-2),
)


class Operator(NamedTuple):
    """Called on the floating operands, then the target; `target` and `options` are bound first."""

    is_linear: bool
    options: Options

    @property
    def name(self):
        return NAMES[self.is_linear]

    def ours(self, target):
        def loss(x, *others):
            if not self.is_linear:
                return ops.cross_entropy(x, target, **self.options._asdict())
            return ops.linear_cross_entropy(
                x, others[0], target, *others[1:], **self.options._asdict()
            )

        return loss

    def eager(self, target):
        reduction, ignore_index, label_smoothing, z_loss = self.options

        def loss(x, *others):
            logits = F.linear(x, *others) if self.is_linear else x
            losses = F.cross_entropy(
                logits,
                target,
                reduction="none",
                ignore_index=ignore_index,
                label_smoothing=label_smoothing,
            )
            counts = target != ignore_index
            losses = losses + torch.where(counts, z_loss * logits.logsumexp(1) ** 2, 0)
            if reduction == "none":
                return losses
            return losses.sum() / (counts.sum() if reduction == "mean" else 1)

        return loss

    def inputs(self, rows, classes, dtype=torch.float64, device="cpu"):
        shapes = ((rows, 3), (classes, 3), (classes,)) if self.is_linear else ((rows, classes),)
        return [torch.randn(shape, dtype=torch.float64).to(device, dtype) for shape in shapes]

    def target(self, rows, classes, device="cpu"):
        """Some of it ignored."""
        target = torch.randint(classes, (rows,), device=device)
        target[1::3] = self.options.ignore_index
        return target


OPERATORS = tuple(Operator(*o) for o in itertools.product((False, True), OPTIONS))


def every_operator(test):
    def run(self):
        for operator in OPERATORS:
            with self.subTest(operator=operator):
                torch.manual_seed(0)
                test(self, operator)

    run.__name__ = test.__name__
    return run


def gradients(function, inputs):
    return torch.autograd.grad((function(*inputs).double() ** 3).sum(), inputs)


def leaves(inputs):
    return [x.detach().clone().requires_grad_() for x in inputs]


class AgainstTorch(unittest.TestCase):
    @every_operator
    def test_values_and_gradients_of_every_layout(self, operator):
        layouts = (
            lambda x: x,
            lambda x: x.t().contiguous().t(),
            lambda x: x.repeat_interleave(2, -1)[..., 1::2],
            lambda x: torch.cat((x, x, x), -1)[..., x.shape[-1] : 2 * x.shape[-1]],
            lambda x: x[:1].expand_as(x),
            lambda x: x.flip(0),
        )
        for dtype, device, layout in itertools.product(FLOATING, DEVICES, layouts):
            inputs = [layout(x) for x in operator.inputs(9, 37, dtype, device)]
            target = operator.target(9, 37, device)
            ours, theirs = operator.ours(target), operator.eager(target)
            some, wide = (
                [x.detach().to(d).requires_grad_() for x in inputs] for d in (dtype, torch.float64)
            )
            actual, expected = ours(*some), theirs(*wide)
            self.assertEqual(actual.dtype, dtype)
            torch.testing.assert_close(actual, expected.to(dtype), **TOLERANCE[dtype])
            grad = torch.rand_like(actual) + 0.5
            mine = torch.autograd.grad(actual, some, grad)
            exact = torch.autograd.grad(expected, wide, grad.double())
            rtol, atol = TOLERANCE[dtype].values()
            for x, y in zip(mine, exact):
                torch.testing.assert_close(x, y.to(dtype), rtol=rtol, atol=2 * atol)

    def test_modules_take_the_place_of_torchs(self):
        x, target = torch.randn(6, 5), torch.tensor([0, 4, -100, 2, 1, 7])
        options = {"ignore_index": 7, "reduction": "sum", "label_smoothing": 0.1}
        target[2] = 3
        ours = scramjet.nn.CrossEntropyLoss(**options)
        theirs = torch.nn.CrossEntropyLoss(**options)
        torch.testing.assert_close(ours(x, target), theirs(x, target))
        linear = torch.nn.Linear(5, 9)
        head = scramjet.nn.LinearCrossEntropyLoss(5, 9, **options)
        head.load_state_dict(linear.state_dict())
        torch.testing.assert_close(head(x, target), theirs(linear(x), target))
        without = scramjet.nn.LinearCrossEntropyLoss(5, 9, bias=False, **options)
        without.weight = linear.weight
        torch.testing.assert_close(
            without(x, target), theirs(F.linear(x, linear.weight), target)
        )

    def test_functions(self):
        x, w, b, t = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5), torch.arange(4) % 3
        f = scramjet.functional
        torch.testing.assert_close(f.cross_entropy(x, t), F.cross_entropy(x, t))
        torch.testing.assert_close(
            f.linear_cross_entropy(x, w, t, b, reduction="sum", label_smoothing=0.5),
            F.cross_entropy(F.linear(x, w, b), t, reduction="sum", label_smoothing=0.5),
        )
        half = f.cross_entropy(x.bfloat16(), t, dtype=torch.float32)
        torch.testing.assert_close(half, F.cross_entropy(x.bfloat16().float(), t))


class OperatorContract(unittest.TestCase):
    def test_cuda_kernels_are_registered_where_built(self):
        names = [name + suffix for name in NAMES for suffix in ("", "_forward", "_backward")]
        has = {
            torch._C._dispatch_has_kernel_for_dispatch_key(f"scramjet::{name}", "CUDA")
            for name in (*names, "sigmoid")
        }
        self.assertEqual(len(has), 1)

    @every_operator
    def test_gradcheck_and_gradgradcheck(self, operator):
        for device in DEVICES:
            target = operator.target(4, 5, device)
            inputs = leaves(operator.inputs(4, 5, device=device))
            # A second backward of the linear loss computes anew what the forward had made.
            check = {"check_batched_grad": True, "nondet_tol": 1e-13}
            self.assertTrue(
                torch.autograd.gradcheck(
                    operator.ours(target), inputs, check_forward_ad=True, **check
                )
            )
            self.assertTrue(torch.autograd.gradgradcheck(operator.ours(target), inputs, **check))

    @every_operator
    def test_any_part_of_the_inputs_needs_gradients(self, operator):
        target, inputs = operator.target(4, 5), operator.inputs(4, 5)
        for needs in itertools.product((False, True), repeat=len(inputs)):
            if not any(needs):
                continue
            some = [x.clone().requires_grad_(need) for x, need in zip(inputs, needs)]
            wanted = [x for x in some if x.requires_grad]
            ours, theirs = (
                torch.autograd.grad((f(*some) ** 3).sum(), wanted)
                for f in (operator.ours(target), operator.eager(target))
            )
            torch.testing.assert_close(ours, theirs)
            self.assertTrue(torch.autograd.gradgradcheck(operator.ours(target), some))

    def test_opcheck(self):
        for device, dtype, options in itertools.product(
            DEVICES, (torch.float32, torch.bfloat16), OPTIONS
        ):
            named = options._asdict()
            # Of no row the mean is NaN, which opcheck takes for a difference.
            for rows in (5,) if options.reduction == "mean" else (5, 0):
                logits, x, weight = (
                    torch.randn(shape, dtype=dtype, device=device)
                    for shape in ((rows, 7), (rows, 3), (7, 3))
                )
                bias = weight[:, 0].contiguous()
                target = Operator(False, options).target(rows, 7, device)
                grad = logits[:, 0] if options.reduction == "none" else weight.sum()
                with self.subTest(device=device, dtype=dtype, options=options, rows=rows):
                    lse = ops.cross_entropy_forward(logits, target, **named)[1]
                    every = {"gradients": (True, True, True), **named}
                    weights = {"gradients": (False, True, False), **named}
                    for op, arguments, keywords in (
                        (ops.cross_entropy, (logits, target), named),
                        (ops.cross_entropy, (*leaves((logits,)), target), named),
                        (ops.cross_entropy_forward, (logits, target), named),
                        (ops.cross_entropy_backward, (grad, logits, target, lse), named),
                        (ops.linear_cross_entropy, (x, weight, target, bias), named),
                        (ops.linear_cross_entropy, (*leaves((x, weight)), target), named),
                        (ops.linear_cross_entropy_forward, (x, weight, target, bias), every),
                        (ops.linear_cross_entropy_forward, (x, weight, target), weights),
                        (
                            ops.linear_cross_entropy_backward,
                            (grad, x, weight, target, lse, bias),
                            every,
                        ),
                    ):
                        torch.library.opcheck(op, arguments, keywords)

    @every_operator
    def test_compile(self, operator):
        def f(target, x, *others):
            return operator.ours(target)(x * 2, *others) + 1

        for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", None)):
            if backend == "inductor" and operator.options not in OPTIONS[:2]:
                continue  # (it takes seconds each)
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend=backend)
            for rows, classes in ((4, 5), (6, 7), (9, 11)):
                inputs = leaves(operator.inputs(rows, classes, torch.float32))
                target = operator.target(rows, classes)
                torch.testing.assert_close(compiled(target, *inputs), f(target, *inputs))
                ours, theirs = (
                    gradients(lambda *x: g(target, *x), inputs) for g in (compiled, f)
                )
                torch.testing.assert_close(ours, theirs)

    def test_export(self):
        batch = torch.export.Dim("batch", min=2)
        target = torch.tensor([0, 3, 2, -100])
        for module, width in (
            (scramjet.nn.CrossEntropyLoss(), 5),
            (scramjet.nn.LinearCrossEntropyLoss(3, 5), 3),
        ):
            name = NAMES[width == 3]
            program = torch.export.export(
                module, (torch.randn(4, width), target), dynamic_shapes=({0: batch},) * 2
            )
            self.assertIn(f"scramjet.{name}.default", str(program.graph))
            longer = torch.randn(8, width), target.repeat(2)
            torch.testing.assert_close(program.module()(*longer), module(*longer))

    @every_operator
    def test_vmap(self, operator):
        inputs = [*operator.inputs(4, 5), operator.target(4, 5)]
        other = [*(x + 1 for x in inputs[:-1]), operator.target(4, 5).flip(0)]
        batches = [torch.stack(pair) for pair in zip(inputs, other)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "no batching rule" is a warning
            for is_mapped in itertools.product((False, True), repeat=len(inputs)):
                if not any(is_mapped):
                    continue
                arguments = [b if m else x for x, b, m in zip(inputs, batches, is_mapped)]
                dims = tuple(0 if m else None for m in is_mapped)
                ours = torch.vmap(lambda *x: operator.ours(x[-1])(*x[:-1]), in_dims=dims)
                # Eager's own fails with label smoothing where the target alone is mapped.
                samples = [[x[i] if m else x for x, m in zip(arguments, is_mapped)] for i in (0, 1)]
                theirs = torch.stack([operator.eager(x[-1])(*x[:-1]) for x in samples])
                torch.testing.assert_close(ours(*arguments), theirs)

    @every_operator
    def test_function_transforms(self, operator):
        target, inputs = operator.target(2, 3), operator.inputs(2, 3)
        for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
            for argument in range(len(inputs)):
                torch.testing.assert_close(
                    transform(operator.ours(target), argument)(*inputs),
                    transform(operator.eager(target), argument)(*inputs),
                )

    def test_script_save_load(self):
        target = torch.tensor([0, 3, 2, -100])
        for module, width in (
            (scramjet.nn.CrossEntropyLoss(z_loss=0.1), 5),
            (scramjet.nn.LinearCrossEntropyLoss(3, 5, reduction="none"), 3),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", (FutureWarning, DeprecationWarning))
                scripted = torch.jit.script(module)
                buffer = io.BytesIO()
                torch.jit.save(scripted, buffer)
                buffer.seek(0)
                loaded = torch.jit.load(buffer)
            x = torch.randn(4, width)
            for other in (scripted, loaded):
                torch.testing.assert_close(other(x, target), module(x, target))

    @every_operator
    def test_grad_modes(self, operator):
        f = operator.ours(operator.target(4, 5))
        inputs = leaves(operator.inputs(4, 5))
        self.assertTrue(f(*inputs).requires_grad)
        with torch.no_grad():
            self.assertFalse(f(*inputs).requires_grad)
        with torch.inference_mode():
            self.assertTrue(f(*inputs).is_inference())

    @every_operator
    def test_saved_input_that_was_written_is_an_error(self, operator):
        inputs = leaves(operator.inputs(4, 5))
        loss = operator.ours(operator.target(4, 5))(*inputs)
        inputs[0].detach().add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.sum().backward()

    @every_operator
    def test_autocast_is_as_torchs(self, operator):
        for device, dtype, of_input in itertools.product(
            DEVICES, (torch.bfloat16, torch.float16), (torch.float32, torch.bfloat16)
        ):
            inputs = leaves(operator.inputs(6, 9, of_input, device))
            target = operator.target(6, 9, device)
            with torch.autocast(device, dtype=dtype):
                ours, theirs = (f(target)(*inputs) for f in (operator.ours, operator.eager))
            self.assertEqual(ours.dtype, torch.float32)
            torch.testing.assert_close(ours, theirs.float(), rtol=2**-6, atol=2**-6)
            mine, other = (torch.autograd.grad(y.sum(), inputs) for y in (ours, theirs))
            for x, y in zip(mine, other):
                self.assertEqual(x.dtype, of_input)
                torch.testing.assert_close(x, y, rtol=2**-5, atol=2**-5)


class BadInput(unittest.TestCase):
    def assert_says(self, error, pattern, call, *args, **options):
        with self.assertRaisesRegex(error, pattern):
            call(*args, **options)

    def test_each_device(self):
        for device in (*DEVICES, "meta"):
            x = torch.zeros(2, 3, device=device)
            target = torch.zeros(2, dtype=torch.long, device=device)
            for arguments, options, error, pattern in (
                ((x.long(), target), {}, TypeError, "cross_entropy: argument 'logits' has dtype"),
                ((x[None], target), {}, ValueError, r"has shape \[1, 2, 3\]; expected \[N, C\]"),
                ((x, x), {}, TypeError, "'target' has dtype Float; expected Long"),
                ((x, target[:1]), {}, ValueError, r"'target' has shape \[1\]; expected a class"),
                ((x, target), {"reduction": "max"}, ValueError, "'reduction' is 'max'; expected"),
                ((x, target), {"label_smoothing": -1}, ValueError, "'label_smoothing' is -1"),
                ((x, target), {"dtype": torch.half}, TypeError, "'dtype' is Half; expected"),
            ):
                self.assert_says(error, pattern, ops.cross_entropy, *arguments, **options)
            self.assert_says(
                ValueError, "'weight' has shape", ops.linear_cross_entropy, x, x[:, :1], target
            )
            self.assert_says(
                TypeError, "'bias' has dtype", ops.linear_cross_entropy, x, x, target, target
            )

    def test_target_that_is_no_class(self):
        x = torch.zeros(2, 3)
        for bad in (-1, 3):
            target = torch.tensor([0, bad])
            for call in (F.cross_entropy, ops.cross_entropy):
                self.assert_says(IndexError, str(bad), call, x, target)
            self.assert_says(IndexError, str(bad), ops.linear_cross_entropy, x, x.t() @ x, target)

    def test_layout(self):
        x, target = torch.eye(3), torch.arange(3)
        self.assert_says(
            NotImplementedError,
            "argument 'logits' is a Sparse",
            ops.cross_entropy,
            x.to_sparse(),
            target,
        )
        self.assert_says(
            NotImplementedError,
            "argument 'weight' is a Sparse",
            ops.linear_cross_entropy,
            x,
            x.to_sparse(),
            target,
        )


if __name__ == "__main__":
    unittest.main()
