"""Scramjet from Python: its operators as functions and modules.

Importing the package loads libscramjet.so, which registers `torch.ops.scramjet.*`.
"""

import os
import pathlib

import torch


def _library_path() -> pathlib.Path:
    """$SCRAMJET_LIBRARY, else the library of a wheel, else the one that Bazel built."""
    from_environment = os.environ.get("SCRAMJET_LIBRARY")
    package = pathlib.Path(__file__).parent
    places = (
        [pathlib.Path(from_environment)]
        if from_environment
        else [package / "lib" / "libscramjet.so", package.parents[1] / "libscramjet.so"]
    )
    for place in places:
        if place.exists():
            return place
    looked_at = ", ".join(str(place) for place in places)
    raise ImportError(
        f"scramjet: libscramjet.so is not at {looked_at}: run `./scramjet build`, "
        "or set SCRAMJET_LIBRARY to the library's path"
    )


torch.ops.load_library(str(_library_path()))

from scramjet import functional, nn  # noqa: E402  (they need the library)
from scramjet.compiler import compilations, compile, explain  # noqa: E402

__all__ = ["compilations", "compile", "explain", "functional", "nn"]
