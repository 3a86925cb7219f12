"""./scramjet doctor: the command line's `doctor`, and its histograms as a picture (--plot FILE, out/doctor.png)."""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy

TOOL = pathlib.Path(__file__).resolve().parents[2] / "bazel-bin" / "tools" / "scramjet"


def rows(diagnosis: dict) -> list[tuple[str, bool, dict, dict]]:
    """Label, whether it should stay in float32, values and gradients: inputs, then operators, then parameters."""
    found = [(entry["name"], False, entry["values"], entry["gradients"]) for entry in diagnosis["inputs"]]
    for entry in diagnosis["operators"]:
        label = f"{entry['layer'] or '(model)'}  {entry['op'].removeprefix('aten::')}"
        found.append((label, bool(entry["keep_in_fp32"]), entry["outputs"], entry["gradients"]))
    found += [(entry["name"], False, entry["values"], entry["gradients"]) for entry in diagnosis["parameters"]]
    return [row for row in found if row[2]["count"] or row[3]["count"]]


def shares(ranges: list[dict], exponents: range) -> numpy.ndarray:
    """Of each range's numbers, the share at each exponent; NaN where there is none."""
    table = numpy.full((len(ranges), len(exponents)), numpy.nan)
    for k, values in enumerate(ranges):
        for exponent, count in values["exponents"].items():
            table[k, int(exponent) - exponents.start] = count / values["count"]
    return table


def draw(diagnosis: dict, path: pathlib.Path) -> None:
    """A map of layers by powers of two, of values and, where there are any, of gradients."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    name = diagnosis["format"]["name"]
    limits = {
        "smallest": math.floor(math.log2(diagnosis["format"]["smallest_subnormal"])),
        "normal": math.floor(math.log2(diagnosis["format"]["smallest_normal"])),
        "largest": math.floor(math.log2(diagnosis["format"]["max"])) + 1,
    }
    found = rows(diagnosis)
    panels = [("values", [row[2] for row in found]), ("gradients", [row[3] for row in found])]
    panels = [(title, ranges) for title, ranges in panels if any(values["count"] for values in ranges)]
    seen = [int(exponent) for _, ranges in panels for values in ranges for exponent in values["exponents"]]
    exponents = range(min([*seen, limits["smallest"]]) - 1, max([*seen, limits["largest"]]) + 2)
    height = 1.6 + 0.22 * max(len(found), 4)
    figure, axes = plt.subplots(
        1, max(len(panels), 1), figsize=(4 + 5 * len(panels), height), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, (title, ranges) in zip(axes[0], panels):
        image = axis.imshow(
            shares(ranges, exponents),
            aspect="auto",
            interpolation="nearest",
            cmap="viridis",
            norm=matplotlib.colors.LogNorm(1e-6, 1),
            extent=(exponents.start, exponents.stop, len(found) - 0.5, -0.5),
        )
        for label, exponent in limits.items():
            axis.axvline(exponent, color="tab:red", linestyle="-" if label == "largest" else ":", linewidth=1)
            axis.text(exponent, -0.7, f" {label}", color="tab:red", fontsize=7, rotation=90, va="bottom", ha="center")
        axis.set_xlabel(f"{title}: power of two")
    axes[0][0].set_yticks(range(len(found)), [row[0] for row in found], fontsize=7)
    for label, row in zip(axes[0][0].get_yticklabels(), found):
        label.set_color("tab:red" if row[1] else "black")
    if panels:
        figure.colorbar(image, ax=axes[0][-1], label="share of the numbers")
    figure.suptitle(f"What {name} can hold (red: keep in float32)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(add_help=False)  # --help is the tool's
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("out/doctor.png"))
    parser.add_argument("--json", type=pathlib.Path)
    own, passed_on = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        numbers = own.json or pathlib.Path(folder) / "doctor.json"
        status = subprocess.run([TOOL, "doctor", *passed_on, "--json", numbers]).returncode
        if status != 0:
            sys.exit(status if status > 0 else 1)
        if not numbers.exists():  # --help
            return
        draw(json.loads(numbers.read_text()), own.plot)
    print(f"The histograms as a picture: {own.plot}")


if __name__ == "__main__":
    main()
