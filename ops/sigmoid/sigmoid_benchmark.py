"""scramjet::sigmoid against torch.sigmoid on CPU, alternating in one process.

    ./scramjet build
    PYTHONPATH=scripting/python SCRAMJET_LIBRARY=bazel-bin/scripting/libscramjet.so \\
        .venv/bin/python ops/sigmoid/sigmoid_benchmark.py

Measure alone: another busy thread upsets OpenMP's barriers. A call from Python into any
operator of torch.ops costs more than into torch.sigmoid, which has a binding of its own: hence
the two comparisons. ops/sigmoid/sigmoid_benchmark.cc compares the two from C++.
"""

import argparse
import statistics
import time

import scramjet
import torch


def repeated(function):
    def loop(x, count):
        for _ in range(count):
            y = function(x)
        return y

    return loop


def seconds(loop, x, count):
    start = time.perf_counter()
    loop(x, count)
    return (time.perf_counter() - start) / count


def compare(ours, theirs, x):
    """(min ratio, median ratio, our min, their min); ratios under 1: Scramjet is faster."""
    count = max(1, int(2e-3 / seconds(theirs, x, 1)))
    rounds = max(7, min(100, int(1.0 / (count * seconds(theirs, x, 1)))))
    times = [(seconds(ours, x, count), seconds(theirs, x, count)) for _ in range(rounds)]
    ours_s, theirs_s = zip(*times)
    return (
        min(ours_s) / min(theirs_s),
        statistics.median(ours_s) / statistics.median(theirs_s),
        min(ours_s),
        min(theirs_s),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--requires-grad", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**n for n in range(3, 9)])
    options = parser.parse_args()
    pairs = {
        "torch.ops": (
            repeated(torch.ops.scramjet.sigmoid.default),
            repeated(torch.ops.aten.sigmoid.default),
        ),
        "torch.sigmoid": (repeated(scramjet.ops.sigmoid), repeated(torch.sigmoid)),
    }
    print(
        f"{options.dtype}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    )
    print(
        f"{'elements':>10}  {'against':<14}{'ratio of min':>13}{'of median':>11}{'ours ms':>11}{'theirs ms':>11}"
    )
    for size in options.sizes:
        x = (
            torch.randn(size)
            .to(getattr(torch, options.dtype))
            .requires_grad_(options.requires_grad)
        )
        for name, (mine, theirs) in pairs.items():
            for loop in (mine, theirs):
                loop(x, 3)
            least, median, mine_s, theirs_s = compare(mine, theirs, x)
            print(
                f"{size:>10}  {name:<14}{least:>13.3f}{median:>11.3f}{mine_s * 1e3:>11.4f}{theirs_s * 1e3:>11.4f}"
            )


if __name__ == "__main__":
    main()
