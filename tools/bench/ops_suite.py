"""./scramjet bench --suite ops: each operator against eager and inductor, in turn in one process."""

import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Callable, Iterator

import torch
from ops_cases import OPERATORS

SECONDS = 1.5  # for each case, all variants together
DTYPES = (torch.float32, torch.bfloat16)


def as_tuple(outputs: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def to_dtype(inputs: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    """But for indices and bool masks."""
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


def forward(function: Callable, inputs: list[torch.Tensor], _constants: int) -> Callable[[], object]:
    def call():
        with torch.no_grad():
            return function(*inputs)

    return call


def with_leaves(inputs: list[torch.Tensor], constants: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The inputs anew, and those of them that have gradients: all but so many of the last."""
    leaves = [x.detach() for x in inputs]
    wanted = [x.requires_grad_() for x in leaves[: len(leaves) - constants]]
    return leaves, wanted


def training(function: Callable, inputs: list[torch.Tensor], constants: int) -> Callable[[], object]:
    leaves, wanted = with_leaves(inputs, constants)
    with torch.no_grad():
        # A scalar is the last step, whose gradient is 1.
        grads = [torch.randn_like(y) if y.dim() else torch.ones_like(y) for y in as_tuple(function(*inputs))]

    def call():
        return torch.autograd.grad(function(*leaves), wanted, grads)

    return call


def bytes_peak(name: str, variant: str, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """What training takes at most beyond its inputs. For a process that has done nothing else."""
    operator = next(operator for operator in OPERATORS if operator.name == name)
    leaves, wanted = with_leaves(to_dtype(operator.inputs(shape), dtype), operator.constants)
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
                    calls = {name: mode(function, inputs, operator.constants) for name, function in functions.items()}
                    times = in_turn(calls)
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
