"""What ./scramjet bench --suite ops measures: each operator, its eager counterpart, and inputs for both."""

import math
from typing import Callable, NamedTuple

import torch
from torch.nn import functional as eager

from scramjet import functional as ours


class Operator(NamedTuple):
    family: str
    name: str
    ours: Callable
    eager: Callable
    inputs: Callable[[tuple[int, ...]], list[torch.Tensor]]
    shapes: tuple[tuple[int, ...], ...]
    constants: int = 0  # so many of the last inputs need no gradient
    measures_memory: bool = False  # of training, in a process each


def one_tensor(shape: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape)]


def two_halves(shape: tuple[int, ...]) -> list[torch.Tensor]:
    """What a fused projection gives a gated unit: two views of one tensor."""
    return list(torch.randn(*shape[:-1], 2 * shape[-1]).chunk(2, -1))


def with_parameters(tensors: int, parameters: int) -> Callable[[tuple[int, ...]], list[torch.Tensor]]:
    """So many tensors of a shape, and so many of its last dimension: weight, bias."""

    def inputs(shape: tuple[int, ...]) -> list[torch.Tensor]:
        tokens = [torch.randn(shape) for _ in range(tensors)]
        return tokens + [torch.rand(shape[-1]) + 0.5 for _ in range(parameters)]

    return inputs


def logits_and_target(shape: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape), torch.randint(shape[1], shape[:1])]


def head_and_target(shape: tuple[int, ...]) -> list[torch.Tensor]:
    """Hidden states, the weight of a language model's head and the next tokens: rows, width, classes."""
    rows, width, classes = shape
    weight = torch.randn(classes, width) / width**0.5
    return [torch.randn(rows, width), weight, torch.randint(classes, (rows,))]


def add_rms_norm(x, residual, weight):
    total = x + residual
    return eager.rms_norm(total, weight.shape, weight, 1e-5), total


def add_layer_norm(x, residual, weight, bias):
    total = x + residual
    return eager.layer_norm(total, weight.shape, weight, bias), total


def scores_and(mask: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[tuple[int, ...]], list[torch.Tensor]]:
    """Attention scores, and a mask that the heads share, made of all that is true."""

    def inputs(shape: tuple[int, ...]) -> list[torch.Tensor]:
        return [torch.randn(shape), mask(torch.ones(shape[-2:], dtype=torch.bool))]

    return inputs


def but_padding(every: torch.Tensor) -> torch.Tensor:
    every[:, every.shape[1] * 4 // 5 :] = False
    return every


def masked_softmax(x, hidden):
    return torch.softmax((x * 0.125).masked_fill(hidden, -math.inf), -1)


def heads_and_tables(shape: tuple[int, ...]) -> list[torch.Tensor]:
    """The queries of a fused projection, [batch, sequence, heads, head_dim], and the tables for them."""
    *_, sequence, _, head_dim = shape
    return [torch.randn(*shape[:-1], 3 * head_dim).chunk(3, -1)[0], *ours.rope_tables(sequence, head_dim)]


def rope(x, cos, sin):
    """As transformers' apply_rotary_pos_emb."""
    cos, sin = (torch.cat((table, table), -1)[:, None] for table in (cos, sin))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def interleaved_rope(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def linear_cross_entropy(x, weight, target):
    return eager.cross_entropy(eager.linear(x, weight), target)


# Tokens by features: one token, a prompt, a batch of training.
TOKENS = ((1, 11008), (128, 4096), (2048, 4096))
WIDTHS = ((1, 4096), (128, 4096), (2048, 4096), (16384, 256))
SCORES = ((16, 128, 128), (16, 512, 512), (8, 1024, 1024))
HEADS = ((1, 1, 32, 128), (1, 512, 32, 128), (4, 1024, 12, 64))
OPERATORS = (
    Operator("activation", "sigmoid", ours.sigmoid, torch.sigmoid, one_tensor, TOKENS),
    Operator("activation", "silu_mul", ours.silu_mul, lambda g, u: eager.silu(g) * u, two_halves, TOKENS),
    Operator("activation", "gelu_mul", ours.gelu_mul, lambda g, u: eager.gelu(g) * u, two_halves, TOKENS),
    Operator(
        "activation",
        "gelu_tanh_mul",
        lambda g, u: ours.gelu_mul(g, u, "tanh"),
        lambda g, u: eager.gelu(g, approximate="tanh") * u,
        two_halves,
        TOKENS,
    ),
    Operator(
        "norm",
        "rms_norm",
        lambda x, w: ours.rms_norm(x, w.shape, w, 1e-5),
        lambda x, w: eager.rms_norm(x, w.shape, w, 1e-5),
        with_parameters(1, 1),
        WIDTHS,
    ),
    Operator(
        "norm",
        "layer_norm",
        lambda x, w, b: ours.layer_norm(x, w.shape, w, b),
        lambda x, w, b: eager.layer_norm(x, w.shape, w, b),
        with_parameters(1, 2),
        WIDTHS,
    ),
    Operator(
        "norm",
        "add_rms_norm",
        lambda x, r, w: ours.add_rms_norm(x, r, w.shape, w, 1e-5),
        add_rms_norm,
        with_parameters(2, 1),
        WIDTHS,
    ),
    Operator(
        "norm",
        "add_layer_norm",
        lambda x, r, w, b: ours.add_layer_norm(x, r, w.shape, w, b),
        add_layer_norm,
        with_parameters(2, 2),
        WIDTHS,
    ),
    Operator("softmax", "softmax", ours.softmax, lambda x: torch.softmax(x, -1), one_tensor, SCORES),
    Operator(
        "softmax",
        "softmax_bool_mask",
        lambda x, mask: ours.softmax(x, mask, scale=0.125),
        lambda x, mask: masked_softmax(x, ~mask),
        scores_and(but_padding),
        SCORES,
        constants=1,
    ),
    Operator(
        "softmax",
        "softmax_added_mask",
        lambda x, mask: ours.softmax(x, mask, scale=0.125),
        lambda x, mask: torch.softmax(x * 0.125 + mask, -1),
        scores_and(torch.Tensor.float),
        SCORES,
        constants=1,
    ),
    Operator(
        "softmax",
        "softmax_causal",
        lambda x, hidden: ours.softmax(x, scale=0.125, causal=True),
        masked_softmax,
        scores_and(lambda every: every.triu(1)),
        SCORES,
        constants=1,
    ),
    Operator(
        "position",
        "rope",
        lambda *inputs: ours.rope(*inputs, sequence_dim=-3),
        rope,
        heads_and_tables,
        HEADS,
        constants=2,
    ),
    Operator(
        "position",
        "rope_interleaved",
        lambda *inputs: ours.rope(*inputs, sequence_dim=-3, interleaved=True),
        interleaved_rope,
        heads_and_tables,
        HEADS,
        constants=2,
    ),
)


def heads(key_heads: int) -> Callable[[tuple[int, ...]], list[torch.Tensor]]:
    """Query, key and value from heads, queries, keys and columns; so many heads share each of the keys'."""

    def inputs(shape: tuple[int, ...]) -> list[torch.Tensor]:
        count, queries, keys, columns = shape
        rest = [torch.randn(1, count // key_heads, keys, columns) for _ in range(2)]
        return [torch.randn(1, count, queries, columns), *rest]

    return inputs


LENGTHS = ((12, 128, 128, 64), (8, 2048, 2048, 64), (4, 4096, 4096, 128), (2, 8192, 8192, 64))
OPERATORS += (
    Operator("attention", "attention", ours.attention, eager.scaled_dot_product_attention, heads(1), LENGTHS),
    Operator(
        "attention",
        "attention_causal",
        lambda q, k, v: ours.attention(q, k, v, causal=True),
        lambda q, k, v: eager.scaled_dot_product_attention(q, k, v, is_causal=True),
        heads(1),
        LENGTHS,
    ),
    Operator(
        "attention",
        "attention_bool_mask",
        ours.attention,
        eager.scaled_dot_product_attention,
        lambda shape: [*heads(1)(shape), but_padding(torch.ones(shape[1:3], dtype=torch.bool))],
        LENGTHS[:2],
        constants=1,
    ),
    # One token against a cache, and four of a speculation.
    Operator(
        "attention",
        "attention_decode",
        ours.attention,
        lambda q, k, v: eager.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        heads(4),
        ((32, 1, 4096, 128), (32, 4, 4096, 128)),
    ),
    Operator(
        "loss",
        "cross_entropy",
        ours.cross_entropy,
        eager.cross_entropy,
        logits_and_target,
        ((4096, 1000), (512, 32000), (128, 128256)),
        constants=1,
    ),
    Operator(
        "loss",
        "linear_cross_entropy",
        ours.linear_cross_entropy,
        linear_cross_entropy,
        head_and_target,
        ((1024, 512, 128256),),
        constants=1,
        measures_memory=True,
    ),
)
