"""Scramjet's operators as functions: thin names for torch.ops.scramjet.*.

Every function takes dense tensors of any shape and strides on CPU, CUDA or meta; a sparse or
quantized tensor, or one on another device, is a NotImplementedError.
"""

from typing import Optional, Sequence, Union

import torch
from torch import Tensor

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "attention",
    "attention_varlen",
    "cross_entropy",
    "gelu_mul",
    "layer_norm",
    "linear_cross_entropy",
    "rms_norm",
    "rope",
    "rope_tables",
    "sigmoid",
    "silu_mul",
    "softmax",
]

# The overloads themselves: finding one anew from its name costs more than a small tensor's arithmetic.
_add_layer_norm = torch.ops.scramjet.add_layer_norm.default
_add_rms_norm = torch.ops.scramjet.add_rms_norm.default
_attention = torch.ops.scramjet.attention.default
_attention_varlen = torch.ops.scramjet.attention_varlen.default
_cross_entropy = torch.ops.scramjet.cross_entropy.default
_gelu_mul = torch.ops.scramjet.gelu_mul.default
_layer_norm = torch.ops.scramjet.layer_norm.default
_linear_cross_entropy = torch.ops.scramjet.linear_cross_entropy.default
_rms_norm = torch.ops.scramjet.rms_norm.default
_rope = torch.ops.scramjet.rope.default
_sigmoid = torch.ops.scramjet.sigmoid.default
_silu_mul = torch.ops.scramjet.silu_mul.default
_softmax = torch.ops.scramjet.softmax.default


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


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    eps: Optional[float] = None,
) -> Tensor:
    """input / sqrt(mean(input**2) + eps) * weight, as torch.nn.functional.rms_norm.

    Zhang and Sennrich 2019, "Root Mean Square Layer Normalization". Half and bfloat16 compute in
    float and round once.

    Args:
        input: [*, *normalized_shape], float, double, half or bfloat16. Rows that are dense, such as
            those of a part of a projection, need no copy.
        normalized_shape: the last dimensions of input, at least one: those the mean goes over.
        weight: of shape normalized_shape and input's dtype, or float where that is half or bfloat16.
        eps: None is the machine epsilon of the dtype it computes in.

    Returns:
        A new contiguous tensor of input's shape and dtype.

    Raises:
        TypeError: another dtype.
        ValueError: a shape or device that does not fit.
    """
    return _rms_norm(input, normalized_shape, weight, eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias, as torch.nn.functional.layer_norm.

    Ba, Kiros and Hinton 2016, "Layer Normalization"; the variance is the biased one. Arguments,
    result and errors are those of `rms_norm`, and `bias` is as `weight`.
    """
    return _layer_norm(input, normalized_shape, weight, bias, eps)


def add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    eps: Optional[float] = None,
) -> tuple[Tensor, Tensor]:
    """(rms_norm(sum), sum) of sum = input + residual, in one pass: the step between the blocks of a
    transformer that normalizes before them.

    Args:
        residual: of input's shape, dtype and device.

    The rest is as in `rms_norm`; the sum is rounded to its dtype first, as by two operators.
    """
    return _add_rms_norm(input, residual, normalized_shape, weight, eps)


def add_layer_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """(layer_norm(sum), sum) of sum = input + residual, in one pass, as `add_rms_norm`."""
    return _add_layer_norm(input, residual, normalized_shape, weight, bias, eps)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Optional[Tensor] = None,
    *,
    scale: Optional[float] = None,
    causal: bool = False,
    window: tuple[Optional[int], Optional[int]] = (None, None),
    return_logsumexp: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """softmax(query @ key.mT * scale + mask) @ value, in memory linear in the lengths.

    Dao 2023, "FlashAttention-2"; as torch.nn.functional.scaled_dot_product_attention. Half and
    bfloat16 compute in float and round once.

    Args:
        query: [batch, heads, queries, dim], float, double, half or bfloat16. Rows that are dense,
            such as those of a part of a projection, need no copy.
        key: [batch, key_heads, keys, dim], of query's dtype and device. key_heads divides heads:
            each serves as many heads of queries that follow each other.
        value: [batch, key_heads, keys, value_dim].
        mask: what broadcasts to [batch, heads, queries, keys]: bool, true where a key takes part;
            or added to the scaled scores, of query's dtype, or float where that is half or
            bfloat16.
        scale: what scores are multiplied by; None is 1 / sqrt(dim).
        causal: whether a query sees no key behind its own position. The last query stands at the
            last key, as in decoding with a cache; scaled_dot_product_attention sets the first to
            the first, which differs where there are more keys than queries.
        window: how many keys a query sees before and behind its own position; None is all.
        return_logsumexp: whether the logarithm of the sum of the exponentials of each query's
            scores is wanted too.

    Returns:
        [batch, heads, queries, value_dim] of query's dtype; 0 for a query that sees no key. With
        return_logsumexp also [batch, heads, queries] in float, or in double for double.

    Raises:
        TypeError: another dtype, or two different ones.
        ValueError: a shape or device that does not fit.
    """
    left, right = window
    output, logsumexp = _attention(
        query, key, value, mask, scale=scale, causal=causal, window_left=left, window_right=right
    )
    return (output, logsumexp) if return_logsumexp else output


def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    *,
    scale: Optional[float] = None,
    causal: bool = False,
    window: tuple[Optional[int], Optional[int]] = (None, None),
    return_logsumexp: bool = False,
) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """`attention` within each of several sequences of any lengths, without padding.

    Args:
        query: [queries, heads, dim], the rows of all sequences one after the other.
        key: [keys, key_heads, dim].
        value: [keys, key_heads, value_dim].
        query_starts: [sequences + 1], int32 or int64 on query's device: the first row of each
            sequence, and the number of all rows.
        key_starts: the same for keys and values.
        scale: as for `attention`; so are the others.

    Returns:
        [queries, heads, value_dim]; with return_logsumexp also [heads, queries].

    Raises:
        TypeError: another dtype, or two different ones.
        ValueError: a shape or device that does not fit, or starts that fall or end elsewhere (not
            checked on CUDA).
    """
    left, right = window
    output, logsumexp = _attention_varlen(
        query,
        key,
        value,
        query_starts,
        key_starts,
        scale=scale,
        causal=causal,
        window_left=left,
        window_right=right,
    )
    return (output, logsumexp) if return_logsumexp else output


def softmax(
    input: Tensor, mask: Optional[Tensor] = None, *, scale: float = 1.0, causal: bool = False
) -> Tensor:
    """softmax(input * scale + mask) over the last dimension, in one pass over memory.

    The weights of an attention whose scores are at hand.

    Args:
        input: [*, queries, keys], float, double, half or bfloat16; half and bfloat16 compute in
            float and round once. Rows that are dense need no copy.
        mask: broadcast to input's shape, without a copy unless its last dimension is. Bool: true
            is what takes part, as in torch.nn.functional.scaled_dot_product_attention. Of input's
            dtype, or float where that is half or bfloat16: added to input * scale.
        causal: query i sees the keys j <= i, as by is_causal there; beside a mask both hold.

    Returns:
        A new contiguous tensor of input's shape and dtype. A row with nothing left is NaN, as by
        torch.softmax of -inf throughout.

    Raises:
        TypeError: another dtype.
        ValueError: a shape or device that does not fit.
    """
    return _softmax(input, mask, scale=scale, causal=causal)


def rope_tables(
    max_positions: int,
    rotary_dim: int,
    base: float = 10000.0,
    *,
    dtype: torch.dtype = torch.float32,
    device: Optional[torch.device] = None,
) -> tuple[Tensor, Tensor]:
    """(cos, sin) of position * base**(-2 * i / rotary_dim), the tables that `rope` takes.

    Args:
        rotary_dim: how many elements of a head are rotated, an even number.

    Returns:
        Two tensors [max_positions, rotary_dim / 2]; angles are computed in double.

    Raises:
        ValueError: rotary_dim is odd.
    """
    if rotary_dim % 2 != 0:
        raise ValueError(
            f"rope_tables: argument 'rotary_dim' is {rotary_dim}; expected an even number"
        )
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / max(rotary_dim, 1)
    angles = torch.outer(torch.arange(max_positions, dtype=torch.float64), base**-exponents)
    return angles.cos().to(device, dtype), angles.sin().to(device, dtype)


def rope(
    input: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Optional[Tensor] = None,
    *,
    interleaved: bool = False,
    sequence_dim: int = -2,
    inverse: bool = False,
) -> Tensor:
    """Rotary position embedding in one pass over memory, for the queries and keys of an attention.

    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding": each pair
    (a, b) becomes (a * cos - b * sin, b * cos + a * sin), with row p of the tables at position p.

    Args:
        input: [*, head_dim], float, double, half or bfloat16; half and bfloat16 compute in float
            and round once. Heads that are dense, such as those of a part of a projection, need no
            copy.
        cos, sin: [max_positions, rotary_dim / 2], of input's dtype, or float where that is half or
            bfloat16: `rope_tables`. Where rotary_dim < head_dim the rest is copied.
        positions: [sequence], or [batch, sequence] for input's dimension 0, int or long; None is
            0, 1, ...
        interleaved: False rotates (x[i], x[i + rotary_dim / 2]), as GPT-NeoX and Llama do, True
            (x[2 * i], x[2 * i + 1]), as the paper and GPT-J do.
        sequence_dim: -2 for [batch, heads, sequence, head_dim], -3 for
            [batch, sequence, heads, head_dim].
        inverse: by the negated angle.

    Returns:
        A new contiguous tensor of input's shape and dtype.

    Raises:
        TypeError: another dtype.
        ValueError: a shape or device that does not fit; on CPU, a position out of range.
    """
    return _rope(
        input,
        cos,
        sin,
        positions,
        interleaved=interleaved,
        sequence_dim=sequence_dim,
        inverse=inverse,
    )


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dtype: Optional[torch.dtype] = None,
) -> Tensor:
    """The cross-entropy of logits and class indices, as torch.nn.functional.cross_entropy.

    One pass over the logits, which alone are kept for the backward, beside one number a row. Half
    and bfloat16 compute in float and round once. Under autocast the loss is float.

    Args:
        logits: [N, C], float, double, half or bfloat16. Other shapes: logits.flatten(0, -2) and
            target.flatten() where the classes are last.
        target: [N], int64: a class, or ignore_index. There are no class probabilities or weights.
        reduction: "none", "mean" over the rows that are not ignored, or "sum".
        ignore_index: rows of this target are not read; their loss and gradient are 0.
        label_smoothing: 0 to 1 (Szegedy et al. 2016, "Rethinking the Inception Architecture").
        z_loss: adds z_loss * logsumexp(logits)**2 to each row's loss (Chowdhery et al. 2022, "PaLM").
        dtype: that of the loss: None is the logits' own; torch.float32 serves half and bfloat16 too.

    Returns:
        [N] for "none", else a scalar; NaN for the mean of no row.

    Raises:
        TypeError: another dtype.
        ValueError: a shape, device or option that does not fit.
        IndexError: a target that is no class (on CUDA a device-side assertion, as in torch).
    """
    return _cross_entropy(
        logits,
        target,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        dtype=dtype,
    )


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Optional[Tensor] = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dtype: Optional[torch.dtype] = None,
) -> Tensor:
    """cross_entropy(linear(input, weight, bias), target, ...) that never holds all the logits.

    The head of a language model: logits are computed for a part of the rows at a time. With "mean"
    and "sum" the gradients are made along with the loss and kept until the backward.

    Args:
        input: [N, D], float, double, half or bfloat16.
        weight: [C, D], of input's dtype and device.
        bias: [C], the same.

    The rest is as in `cross_entropy`.
    """
    return _linear_cross_entropy(
        input,
        weight,
        target,
        bias,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        z_loss=z_loss,
        dtype=dtype,
    )
