"""A small net that branches on its data: the model that docs/OVERVIEW.md follows and the examples run.

    .venv/bin/python examples/gate.py model.pt
"""

import argparse
import warnings

import torch


def shrink(y: torch.Tensor, halvings: int) -> torch.Tensor:
    return y * 0.5**halvings


class Gate(torch.nn.Module):
    """A layer, then one of two short pointwise tails: float [batch, 4] in and out."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.linear(x))
        if y[0, 0] > 0.5:
            y = shrink(torch.relu(y * x) * x, 4)
        else:
            y = torch.tanh(x + y)
        return y


def make() -> Gate:
    """With the same weights each time."""
    torch.manual_seed(30)
    return Gate().eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="the .pt file to write")
    output = parser.parse_args().output
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.15 calls torch.jit.script deprecated
        torch.jit.script(make()).save(output)


if __name__ == "__main__":
    main()
