"""What custom_function_test.cc expects of C++ functions, asked of torch.amp.custom_fwd and custom_bwd."""
import threading
import unittest

import torch

SEEN = {}


class _Mm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        SEEN.update(a=a.dtype, b=b.dtype, forward_enabled=torch.is_autocast_enabled("cpu"))
        ctx.save_for_backward(a, b)
        return a.mm(b)

    @staticmethod
    def backward(ctx, grad):
        SEEN.update(backward_enabled=torch.is_autocast_enabled("cpu"))
        a, b = ctx.saved_tensors
        grad_a = grad.mm(b.t())
        SEEN.update(product=grad_a.dtype)
        return grad_a, a.t().mm(grad)


class PlainMm(_Mm):
    forward = staticmethod(torch.amp.custom_fwd(_Mm.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(_Mm.backward, device_type="cpu"))


class FloatMm(_Mm):
    forward = staticmethod(torch.amp.custom_fwd(_Mm.forward, device_type="cpu", cast_inputs=torch.float32))
    backward = staticmethod(torch.amp.custom_bwd(_Mm.backward, device_type="cpu"))


def leaf(dtype):
    return torch.full((2, 2), 0.5, dtype=dtype).requires_grad_()


class CustomFunctionTest(unittest.TestCase):
    def expect(self, **expected):
        self.assertEqual(expected, {
name: SEEN[name] for name in expected})

    def test_without_cast_both_run_in_the_callers_state(self):
        a, b = leaf(torch.float32), leaf(torch.float32)
        with torch.autocast("cpu", dtype=torch.float16):
            y = PlainMm.apply(a, b)
        self.expect(a=torch.float32, forward_enabled=True)
        self.assertEqual(y.dtype, torch.float16)
        y.sum().backward()
        self.expect(backward_enabled=True, product=torch.float16)
        self.assertEqual(a.grad.dtype, torch.float32)

    def test_with_cast_both_run_with_autocast_off(self):
        a, b = leaf(torch.bfloat16), leaf(torch.float32)
        with torch.autocast("cpu"):
            y = FloatMm.apply(a, b)
        self.expect(a=torch.float32, b=torch.float32, forward_enabled=False)
        self.assertEqual(y.dtype, torch.float32)
        y.sum().backward()
        self.expect(backward_enabled=False, product=torch.float32)
        self.assertEqual((a.grad.dtype, b.grad.dtype), (torch.bfloat16, torch.float32))

    def test_backward_in_a_region_keeps_forwards_state(self):
        for function in PlainMm, FloatMm:
            y = function.apply(leaf(torch.float32), leaf(torch.float32))
            with torch.autocast("cpu"):
                y.sum().backward()
            self.expect(backward_enabled=False, product=torch.float32)

    def test_without_autocast_nothing_is_cast(self):
        y = FloatMm.apply(leaf(torch.bfloat16), leaf(torch.bfloat16))
        self.expect(a=torch.bfloat16)
        self.assertEqual(y.dtype, torch.bfloat16)

    def test_double_is_not_cast(self):
        with torch.autocast("cpu"):
            y = FloatMm.apply(leaf(torch.float64), leaf(torch.float64))
        self.expect(a=torch.float64)
        self.assertEqual(y.dtype, torch.float64)

    def test_backward_may_run_in_another_thread(self):
        with torch.autocast("cpu", dtype=torch.float16):
            y = PlainMm.apply(leaf(torch.float32), leaf(torch.float32))
        thread = threading.Thread(target=lambda: y.sum().backward())
        thread.start()
        thread.join()
        self.expect(backward_enabled=True, product=torch.float16)


if __name__ == "__main__":
    unittest.main()
