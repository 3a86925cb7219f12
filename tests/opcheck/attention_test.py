"""scramjet::attention against torch's attention, and against the contract of an operator."""

import unittest
import warnings

import torch
from elementwise_inputs import DEVICES, FLOATING
from scramjet import functional
from torch.nn import functional as F

ops = torch.ops.scramjet
TOLERANCE = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 2**-8, "atol": 2**-8},
    torch.bfloat16: {"rtol": 2**-5, "atol": 2**-5},
}


def operands(queries=5, keys=7, heads=4, key_heads=2, dim=4, dtype=torch.float64, **options):
    tensors = [
        torch.randn(2, heads, queries, dim, dtype=dtype),
        torch.randn(2, key_heads, keys, dim, dtype=dtype),
        torch.randn(2, key_heads, keys, dim, dtype=dtype),
    ]
    return [x.requires_grad_(**options) if options else x for x in tensors]


def lower_right(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def eager(query, key, value, mask=None, scale=None):
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scale, enable_gqa=True
    )


def both(query, key, value, mask=None, **options):
    return ops.attention(query, key, value, mask, **options)


class AgainstTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_values_and_gradients(self):
        masks = (
            (None, {}),
            (torch.rand(5, 7) > 0.3, {}),
            (torch.randn(2, 1, 5, 7), {"scale": 0.3}),
            (lower_right(5, 7), {}),
        )
        for device in DEVICES:
            for dtype in FLOATING:
                for mask, options in masks:
                    inputs = [x.to(device, dtype).requires_grad_() for x in operands()]
                    wide = [x.detach().double().requires_grad_() for x in inputs]
                    added = mask is not None and mask.is_floating_point()
                    own_mask = mask.to(device, dtype) if added else mask
                    ours = functional.attention(*inputs, own_mask, **options)
                    theirs = eager(*wide, own_mask.double() if added else mask, **options)
                    torch.testing.assert_close(ours, theirs.to(dtype), **TOLERANCE[dtype])
                    grad = torch.randn_like(ours)
                    for mine, exact in zip(
                        torch.autograd.grad(ours, inputs, grad),
                        torch.autograd.grad(theirs, wide, grad.double()),
                    ):
                        torch.testing.assert_close(mine, exact.to(dtype), **TOLERANCE[dtype])

    def test_causal_is_aligned_to_the_last_key(self):
        q, k, v = operands()
        ours = functional.attention(q, k, v, causal=True)
        torch.testing.assert_close(ours, eager(q, k, v, lower_right(5, 7)))

    def test_window(self):
        q, k, v = operands()
        distance = torch.arange(7)[None] - (torch.arange(5)[:, None] + 2)
        visible = (distance >= -2) & (distance <= 1)
        ours = functional.attention(q, k, v, window=(2, 1))
        torch.testing.assert_close(ours, eager(q, k, v, visible))

    def test_one_token_after_another_with_a_cache_is_the_whole(self):
        q, k, v = operands(queries=6, keys=6)
        whole = functional.attention(q, k, v, causal=True)
        for i in range(6):
            step = functional.attention(
                q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1], causal=True
            )
            torch.testing.assert_close(step, whole[:, :, i : i + 1])

    def test_parts_of_the_keys_join_by_their_logarithms(self):
        q, k, v = operands(keys=9)
        parts = [
            functional.attention(q, k[:, :, part], v[:, :, part], return_logsumexp=True)
            for part in (slice(0, 4), slice(4, 9))
        ]
        logs = torch.stack([log for _, log in parts])
        weights = torch.softmax(logs, 0)[..., None]
        joined = sum(w * y for w, (y, _) in zip(weights, parts))
        whole, log = functional.attention(q, k, v, return_logsumexp=True)
        torch.testing.assert_close(joined, whole)
        torch.testing.assert_close(logs.logsumexp(0), log)

    def test_autocast_takes_the_lower_precision(self):
        inputs = operands(dtype=torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ours = functional.attention(*inputs, torch.zeros(5, 7))
            theirs = eager(*inputs)
        self.assertEqual(ours.dtype, theirs.dtype)
        torch.testing.assert_close(ours, theirs, **TOLERANCE[torch.bfloat16])


class OperatorContract(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_gradcheck_and_gradgradcheck(self):
        mask = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
        for options in ({}, {"causal": True}, {"window_left": 1, "scale": 0.7}):
            inputs = operands(3, 4, 2, 1, 3, requires_grad=True)

            def f(*tensors):
                output, logs = both(*tensors, **options)
                return output, logs.clamp(min=-1e3)

            for arguments in (inputs, [*inputs, mask]):
                self.assertTrue(
                    torch.autograd.gradcheck(
                        f, arguments, check_batched_grad=True, check_forward_ad=True
                    )
                )
                self.assertTrue(torch.autograd.gradgradcheck(f, arguments))

    def test_opcheck(self):
        for device in DEVICES:
            for dtype, needs in ((torch.float32, False), (torch.float32, True), (torch.half, False)):
                inputs = [x.to(device).requires_grad_(needs) for x in operands(dtype=dtype)]
                for options in ({}, {"causal": True, "window_left": 3}):
                    torch.library.opcheck(ops.attention, inputs, options)
                    mask = (torch.rand(5, 7) > 0.5).to(device)
                    torch.library.opcheck(ops.attention, (*inputs, mask), options)
                with torch.no_grad():
                    output, logs = ops.attention(*inputs)
                arguments = (torch.randn_like(output), None, *(x.detach() for x in inputs), None)
                torch.library.opcheck(ops.attention_backward, (*arguments, output, logs))

    def test_sequences(self):
        tokens = [x.transpose(1, 2).flatten(0, 1).contiguous() for x in operands(7, 7)]
        starts = torch.tensor([0, 5, 5, 14])

        def f(q, k, v):
            return functional.attention_varlen(q, k, v, starts, starts, causal=True)

        leaves = [x.requires_grad_() for x in tokens]
        self.assertTrue(torch.autograd.gradcheck(f, leaves, check_forward_ad=True))
        self.assertTrue(torch.autograd.gradgradcheck(f, leaves))
        torch.library.opcheck(ops.attention_varlen, (*leaves, starts, starts), {"causal": True})
        plain = [x.detach() for x in leaves]
        output, logs = ops.attention_varlen(*plain, starts, starts)
        torch.library.opcheck(
            ops.attention_varlen_backward,
            (torch.randn_like(output), None, *plain, starts, starts, output, logs),
        )
        torch._dynamo.reset()
        compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*leaves), f(*leaves))
        each = torch.vmap(f)(*(torch.stack((x, x * 2)) for x in plain))
        torch.testing.assert_close(each[1], f(*(x * 2 for x in plain)))

    def test_compile(self):
        def f(q, k, v):
            return functional.attention(q * 2, k, v, causal=True) + 1

        for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("inductor", None)):
            torch._dynamo.reset()
            compiled = torch.compile(f, fullgraph=True, dynamic=dynamic, backend=backend)
            for queries, keys in ((5, 7), (6, 6), (3, 9)):
                inputs = operands(queries, keys, dtype=torch.float32, requires_grad=True)
                torch.testing.assert_close(compiled(*inputs), f(*inputs))
                ours, theirs = (
                    torch.autograd.grad(g(*inputs).square().sum(), inputs) for g in (compiled, f)
                )
                torch.testing.assert_close(ours, theirs)

    def test_export(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v):
                return functional.attention(q, k, v)

        keys = torch.export.Dim("keys", min=2)
        inputs = tuple(operands(dtype=torch.float32))
        program = torch.export.export(
            Model(), inputs, dynamic_shapes=(None, {2: keys}, {2: keys})
        )
        self.assertIn("scramjet.attention.default", str(program.graph))
        longer = operands(keys=11, dtype=torch.float32)
        torch.testing.assert_close(program.module()(*longer), Model()(*longer))

    def test_vmap(self):
        samples = [torch.stack((x, x * 2, x - 1)) for x in operands()]
        mask = torch.randn(3, 5, 7, dtype=torch.float64)

        def f(q, k, v, m):
            return functional.attention(q, k, v, m)

        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "no batching rule" is a warning
            for in_dims in ((0, 0, 0, 0), (0, None, None, None), (None, 0, 0, None), (None, None, None, 0)):
                arguments = [
                    x if dim == 0 else x[0] for x, dim in zip((*samples, mask), in_dims)
                ]
                ours = torch.vmap(f, in_dims=in_dims)(*arguments)
                for i in range(3):
                    own = [x[i] if dim == 0 else x for x, dim in zip(arguments, in_dims)]
                    torch.testing.assert_close(ours[i], f(*own))

    def test_gradients_of_each_sample(self):
        q, k, v = operands()
        batch = torch.stack((q, q * 2, q - 1))

        def loss(q, k, v):
            return functional.attention(q, k, v, causal=True).square().sum()

        ours = torch.vmap(torch.func.grad(loss, (0, 1, 2)), in_dims=(0, None, None))(batch, k, v)
        for i in range(3):
            leaves = [x.detach().requires_grad_() for x in (batch[i], k, v)]
            theirs = torch.autograd.grad(loss(*leaves), leaves)
            torch.testing.assert_close([x[i] for x in ours], list(theirs))


if __name__ == "__main__":
    unittest.main()
