"""Scramjet's operators as torch.nn modules, also in TorchScript. The functions are scramjet.functional's."""

from typing import Optional

import torch
from torch import Tensor

__all__ = [
    "AddLayerNorm",
    "AddRMSNorm",
    "CrossEntropyLoss",
    "GeluMul",
    "LayerNorm",
    "LinearCrossEntropyLoss",
    "RMSNorm",
    "Sigmoid",
    "SiluMul",
    "Softmax",
]


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


class RMSNorm(torch.nn.RMSNorm):
    """Takes the place of torch.nn.RMSNorm, with its arguments and state."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.scramjet.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class LayerNorm(torch.nn.LayerNorm):
    """Takes the place of torch.nn.LayerNorm, with its arguments and state."""

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.scramjet.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps
        )


class AddRMSNorm(torch.nn.RMSNorm):
    """The residual addition and the RMSNorm after it: `y, x = norm(attention(y), x)`.

    Returns the normalized sum and the sum. Arguments and state are those of torch.nn.RMSNorm.
    """

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ops.scramjet.add_rms_norm(
            x, residual, self.normalized_shape, self.weight, self.eps
        )


class AddLayerNorm(torch.nn.LayerNorm):
    """The residual addition and the LayerNorm after it, as AddRMSNorm."""

    def forward(self, input: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ops.scramjet.add_layer_norm(
            input, residual, self.normalized_shape, self.weight, self.bias, self.eps
        )


class Softmax(torch.nn.Module):
    """softmax(scores * scale + mask) over the last dimension: `Softmax(causal=True)(scores, mask)`."""

    def __init__(self, scale: float = 1.0, causal: bool = False) -> None:
        super().__init__()
        self.scale = scale
        self.causal = causal

    def forward(self, input: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        return torch.ops.scramjet.softmax(input, mask, scale=self.scale, causal=self.causal)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, causal={self.causal}"


class CrossEntropyLoss(torch.nn.Module):
    """Takes the place of torch.nn.CrossEntropyLoss for logits [N, C] and class indices [N].

    The arguments are those of scramjet.functional.cross_entropy.
    """

    def __init__(
        self,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> None:
        super().__init__()
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return torch.ops.scramjet.cross_entropy(
            logits,
            target,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
        )

    def extra_repr(self) -> str:
        return (
            f"reduction={self.reduction!r}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, z_loss={self.z_loss}"
        )


class LinearCrossEntropyLoss(torch.nn.Linear):
    """A torch.nn.Linear and the cross-entropy of its output, which is never held as a whole.

        loss = LinearCrossEntropyLoss(4096, 128256, bias=False)(hidden.flatten(0, -2), target.flatten())

    State is that of torch.nn.Linear, so `loss.weight = embedding.weight` ties it. The rest of the
    arguments are those of scramjet.functional.linear_cross_entropy.
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        bias: bool = True,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(in_features, classes, bias, device=device, dtype=dtype)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return torch.ops.scramjet.linear_cross_entropy(
            input,
            self.weight,
            target,
            self.bias,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
        )
