"""./scramjet bench --suite amp: mixed precision against Python's, and in the graph against at run time."""

import json
import statistics
import subprocess
import time
from typing import Callable, Iterator

import torch

import programs
import scramjet

TRIES = 3  # processes for each side, in turn


def milliseconds(rounds: int, calls: int, call: Callable[[], object]) -> dict:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append(1e3 * (time.perf_counter() - start) / calls)
    return {"ms_min": min(times), "ms_median": statistics.median(times)}


class StillSgd(torch.optim.SGD):
    """Leaves the parameters alone, so that the scaler's own work is measured."""

    def step(self, closure=None):
        return None


def scaler_step() -> dict:
    parameters = [torch.randn(1000, requires_grad=True) for _ in range(1000)]
    for parameter in parameters:
        parameter.grad = torch.randn(1000)
    optimizer = StillSgd(parameters, lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=1_000_000_000)
    scaler.scale(torch.ones(1))

    def call():
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    return milliseconds(200, 1, call)


def small_product(enabled: bool) -> dict:
    x, weight = torch.randn(2, 2), torch.randn(2, 2, requires_grad=True)

    def call():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            for _ in range(50):
                torch.mm(x, weight)

    return milliseconds(200, 20, call)


def in_python() -> dict[str, dict]:
    """What tools/bench/amp_bench.cc measures, from Python."""
    return {"scaler_step": scaler_step(), "mm_x50_autocast": small_product(True), "mm_x50": small_product(False)}


def against_python(tool: str, python_child: Callable[[list[str]], dict]) -> Iterator[dict]:
    best: dict[tuple[str, str], dict] = {}
    for _ in range(TRIES):
        cpp = json.loads(subprocess.run([tool], capture_output=True, text=True, check=True).stdout)
        for variant, measured in (("scramjet", cpp), ("eager", python_child(["--child-amp"]))):
            for case, times in measured.items():
                known = best.setdefault((case, variant), times)
                best[case, variant] = min(known, times, key=lambda item: item["ms_min"])
    for (case, variant), times in best.items():
        yield {"case": case, "variant": variant, **times}


@torch.no_grad()
def frozen_models() -> Iterator[dict]:
    """The same scripted model, frozen: run-time autocast around it, and autocast in its graph."""
    for width, batch in ((64, 4), (512, 8), (1024, 16), (1024, 64)):
        torch.manual_seed(0)
        module, x = programs.Mlp(width).eval(), torch.randn(batch, width)
        scripted = programs.script(module)
        plain, baked = scramjet.compile(scripted), scramjet.compile(scripted, autocast=torch.bfloat16, freeze=True)

        def at_run_time(function):
            def call():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    return function(x)

            return call

        variants = {
            "fp32": lambda: module(x),
            "eager": at_run_time(module),
            "scramjet_runtime_autocast": at_run_time(plain),
            "scramjet": lambda: baked(x),
        }
        answers = {name: call() for name, call in variants.items() for _ in range(3)}
        times = {name: [] for name in variants}
        for _ in range(200):
            for name, call in variants.items():
                times[name].append(milliseconds(1, 1, call)["ms_min"])
        for name, values in times.items():
            yield {
                "case": f"frozen_mlp_{width}_{batch}",
                "variant": name,
                "ms_min": min(values),
                "ms_median": statistics.median(values),
                "max_abs_err": float((answers[name] - answers["eager"]).abs().max()),
            }


def training_step() -> Iterator[dict]:
    torch.manual_seed(0)
    for name in ("fp32", "bfloat16"):
        torch.manual_seed(0)
        module, x = programs.Mlp(1024), torch.randn(64, 1024)
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

        def call():
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=name == "bfloat16"):
                loss = module(x).float().pow(2).mean()
            loss.backward()
            optimizer.step()

        call()
        yield {"case": "training_step", "variant": name, **milliseconds(30, 1, call)}


def records(tool: str, python_child: Callable[[list[str]], dict]) -> list[dict]:
    measured = [*against_python(tool, python_child), *frozen_models(), *training_step()]
    return [{"threads": torch.get_num_threads(), **record} for record in measured]


def rows(measured: list[dict]) -> Iterator[tuple[str, float, str]]:
    by_key = {(record["case"], record["variant"]): record for record in measured}

    def ms(case: str, variant: str) -> float:
        return by_key[case, variant]["ms_min"]

    def overhead_us(variant: str) -> float:
        return 1e3 * (ms("mm_x50_autocast", variant) - ms("mm_x50", variant)) / 50

    yield "scaler, 1,000 parameters: against Python", ms("scaler_step", "eager") / ms("scaler_step", "scramjet"), "1 or more"
    yield "autocast: added µs an op, in C++", overhead_us("scramjet"), "for comparison"
    yield "autocast: added µs an op, Python's / ours", overhead_us("eager") / overhead_us("scramjet"), "1 or more"
    for case in sorted({case for case, _ in by_key if case.startswith("frozen_mlp")}):
        for peer in ("scramjet_runtime_autocast", "eager", "fp32"):
            wanted = "for comparison" if peer == "fp32" else "more than 1"
            yield f"{case}: autocast in the graph, against {peer}", ms(case, peer) / ms(case, "scramjet"), wanted
        yield f"{case}: largest difference from eager's autocast", by_key[case, "scramjet"]["max_abs_err"], "0"
    yield "training step: bfloat16 against fp32", ms("training_step", "fp32") / ms("training_step", "bfloat16"), "more than 1 with bfloat16 instructions"
