"""Scramjet's operators as functions: thin names for torch.ops.scramjet.*."""

import torch
from torch import Tensor

__all__ = ["sigmoid"]

# The overload itself: finding it anew from its name costs more than a small tensor's arithmetic.
_sigmoid = torch.ops.scramjet.sigmoid.default


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), elementwise, as torch.sigmoid.

    Args:
        x: a dense tensor of any shape and strides, on CPU, CUDA or meta. float, double, half and
            bfloat16 keep their dtype; integers and bool become the default dtype.

    Returns:
        A new tensor of x's shape, with the strides that torch.sigmoid gives.

    Raises:
        TypeError: x is complex or of another dtype.
        NotImplementedError: x is sparse, quantized or on another device.
    """
    return _sigmoid(x)
