"""The norms of scramjet:: against torch's operators, and against the contract of an operator."""

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
EPS = 1e-5


class Operator(NamedTuple):
    """Called on x, the residual, the weight and the bias, as far as it has them."""

    name: str
    has_residual: bool
    is_layer: bool
    module: type

    def ours(self, x, *others):
        residual = others[:1] if self.has_residual else ()
        parameters = others[len(residual) :]
        shape = parameters[0].shape
        return getattr(ops, self.name)(x, *residual, shape, *parameters, EPS)

    def eager(self, x, *others):
        if not self.has_residual:
            return self.norm(x, *others)
        total = x + others[0]
        return self.norm(total, *others[1:]), total

    def norm(self, x, weight, *bias):
        return (F.layer_norm if self.is_layer else F.rms_norm)(x, weight.shape, weight, *bias, EPS)

    def inputs(self, *shape, dims=1, dtype=torch.float64, **options):
        tensors = [torch.randn(shape, dtype=dtype) for _ in range(1 + self.has_residual)]
        tensors += [torch.rand(shape[-dims:], dtype=dtype) + 0.5 for _ in range(1 + self.is_layer)]
        return [x.requires_grad_(**options) if options else x for x in tensors]

    def backward(self):
        return ops.layer_norm_backward if self.is_layer else ops.rms_norm_backward


OPERATORS = (
    Operator("rms_norm", False, False, scramjet.nn.RMSNorm),
    Operator("layer_norm", False, True, scramjet.nn.LayerNorm),
    Operator("add_rms_norm", True, False, scramjet.nn.AddRMSNorm),
    Operator("add_layer_norm", True, True, scramjet.nn.AddLayerNorm),
)
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 2**-9, "atol": 2**-9},
    torch.bfloat16: {"rtol": 2**-6, "atol": 2**-6},
}


def every_operator(test):
    def run(self):
        for operator in OPERATORS:
            with self.subTest(operator=operator.name):
                torch.manual_seed(0)
                test(self, operator)

    run.__name__ = test.__name__
    return run


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def loss(outputs):
    return sum((y.double() ** 3).sum() for y in as_tuple(outputs))


def gradients(function, inputs, **options):
    return torch.autograd.grad(loss(function(*inputs)), inputs, **options)


class AgainstTorch(unittest.TestCase):
    @every_operator
    def test_values_and_gradients_of_every_layout(self, operator):
        layouts = (
            lambda x: x,
            lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
            lambda x: x.repeat(1, 1, 2)[..., 1::2],
            lambda x: torch.cat((x, x, x), -1)[..., 37:74],
            lambda x: x[:1].expand(5, 3, 37),
            lambda x: x.flip(0)[2:],
        )
        for dtype, device, layout in itertools.product(FLOATING, DEVICES, layouts):
            inputs = [x.to(device, dtype) for x in operator.inputs(5, 3, 37)]
            count = 1 + operator.has_residual
            inputs[:count] = [layout(x) for x in inputs[:count]]
            leaves = [x.detach().requires_grad_() for x in inputs]
            wide = [x.detach().double().requires_grad_() for x in inputs]
            expected, actual = operator.eager(*wide), operator.ours(*leaves)
            for ours, theirs in zip(as_tuple(actual), as_tuple(expected)):
                self.assertEqual(ours.dtype, dtype)
                self.assertTrue(ours.is_contiguous())
                torch.testing.assert_close(ours, theirs.to(dtype), **TOLERANCE[dtype])
            grads = [torch.rand_like(y) + 0.5 for y in as_tuple(actual)]
            ours = torch.autograd.grad(actual, leaves, grads)
            theirs = torch.autograd.grad(expected, wide, [g.double() for g in grads])
            rtol, atol = TOLERANCE[dtype].values()
            for mine, exact in zip(ours, theirs):
                # A parameter's gradient has the roundings of 15 sums.
                torch.testing.assert_close(mine, exact.to(dtype), rtol=rtol, atol=4 * atol)

    @every_operator
    def test_several_dimensions(self, operator):
        for dims in (2, 3):
            inputs = operator.inputs(4, 3, 5, dims=dims)
            torch.testing.assert_close(operator.ours(*inputs), operator.eager(*inputs))

    @every_operator
    def test_one_tensor_is_input_and_residual(self, operator):
        if not operator.has_residual:
            return
        x, *parameters = (t.requires_grad_() for t in OPERATORS[operator.is_layer].inputs(4, 7))
        ours, theirs = (
            torch.autograd.grad(loss(f(x, x, *parameters)), (x, *parameters))
            for f in (operator.ours, operator.eager)
        )
        torch.testing.assert_close(ours, theirs)

    def test_modules_take_the_place_of_torchs(self):
        x, residual = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
        for ours, theirs in (
            (scramjet.nn.RMSNorm(8), torch.nn.RMSNorm(8)),
            (scramjet.nn.RMSNorm((3, 8), eps=0.1), torch.nn.RMSNorm((3, 8), eps=0.1)),
            (
                scramjet.nn.RMSNorm(8, elementwise_affine=False),
                torch.nn.RMSNorm(8, elementwise_affine=False),
            ),
            (scramjet.nn.LayerNorm(8), torch.nn.LayerNorm(8)),
            (scramjet.nn.LayerNorm(8, bias=False), torch.nn.LayerNorm(8, bias=False)),
            (
                scramjet.nn.LayerNorm(8, elementwise_affine=False),
                torch.nn.LayerNorm(8, elementwise_affine=False),
            ),
        ):
            for parameter in theirs.parameters():
                torch.nn.init.normal_(parameter)
            ours.load_state_dict(theirs.state_dict())
            torch.testing.assert_close(ours(x), theirs(x))
            add = scramjet.nn.AddRMSNorm if "RMS" in repr(ours) else scramjet.nn.AddLayerNorm
            if theirs.normalized_shape == (8,) and getattr(theirs, "bias", None) is not None:
                add = add(8, theirs.eps)
                add.load_state_dict(theirs.state_dict())
                y, total = add(x, residual)
                torch.testing.assert_close(y, theirs(x + residual))
                torch.testing.assert_close(total, x + residual)

    def test_functions(self):
        x, r, w, b = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4), torch.randn(4)
        f = scramjet.functional
        torch.testing.assert_close(f.rms_norm(x, (4,), w), F.rms_norm(x, (4,), w))
        torch.testing.assert_close(f.layer_norm(x, [4], w, b), F.layer_norm(x, [4], w, b))
        torch.testing.assert_close(f.add_rms_norm(x, r, (4,))[0], F.rms_norm(x + r, (4,)))
        torch.testing.assert_close(
            f.add_layer_norm(x, r, (4,), w, b, 0.5)[0], F.layer_norm(x + r, (4,), w, b, 0.5)
        )


class OperatorContract(unittest.TestCase):
    def test_cuda_kernels_are_registered_where_built(self):
        names = [operator.name for operator in OPERATORS]
        names += ["rms_norm_backward", "layer_norm_backward", "sigmoid"]
        has = {
            torch._C._dispatch_has_kernel_for_dispatch_key(f"scramjet::{name}", "CUDA")
            for name in names
        }
        self.assertEqual(len(has), 1)

    @every_operator
    def test_gradcheck_and_gradgradcheck(self, operator):
        for device in DEVICES:
            for shape, dims in (((3, 5), 1), ((2, 3, 4), 2), ((6,), 1)):
                inputs = [
                    x.to(device).requires_grad_() for x in operator.inputs(*shape, dims=dims)
                ]
                self.assertTrue(
                    torch.autograd.gradcheck(
                        operator.ours, inputs, check_batched_grad=True, check_forward_ad=True
                    )
                )
                self.assertTrue(
                    torch.autograd.gradgradcheck(operator.ours, inputs, check_batched_grad=True)
                )

    @every_operator
    def test_any_part_of_the_inputs_needs_gradients(self, operator):
        inputs = operator.inputs(3, 4)
        for needs in itertools.product((False, True), repeat=len(inputs)):
            if not any(needs):
                continue
            some = [x.detach().clone().requires_grad_(need) for x, need in zip(inputs, needs)]
            wanted = [x for x in some if x.requires_grad]
            ours, theirs = (
                torch.autograd.grad(loss(f(*some)), wanted)
                for f in (operator.ours, operator.eager)
            )
            torch.testing.assert_close(ours, theirs)
            self.assertTrue(torch.autograd.gradgradcheck(operator.ours, some))

    @every_operator
    def test_absent_parameters(self, operator):
        x = [t.requires_grad_() for t in operator.inputs(3, 4)[: 1 + operator.has_residual]]
        bias = torch.rand(4, dtype=torch.float64, requires_grad=True)
        op = getattr(ops, operator.name)

        def expected(*tensors):
            total = sum(tensors)
            y = F.layer_norm(total, (4,)) if operator.is_layer else F.rms_norm(total, (4,), eps=EPS)
            return (y, total) if operator.has_residual else y

        ours, theirs = (gradients(f, x) for f in (lambda *t: op(*t, (4,), eps=EPS), expected))
        torch.testing.assert_close(ours, theirs)
        if operator.is_layer:
            ours = torch.autograd.grad(loss(op(*x, (4,), None, bias)), (*x, bias))
            y = F.layer_norm(sum(x), (4,), None, bias)
            outputs = (y, sum(x)) if operator.has_residual else y
            torch.testing.assert_close(ours, torch.autograd.grad(loss(outputs), (*x, bias)))

    @every_operator
    def test_opcheck(self, operator):
        op = getattr(ops, operator.name)
        for device in DEVICES:
            for make, dims in (
                (lambda: torch.randn(3, 5), 1),
                (lambda: torch.randn(5, 3).t(), 1),
                (lambda: torch.randn(7), 1),
                (lambda: torch.randn(0, 4), 1),
                (lambda: torch.randn(4, 6)[:, ::2], 1),
                (lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), 2),
                (lambda: torch.randn(2, 6).half(), 1),
            ):
                x = make().to(device)
                shape = list(x.shape[-dims:])
                weight = torch.rand(shape).to(x)
                residual = (make().to(device),) if operator.has_residual else ()
                parameters = (weight, weight + 1) if operator.is_layer else (weight,)
                with self.subTest(device=device, x=x):
                    torch.library.opcheck(op, (x, *residual, shape))
                    torch.library.opcheck(op, (x, *residual, shape, *parameters, EPS))
                    leaves = [t.clone().requires_grad_() for t in (x, *residual, *parameters)]
                    count = 1 + operator.has_residual
                    torch.library.opcheck(op, (*leaves[:count], shape, *leaves[count:], EPS))
                    for grad_sum in (None, make().to(device)):
                        torch.library.opcheck(
                            operator.backward(),
                            (torch.randn_like(x), grad_sum, x, shape, *parameters, EPS),
                        )

    @every_operator
    def test_compile(self, operator):
        def f(x, *others):
            return sum(as_tuple(operator.ours(x * 2, *others))) + 1

        for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", None)):
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend=backend)
            for shape in ((3, 5), (4, 6), (7, 9)):
                inputs = [
                    x.requires_grad_() for x in operator.inputs(*shape, dtype=torch.float32)
                ]
                torch.testing.assert_close(compiled(*inputs), f(*inputs))
                torch.testing.assert_close(gradients(compiled, inputs), gradients(f, inputs))

    @every_operator
    def test_export(self, operator):
        batch = torch.export.Dim("batch", min=2)
        count = 1 + operator.has_residual
        program = torch.export.export(
            operator.module(3),
            tuple(torch.randn(4, 3) for _ in range(count)),
            dynamic_shapes=({0: batch},) * count,
        )
        self.assertIn(f"scramjet.{operator.name}.default", str(program.graph))
        longer = [torch.randn(9, 3) for _ in range(count)]
        torch.testing.assert_close(program.module()(*longer), operator.module(3)(*longer))

    @every_operator
    def test_vmap(self, operator):
        inputs = operator.inputs(4, 5)
        batches = [torch.stack((x, x + 1, x * 2)) for x in inputs]
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
                        torch.vmap(f, in_dims=dims)(*moved)
                        for f in (operator.ours, operator.eager)
                    )
                    torch.testing.assert_close(ours, theirs)
            twice = (0,) * (1 + operator.has_residual)
            dims = twice + (None,) * (len(inputs) - len(twice))
            arguments = [x[:, None] if d == 0 else y for x, y, d in zip(batches, inputs, dims)]
            ours, theirs = (
                torch.vmap(torch.vmap(f, in_dims=dims), in_dims=dims)(*arguments)
                for f in (operator.ours, operator.eager)
            )
            torch.testing.assert_close(ours, theirs)

    @every_operator
    def test_gradients_of_each_sample(self, operator):
        x, *others = operator.inputs(4, 5)
        batch = torch.stack((x, x * 2 + 1, x - 3))

        def of(function):
            def of_sample(sample, *rest):
                return loss(function(sample, *rest))

            everything = tuple(range(len(others) + 1))
            dims = (0,) + (None,) * len(others)
            return torch.vmap(torch.func.grad(of_sample, everything), in_dims=dims)(batch, *others)

        torch.testing.assert_close(of(operator.ours), of(operator.eager))

    @every_operator
    def test_function_transforms(self, operator):
        inputs = operator.inputs(2, 3)
        for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
            for argument in range(len(inputs)):
                torch.testing.assert_close(
                    transform(operator.ours, argument)(*inputs),
                    transform(operator.eager, argument)(*inputs),
                )

    @every_operator
    def test_script_save_load(self, operator):
        module = operator.module((3, 4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (FutureWarning, DeprecationWarning))
            scripted = torch.jit.script(module)
            buffer = io.BytesIO()
            torch.jit.save(scripted, buffer)
            buffer.seek(0)
            loaded = torch.jit.load(buffer)
        x = [torch.randn(2, 3, 4) for _ in range(1 + operator.has_residual)]
        for other in (scripted, loaded):
            torch.testing.assert_close(other(*x), module(*x))

    @every_operator
    def test_grad_modes(self, operator):
        inputs = operator.inputs(3, 4)
        inputs[-1].requires_grad_()
        self.assertTrue(as_tuple(operator.ours(*inputs))[0].requires_grad)
        with torch.no_grad():
            self.assertFalse(as_tuple(operator.ours(*inputs))[0].requires_grad)
        with torch.inference_mode():
            self.assertTrue(as_tuple(operator.ours(*inputs))[0].is_inference())

    @every_operator
    def test_saved_input_that_was_written_is_an_error(self, operator):
        inputs = operator.inputs(3, 4)
        inputs[-1].requires_grad_()
        outputs = as_tuple(operator.ours(*inputs))
        (outputs[1] if operator.has_residual else inputs[0]).detach().add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            outputs[0].sum().backward()

    @every_operator
    def test_autocast_is_as_torchs(self, operator):
        for device, dtype in itertools.product(DEVICES, (torch.bfloat16, torch.float16)):
            for of_input, of_residual, of_weight in itertools.product(FLOATING[:1] + FLOATING[2:], repeat=3):
                if of_input != of_residual and not operator.has_residual:
                    continue
                if torch.promote_types(of_input, of_residual) not in (of_weight, *FLOATING[2:]):
                    continue  # eager's is an error
                if of_weight not in (torch.promote_types(of_input, of_residual), torch.float32):
                    continue
                x, *others = (t.to(device) for t in operator.inputs(3, 8, dtype=torch.float32))
                residual = [others.pop(0).to(of_residual)] if operator.has_residual else []
                arguments = [x.to(of_input), *residual, *(t.to(of_weight) for t in others)]
                with self.subTest(input=of_input, residual=of_residual, weight=of_weight):
                    with torch.autocast(device, dtype=dtype):
                        ours = as_tuple(operator.ours(*arguments))
                        theirs = as_tuple(operator.eager(*arguments))
                    for mine, other in zip(ours, theirs):
                        if operator.is_layer or of_weight == arguments[0].dtype:
                            self.assertEqual(mine.dtype, other.dtype)
                        torch.testing.assert_close(
                            mine.double(), other.double(), rtol=2**-6, atol=2**-6
                        )

    @every_operator
    def test_neg_view(self, operator):
        x, *others = operator.inputs(3, 4)
        x = torch.complex(x, x).conj().imag
        self.assertTrue(x.is_neg())
        torch.testing.assert_close(operator.ours(x, *others), operator.eager(x, *others))


class BadInput(unittest.TestCase):
    def assert_says(self, error, pattern, call, *args, **options):
        with self.assertRaisesRegex(error, pattern):
            call(*args, **options)

    def test_each_device(self):
        for device in (*DEVICES, "meta"):
            x = torch.zeros(2, 3, device=device)
            for arguments, error, pattern in (
                ((x.long(), [3]), TypeError, "rms_norm: argument 'input' has dtype Long; expected"),
                ((x, [3], x[0].double()), TypeError, "'weight' has dtype Double; expected that of"),
                ((x, []), ValueError, r"'normalized_shape' is \[\]; expected at least one"),
                ((x, [2]), ValueError, r"'normalized_shape' is \[2\]; expected the last dimensions"),
                ((x, [3], x[0, :2]), ValueError, r"'weight' has shape \[2\]; expected"),
            ):
                self.assert_says(error, pattern, ops.rms_norm, *arguments)
            self.assert_says(
                ValueError, "'residual' has shape", ops.add_layer_norm, x, x[:1], [3]
            )
            self.assert_says(
                TypeError, "'residual' has dtype", ops.add_rms_norm, x, x.double(), [3]
            )

    def test_layout(self):
        x = torch.eye(3)
        self.assert_says(
            NotImplementedError, "argument 'input' is a Sparse", ops.rms_norm, x.to_sparse(), [3]
        )
        self.assert_says(
            NotImplementedError,
            "argument 'residual' is a Sparse",
            ops.add_rms_norm,
            x,
            x.to_sparse(),
            [3],
        )


if __name__ == "__main__":
    unittest.main()
