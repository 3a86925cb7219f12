"""./scramjet demo: three programs, as they are and compiled; a table for each, a trace and a chart in out/."""

import pathlib
import subprocess
import sys
import json
import time
import warnings

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tools"))
warnings.simplefilter("ignore")

import torch  # noqa: E402

import programs  # noqa: E402
import scramjet  # noqa: E402

OUT = root / "out"
TOOL = root / "bazel-bin" / "tools" / "scramjet"


def say(text: str) -> None:
    print(text, flush=True)


def bench_in_cpp(model: torch.jit.ScriptModule | str, inputs: list, runs: int) -> list[dict]:
    """Saves model and inputs, runs the C++ tool on them, and returns its records (TorchScript, Scramjet)."""
    if not isinstance(model, str):
        torch.jit.save(model, OUT / "model.pt")
        model = str(OUT / "model.pt")
    arguments = [str(TOOL), "bench", model, "--runs", str(runs), "--json", str(OUT / "bench.json")]
    for k, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            torch.save(value, OUT / f"input{k}.pt")
            arguments += ["--input", str(OUT / f"input{k}.pt")]
        else:
            arguments += ["--input", f"{type(value).__name__}={value}"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"demo: {' '.join(arguments)}\n{done.stderr}")
    records = json.loads((OUT / "bench.json").read_text())
    for name in ("model.pt", "bench.json", *(f"input{k}.pt" for k in range(len(inputs)))):
        (OUT / name).unlink(missing_ok=True)
    return records


def print_table(title: str, records: list[dict]) -> None:
    plain, fast = records
    say(f"\n{title}")
    say(f"  {'':22}{'TorchScript':>14}{'Scramjet':>14}{'ratio':>9}")
    for label, key in (("a call, minimum (ms)", "ms_min"), ("a call, median (ms)", "ms_median"), ("first call (ms)", "first_call_ms")):
        say(f"  {label:22}{plain[key]:14.3f}{fast[key]:14.3f}{plain[key] / fast[key]:8.2f}x")
    say(f"  largest difference    {fast['max_abs_err']:.3g}")


def segments(model: torch.jit.ScriptModule, samples: torch.Tensor) -> list[tuple[float, float]]:
    """Where speech is, in seconds: runs of chunks whose probability is over one half."""
    model.reset_states()
    found: list[tuple[float, float]] = []
    for start in range(0, len(samples) - programs.CHUNK + 1, programs.CHUNK):
        if float(model(samples[start : start + programs.CHUNK].unsqueeze(0), 16000)) <= 0.5:
            continue
        begin, end = start / 16000, (start + programs.CHUNK) / 16000
        if found and abs(found[-1][1] - begin) < 1e-9:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def demo_silero() -> list[dict]:
    path = programs.silero_model()
    samples = programs.speech()
    records = bench_in_cpp(path, [samples[16000 : 16000 + programs.CHUNK].unsqueeze(0), 16000], runs=300)
    print_table("silero-vad, 512 samples of speech a call, from C++", records)
    plain, fast = torch.jit.load(path), scramjet.compile(torch.jit.load(path))
    with torch.no_grad():
        expected, got = segments(plain, samples), segments(fast, samples)
    say("  speech at " + ", ".join(f"{begin:.2f}-{end:.2f} s" for begin, end in got))
    if expected != got:
        raise SystemExit(f"demo: TorchScript finds other segments: {expected}")
    say("  the same segments with and without Scramjet")
    return records


def demo_simplenet() -> list[dict]:
    net = programs.script(programs.SimpleNet().eval())
    records = bench_in_cpp(net, [torch.rand(1000, 1000)], runs=3)
    print_table("SimpleNet: Linear(1000, 20000), relu, 50 multiplications, on 1000x1000, from C++", records)
    return records


def demo_two_branch() -> list[dict]:
    torch.manual_seed(0)
    module = programs.TwoBranch().eval()
    net = programs.script(module)
    all_records = []
    for branch, x in programs.two_branch_inputs(module).items():
        all_records.append(bench_in_cpp(net, [x], runs=2000))
        print_table(f"two-branch net, batch 4, inputs that take '{branch}', from C++", all_records[-1])
    compiled = scramjet.compile(net)
    with torch.no_grad():
        for x in programs.two_branch_inputs(module).values():
            if not torch.equal(compiled(x), module(x)):
                raise SystemExit("demo: the compiled two-branch net differs from eager")
    say("  the compiled graph keeps both branches whole:\n")
    say("".join(f"    {line}\n" for line in str(compiled._scramjet_forward.graph).splitlines()))
    say("".join(f"    {line}\n" for line in scramjet.explain(compiled).splitlines()))
    return all_records[0]


def write_trace() -> pathlib.Path:
    """One Chrome trace with a run of the chain as it is and one compiled."""
    chain = programs.script(programs.Chain())
    fast = scramjet.compile(chain)
    x = torch.rand(500, 1000)
    path = OUT / "trace.json"
    with torch.no_grad():
        chain(x), chain(x), fast(x)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            with torch.profiler.record_function("TorchScript"):
                chain(x)
            with torch.profiler.record_function("Scramjet"):
                fast(x)
    profile.export_chrome_trace(str(path))
    return path


def write_chart(results: dict[str, list[dict]]) -> pathlib.Path:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5))
    names = list(results)
    for shift, (label, index) in ((-0.2, ("TorchScript", 0)), (0.2, ("Scramjet", 1))):
        heights = [results[name][index]["ms_min"] / results[name][0]["ms_min"] for name in names]
        bars = axes.bar([k + shift for k in range(len(names))], heights, 0.4, label=label)
        axes.bar_label(bars, [f"{results[name][index]['ms_min']:.3g} ms" for name in names])
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("time of a call, TorchScript = 1")
    axes.set_title("Three programs, plain and compiled")
    axes.set_ylim(0, 1.25)
    axes.legend(loc="upper right", ncols=2)
    path = OUT / "speed.png"
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path


def main() -> None:
    OUT.mkdir(exist_ok=True)
    started = time.monotonic()
    say(f"Three programs, plain and compiled, {torch.get_num_threads()} threads. About a minute.")
    results = {"silero-vad": demo_silero(), "SimpleNet": demo_simplenet(), "two-branch": demo_two_branch()}
    say(f"A Chrome trace of both runs (open chrome://tracing or ui.perfetto.dev): {write_trace().relative_to(root)}")
    say(f"A chart: {write_chart(results).relative_to(root)}")
    say(f"done in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
