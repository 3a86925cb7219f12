"""Scramjet's operators as torch.nn modules."""

import torch
from torch import Tensor

__all__ = ["Sigmoid"]


class Sigmoid(torch.nn.Module):
    """scramjet::sigmoid as a module: takes the place of torch.nn.Sigmoid, also in TorchScript."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.scramjet.sigmoid(x)
