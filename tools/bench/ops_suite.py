"""./scramjet bench --suite ops: each operator against eager and inductor, in turn in one process."""

import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
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


def linear_cross_entropy(x, weight, target):
    return eager.cross_entropy(eager.linear(x, weight), target)


# Tokens by features: one token, a prompt, a batch of training.
TOKENS = ((1, 11008), (128, 4096), (2048, 4096))
WIDTHS = ((1, 4096), (128, 4096), (2048, 4096), (16384, 256))
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
    Operator(
        "loss",
        "cross_entropy",
        ours.cross_entropy,
        eager.cross_entropy,
        logits_and_target,
        ((4096, 1000), (512, 32000), (128, 128256)),
    ),
    Operator(
        "loss",
        "linear_cross_entropy",
        ours.linear_cross_entropy,
        linear_cross_entropy,
        head_and_target,
        ((1024, 512, 128256),),
        measures_memory=True,
    ),
)


def as_tuple(outputs: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def to_dtype(inputs: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """But for indices."""
    return [x.to(dtype) if x.is_floating_point() else x for x in inputs]


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
    rounds = max(10 if slowest < 0.3 else 4, min(200, int(SECONDS / (count * slowest * len(variants)))))
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, call in variants.items():
            times[name].append(1e3 * seconds(call, count))
    return {name: {"ms_min": min(values), "ms_median": statistics.median(values)} for name, values in times.items()}


def forward(function: Callable, inputs: list[torch.Tensor]) -> Callable[[], object]:
    def call():
        with torch.no_grad():
            return function(*inputs)

    return call


def with_leaves(inputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The inputs anew, and those of them that have gradients."""
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    return leaves, [x for x in leaves if x.requires_grad]


def training(function: Callable, inputs: list[torch.Tensor]) -> Callable[[], object]:
    leaves, wanted = with_leaves(inputs)
    with torch.no_grad():
        # A scalar is the last step, whose gradient is 1.
        grads = [torch.randn_like(y) if y.dim() else torch.ones_like(y) for y in as_tuple(function(*inputs))]

    def call():
        return torch.autograd.grad(function(*leaves), wanted, grads)

    return call


def bytes_peak(name: str, variant: str, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """What training takes at most beyond its inputs. For a process that has done nothing else."""
    operator = next(operator for operator in OPERATORS if operator.name == name)
    leaves, wanted = with_leaves(to_dtype(operator.inputs(shape), dtype))
    before = resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM is VmRSS again
    torch.autograd.grad(getattr(operator, variant)(*leaves), wanted)
    return resident_bytes("VmHWM") - before


def resident_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def alone(function: Callable, *arguments: object) -> object:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


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
                inputs = to_dtype(operator.inputs(shape), dtype)
                exact = as_tuple(operator.eager(*to_dtype(inputs, torch.double)))
                for mode in (forward, training):
                    torch._dynamo.reset()
                    times = in_turn({name: mode(function, inputs) for name, function in functions.items()})
                    if operator.measures_memory and mode is training:
                        for variant, name in (("scramjet", "ours"), ("eager", "eager")):
                            times[variant]["bytes_peak"] = alone(bytes_peak, operator.name, name, shape, dtype)
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
    peaks: dict[str, dict[str, int]] = {}
    for record in measured:
        times.setdefault(record["case"], {})[record["variant"]] = record["ms_min"]
        if "bytes_peak" in record:
            peaks.setdefault(record["case"], {})[record["variant"]] = record["bytes_peak"]
    ratios = {case: min(of["eager"], of["inductor"]) / of["scramjet"] for case, of in times.items()}

    def mean(key: str, value: str) -> float:
        cases = {record["case"] for record in measured if record[key] == value}
        return statistics.geometric_mean(ratios[case] for case in cases)

    for family in dict.fromkeys(record["family"] for record in measured):
        yield f"{family}: geometric mean against the best of eager and inductor", mean("family", family), "1.2 or more"
    for name in dict.fromkeys(record["operator"] for record in measured):
        yield f"{name}: the same", mean("operator", name), "1 or more"
    for case, of in peaks.items():
        yield f"{case}: eager's peak memory / ours", of["eager"] / of["scramjet"], "for comparison"
    for case, ratio in ratios.items():
        best = min(("eager", "inductor"), key=times[case].get)
        yield f"{case}: against {best}", ratio, "1 or more"
