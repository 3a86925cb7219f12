"""./scramjet bench --suite ops: each operator against eager and inductor, in turn in one process."""

import math
import statistics
import time
from typing import Callable, Iterator, NamedTuple

import torch
from torch.nn import functional as eager

from scramjet import functional as ours

SECONDS = 1.5  # for each case, all variants together
DTYPES = (torch.float32, torch.bfloat16)


class Operator(NamedTuple):
    family: str
    name: str
    ours: Callable
    eager: Callable
    inputs: Callable[[tuple[int, ...]], list[torch.Tensor]]
    shapes: tuple[tuple[int, ...], ...]
    constants: int = 0  # so many of the last inputs need no gradient


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
    # One token against a cache, and four of a speculation.
    Operator(
        "attention",
        "attention_decode",
        ours.attention,
        lambda q, k, v: eager.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        heads(4),
        ((32, 1, 4096, 128), (32, 4, 4096, 128)),
    ),
)


def as_tuple(outputs: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def largest_error(outputs: tuple[torch.Tensor, ...], exact: tuple[torch.Tensor, ...]) -> float:
    return max(float((y - z).abs().max()) for y, z in zip(outputs, exact))


def seconds(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def in_turn(variants: dict[str, Callable[[], object]]) -> dict[str, dict]:
    """Minimum and median of each variant, in milliseconds."""
    for call in variants.values():
        seconds(call, 3)
    slowest = max(seconds(call, 3) for call in variants.values())
    count = max(1, int(2e-3 / slowest))
    rounds = max(10, min(200, int(SECONDS / (count * slowest * len(variants)))))
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            times[name].append(1e3 * seconds(call, count))
    return {name: {"ms_min": min(values), "ms_median": statistics.median(values)} for name, values in times.items()}


def forward(function: Callable, inputs: list[torch.Tensor], _constants: int) -> Callable[[], object]:
    def call():
        with torch.no_grad():
            return function(*inputs)

    return call


def training(function: Callable, inputs: list[torch.Tensor], constants: int) -> Callable[[], object]:
    count = len(inputs) - constants
    leaves = [x.detach().requires_grad_() for x in inputs[:count]]
    with torch.no_grad():
        grads = [torch.randn_like(y) for y in as_tuple(function(*inputs))]

    def call():
        return torch.autograd.grad(function(*leaves, *inputs[count:]), leaves, grads)

    return call


def to_floating(inputs: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """Indices and bool masks stay what they are."""
    return [x.to(dtype) if x.is_floating_point() else x for x in inputs]


def records(names: list[str]) -> Iterator[dict]:
    """Of the operators with these names, or of all."""
    for operator in OPERATORS:
        if names and operator.name not in names:
            continue
        compiled = torch.compile(operator.eager, dynamic=False)
        functions = {"scramjet": operator.ours, "eager": operator.eager, "inductor": compiled}
        for shape in operator.shapes:
            for dtype in DTYPES:
                torch.manual_seed(0)
                inputs = to_floating(operator.inputs(shape), dtype)
                exact = as_tuple(operator.eager(*to_floating(inputs, torch.double)))
                for mode in (forward, training):
                    torch._dynamo.reset()
                    calls = {name: mode(function, inputs, operator.constants) for name, function in functions.items()}
                    times = in_turn(calls)
                    for variant, measured in times.items():
                        answer = as_tuple(functions[variant](*inputs))
                        yield {
                            "case": "_".join([operator.name, mode.__name__, "x".join(map(str, shape)), str(dtype)[6:]]),
                            "family": operator.family,
                            "operator": operator.name,
                            "variant": variant,
                            "threads": torch.get_num_threads(),
                            **measured,
                            "max_abs_err": largest_error(answer, exact),
                        }


def rows(measured: list[dict]) -> Iterator[tuple[str, float, str]]:
    times: dict[str, dict[str, float]] = {}
    for record in measured:
        times.setdefault(record["case"], {})[record["variant"]] = record["ms_min"]
    ratios = {case: min(of["eager"], of["inductor"]) / of["scramjet"] for case, of in times.items()}

    def mean(key: str, value: str) -> float:
        cases = {record["case"] for record in measured if record[key] == value}
        return statistics.geometric_mean(ratios[case] for case in cases)

    for family in dict.fromkeys(record["family"] for record in measured):
        yield f"{family}: geometric mean against the best of eager and inductor", mean("family", family), "1.2 or more"
    for name in dict.fromkeys(record["operator"] for record in measured):
        yield f"{name}: the same", mean("operator", name), "1 or more"
    for case, ratio in ratios.items():
        best = min(("eager", "inductor"), key=times[case].get)
        yield f"{case}: against {best}", ratio, "1 or more"
