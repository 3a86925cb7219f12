"""./scramjet bench --suite NAME --json FILE: measures Scramjet against its peers on this machine.

Variants run in turn in one process on the same inputs; first calls and peak memory come from a process each.
FILE becomes a list of records {case, variant, threads, ms_min, ms_median, first_call_ms, max_abs_err, bytes_peak}.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "tools"), str(root / "tools" / "bench")]
warnings.simplefilter("ignore")

import torch  # noqa: E402

import amp_suite  # noqa: E402
import ops_suite  # noqa: E402
import programs  # noqa: E402
import scramjet  # noqa: E402

TOOL = root / "bazel-bin" / "tools" / "scramjet"
AMP_TOOL = root / "bazel-bin" / "tools" / "bench" / "amp_bench"
VARIANTS = ("eager", "torchscript", "inductor", "scramjet")


def make_case(case: str) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if case == "chain":
        return programs.Chain(), torch.rand(1000, 20000)
    if case == "chain_normal":
        return programs.Chain(), torch.rand(1000, 20000) + 0.5
    if case == "simplenet":
        return programs.SimpleNet().eval(), torch.rand(1000, 1000)
    module = programs.TwoBranch().eval()
    return module, programs.two_branch_inputs(module)[case.removeprefix("two_branch_")]


RUNS = {"chain": 10, "chain_normal": 10, "simplenet": 5, "two_branch_then": 3000, "two_branch_else": 3000}
EAGER_RUNS = {"chain": 2, "chain_normal": 2, "simplenet": 2}  # seconds each
PYTHON_CASES = tuple(RUNS)


def make_variant(name: str, module: torch.nn.Module):
    if name == "eager":
        return module
    if name == "inductor":
        return torch.compile(module)
    scripted = programs.script(module)
    return scripted if name == "torchscript" else scramjet.compile(scripted)


def timed_call(function, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    start = time.perf_counter()
    answer = function(x)
    return 1e3 * (time.perf_counter() - start), answer


@torch.no_grad()
def measure_together(case: str) -> dict[str, dict]:
    """Minimum, median and error of every variant, in turn in this process."""
    module, x = make_case(case)
    functions = {name: make_variant(name, module) for name in VARIANTS}
    expected = module(x)
    records = {}
    for name, function in functions.items():
        function(x)
        answer = function(x)
        records[name] = {"max_abs_err": float((answer - expected).abs().max())}
        del answer
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for run in range(RUNS[case]):
        for name, function in functions.items():
            slow = name in ("eager", "torchscript") and run >= EAGER_RUNS.get(case, RUNS[case])
            if not slow:
                times[name].append(timed_call(function, x)[0])
    for name, values in times.items():
        records[name] |= {"ms_min": min(values), "ms_median": statistics.median(values)}
    return records


@torch.no_grad()
def measure_alone(case: str, variant: str) -> dict:
    """First call, compilation included, and peak memory of one variant, in a process that has done nothing else."""
    module, x = make_case(case)
    program = module if variant in ("eager", "inductor") else programs.script(module)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    function = {"inductor": torch.compile, "scramjet": scramjet.compile}.get(variant, lambda same: same)(program)
    function(x)
    first = 1e3 * (time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"first_call_ms": first, "bytes_peak": 1024 * (peak - before)}


def child(arguments: list[str], cold_inductor: bool = False) -> dict:
    """Runs this file in a process of its own and returns what it prints."""
    import os

    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as empty:
        if cold_inductor:
            environment["TORCHINDUCTOR_CACHE_DIR"] = empty
        done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(arguments)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def python_records() -> list[dict]:
    records = []
    for case in PYTHON_CASES:
        print(f"measuring {case}", file=sys.stderr, flush=True)
        together = child(["--child", case])
        for variant in VARIANTS:
            alone = child(["--child", case, variant], cold_inductor=True)
            records.append({"case": case, "variant": variant, "threads": torch.get_num_threads(), **together[variant], **alone})
    return records


def tool_bench(model: str, inputs: list[str], runs: int, *options: str) -> list[dict]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        arguments = [str(TOOL), "bench", model, "--runs", str(runs), "--json", file.name, *options]
        for text in inputs:
            arguments += ["--input", text]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(arguments)}\n{done.stderr}")
        return json.loads(pathlib.Path(file.name).read_text())


def cpp_records(folder: pathlib.Path) -> list[dict]:
    """What runs from C++: silero-vad, the two-branch net, and a module with nothing to fuse."""
    records = []

    def add(case: str, measured: list[dict]) -> None:
        print(f"measured {case}", file=sys.stderr, flush=True)
        records.extend({**record, "case": case} for record in measured)

    def save(module: torch.jit.ScriptModule, name: str) -> str:
        torch.jit.save(module, folder / name)
        return str(folder / name)

    chunk = folder / "chunk.pt"
    torch.save(programs.speech()[16000 : 16000 + programs.CHUNK].unsqueeze(0), chunk)
    silero, inputs = programs.silero_model(), [str(chunk), "int=16000"]
    warm_up = save(programs.script(programs.WarmUp().eval()), "warm_up.pt")
    add("silero_cpp", tool_bench(silero, inputs, 2000))
    for variant in ("torchscript", "scramjet"):
        for case, options in (("silero_cpp_warm_process", ["--warm-up", warm_up]), ("silero_cpp_fresh_process", [])):
            # The best of a few processes: a start is at the mercy of what else the machine does.
            tries = [tool_bench(silero, inputs, 1, "--variant", variant, *options)[0] for _ in range(5)]
            add(case, [min(tries, key=lambda record: record["first_call_ms"] + record["second_call_ms"])])

    torch.manual_seed(0)
    module = programs.TwoBranch().eval()
    net = save(programs.script(module), "two_branch.pt")
    for branch, x in programs.two_branch_inputs(module).items():
        torch.save(x, folder / "x.pt")
        add(f"two_branch_{branch}_cpp", tool_bench(net, [str(folder / "x.pt")], 20000))
    add("nothing_to_fuse_cpp", tool_bench(save(programs.script(programs.MatmulOnly()), "mm.pt"), ["2x2:float"], 20000))
    return records


@torch.no_grad()
def new_compilations_for_new_shapes() -> int:
    compiled = scramjet.compile(programs.script(programs.Chain()))
    compiled(torch.rand(10, 20))
    before = scramjet.compilations()
    for k in range(1, 21):
        compiled(torch.rand(k, 3 * k + 1))
    return scramjet.compilations() - before


def seed_rows(records: list[dict]):
    """What was asked of the seed suite: (what, measured, wanted)."""
    by_key = {(record["case"], record["variant"]): record for record in records}

    def value(case: str, variant: str, key: str = "ms_min") -> float:
        return by_key[case, variant][key]

    def two_calls(case: str, variant: str) -> float:
        return value(case, variant, "first_call_ms") + value(case, variant, "second_call_ms")

    for case in ("chain", "chain_normal"):
        yield f"{case}: against inductor", value(case, "inductor") / value(case, "scramjet"), "2.5 or more"
    yield "chain: against eager", value("chain", "eager") / value("chain", "scramjet"), "50 or more"
    yield "simplenet: against inductor", value("simplenet", "inductor") / value("simplenet", "scramjet"), "1 or more"
    yield "simplenet: against eager", value("simplenet", "eager") / value("simplenet", "scramjet"), "7.5 or more"
    yield "chain: first call, ms", value("chain", "scramjet", "first_call_ms"), "under 300"
    yield (
        "chain: first call, inductor's / ours",
        value("chain", "inductor", "first_call_ms") / value("chain", "scramjet", "first_call_ms"),
        "10 or more",
    )
    yield "silero-vad from C++: against TorchScript", value("silero_cpp", "torchscript") / value("silero_cpp", "scramjet"), "1 or more"
    yield "silero-vad: largest difference", value("silero_cpp", "scramjet", "max_abs_err"), "1e-6 or less"
    for case, target in (("silero_cpp_warm_process", "3 or more"), ("silero_cpp_fresh_process", "1 or more")):
        yield f"{case}: calls 1 + 2, against TorchScript", two_calls(case, "torchscript") / two_calls(case, "scramjet"), target
    case = "nothing_to_fuse_cpp"
    yield "nothing to fuse: added µs a call", 1e3 * (value(case, "scramjet", "ms_median") - value(case, "torchscript", "ms_median")), "under 2"
    for branch in ("then", "else"):
        cpp, python = f"two_branch_{branch}_cpp", f"two_branch_{branch}"
        ours = value(cpp, "scramjet", "ms_median")
        yield f"{cpp}: against TorchScript", value(cpp, "torchscript", "ms_median") / ours, "1 or more"
        for peer, target in (("inductor", "4 or more"), ("eager", "2.5 or more")):
            yield f"{cpp}: against {peer} in Python", value(python, peer, "ms_median") / ours, target
            both = value(python, peer, "ms_median") / value(python, "scramjet", "ms_median")
            yield f"{python}, both in Python: against {peer}", both, "for comparison"
    yield "chain: compilations at 20 new shapes", new_compilations_for_new_shapes(), "0"


def report(rows) -> str:
    """The table of ratios, as Markdown."""
    lines = ["| what | measured | wanted |", "|---|---|---|"]
    lines += [f"| {what} | {measured:.3g} | {wanted} |" for what, measured, wanted in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scramjet bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["seed", "amp", "ops"], default="seed", help="what to measure")
    parser.add_argument("--only", nargs="+", default=[], metavar="OPERATOR", help="of the suite ops, these operators")
    parser.add_argument("--json", type=pathlib.Path, help="write the records to this file")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--child-amp", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        measured = measure_together(*arguments.child) if len(arguments.child) == 1 else measure_alone(*arguments.child)
        print(json.dumps(measured))
        return
    if arguments.child_amp:
        print(json.dumps(amp_suite.in_python()))
        return
    if arguments.suite == "amp":
        records = amp_suite.records(str(AMP_TOOL), child)
        rows = amp_suite.rows(records)
    elif arguments.suite == "ops":
        records = list(ops_suite.records(arguments.only))
        rows = ops_suite.rows(records)
    else:
        with tempfile.TemporaryDirectory() as folder:
            records = python_records() + cpp_records(pathlib.Path(folder))
        rows = seed_rows(records)
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n")
    print(report(rows))


if __name__ == "__main__":
    main()
