"""Scramjet's operators as functions: thin names for torch.ops.scramjet.*.

Every function takes dense tensors of any shape and strides on CPU, CUDA or meta; a sparse or
quantized tensor, or one on another device, is a NotImplementedError.
"""

import torch
from torch import Tensor

__all__ = ["gelu_mul", "sigmoid", "silu_mul"]

# The overloads themselves: finding one anew from its name costs more than a small tensor's arithmetic.
_gelu_mul = torch.ops.scramjet.gelu_mul.default
_sigmoid = torch.ops.scramjet.sigmoid.default
_silu_mul = torch.ops.scramjet.silu_mul.default


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), elementwise, as torch.sigmoid.

    Args:
        x: float, double, half and bfloat16 keep their dtype; integers and bool become the default
            dtype.

    Returns:
        A new tensor of x's shape, with the strides that torch.sigmoid gives.

    Raises:
        TypeError: x is complex or of another dtype.
    """
    return _sigmoid(x)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up in one pass over memory, where silu(x) = x / (1 + exp(-x)).

    The middle of a SwiGLU feed-forward block (Shazeer 2020, "GLU Variants Improve Transformer").

    Args:
        gate: float, double, half or bfloat16; half and bfloat16 compute in float and round once.
        up: of gate's shape, dtype and device. The two halves of one projection,
            `x.chunk(2, -1)`, need no copy.

    Returns:
        A new tensor of that shape and dtype, with the strides of `gate * up`.

    Raises:
        TypeError: another dtype, or two different ones (under autocast the narrower is cast).
        ValueError: two different shapes or devices.
    """
    return _silu_mul(gate, up)


def gelu_mul(gate: Tensor, up: Tensor, approximate: str = "none") -> Tensor:
    """gelu(gate) * up in one pass over memory: the middle of a GeGLU feed-forward block.

    Args:
        gate: float, double, half or bfloat16; half and bfloat16 compute in float and round once.
        up: of gate's shape, dtype and device.
        approximate: "none" for gelu(x) = x / 2 * (1 + erf(x / sqrt(2))), "tanh" for
            x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), as torch.nn.functional.gelu.

    Returns:
        A new tensor of that shape and dtype, with the strides of `gate * up`.

    Raises:
        TypeError: another dtype, or two different ones (under autocast the narrower is cast).
        ValueError: two different shapes or devices, or another `approximate`.
    """
    return _gelu_mul(gate, up, approximate=approximate)
