"""Scramjet's operators as torch.nn modules, also in TorchScript. The functions are scramjet.functional's."""

import torch
from torch import Tensor

__all__ = ["GeluMul", "Sigmoid", "SiluMul"]


class Sigmoid(torch.nn.Module):
    """Takes the place of torch.nn.Sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.scramjet.sigmoid(x)


class SiluMul(torch.nn.Module):
    """silu(gate) * up, the middle of a SwiGLU feed-forward block: `SiluMul()(gate(x), up(x))`."""

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        return torch.ops.scramjet.silu_mul(gate, up)


class GeluMul(torch.nn.Module):
    """gelu(gate) * up, the middle of a GeGLU feed-forward block. `approximate`: "none" or "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(
                f"GeluMul: argument 'approximate' is {approximate!r}; expected 'none' or 'tanh'"
            )
        self.approximate = approximate

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        return torch.ops.scramjet.gelu_mul(gate, up, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"
