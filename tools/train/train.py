"""./scramjet train-demo: two C++ training programs with AMP, a table each; Chrome traces in out/."""

import argparse
import gzip
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

root = pathlib.Path(__file__).resolve().parents[2]


def digits() -> dict[str, torch.Tensor]:
    """scikit-learn's 1797 digits: images, float [1797, 1, 8, 8] from 0 to 1, and labels, int64 [1797].

    Reads the file in the package's folder without importing the package, which would want scipy, joblib and others.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("the digits are in scikit-learn's package: pip install --no-deps scikit-learn")
    path = pathlib.Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    with gzip.open(path, "rt") as file:
        rows = torch.from_numpy(numpy.loadtxt(file, delimiter=","))
    return {"images": (rows[:, :64] / 16).float().reshape(-1, 1, 8, 8), "labels": rows[:, 64].long()}


def run(program: str, *arguments: str) -> None:
    status = subprocess.run([root / "bazel-bin" / "examples" / program, *arguments]).returncode
    if status != 0:
        sys.exit(status if status > 0 else 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./scramjet train-demo", description=__doc__)
    parser.add_argument("--full", action="store_true", help="32 images of 256x256 on CPU too: minutes an iteration")
    parser.add_argument("--digits", metavar="FILE", help="only write the digits, for examples/train_digits")
    arguments = parser.parse_args()
    if arguments.digits:
        torch.save(digits(), arguments.digits)
        return
    print("Four convolutions, float32 and AMP. About a minute.", flush=True)
    run("train_cnn", "--out", "out", *(["--full"] if arguments.full else []))
    print("\nDigits in four ways, with the loss so small that float16 needs a GradScaler. About half a minute.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/digits.pt"
        torch.save(digits(), path)
        run("train_digits", path)


if __name__ == "__main__":
    main()
