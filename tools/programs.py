"""The programs that the demo and the benchmarks run: modules, their inputs, and where recorded speech lies."""

import pathlib

import torch


class Chain(torch.nn.Module):
    """relu, then 50 multiplications: 51 pointwise ops that one kernel can do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        y = x
        for _ in range(50):
            y = y * x
        return y


class SimpleNet(torch.nn.Module):
    """Linear(1000, 20000), then the chain."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1000, 20000)
        self.chain = Chain()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.chain(self.linear(x))


class TwoBranch(torch.nn.Module):
    """A branch on data: 10 → 5, then 5 → 2 or 5 → 3."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(10, 5)
        self.two = torch.nn.Linear(5, 2)
        self.three = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tmp = torch.relu(self.first(x))
        if tmp[0, 0] > 0.5:
            y = self.two(tmp)
        else:
            y = self.three(tmp)
        return y


class Mlp(torch.nn.Sequential):
    """Six square layers with GELU between: matrix products that mixed precision is for."""

    def __init__(self, width: int):
        layers = [layer for _ in range(6) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
        super().__init__(*layers)


class MatmulOnly(torch.nn.Module):
    """Nothing to fuse: shows what a compiled module adds to a call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x)


class WarmUp(torch.nn.Module):
    """Takes no input; run before another model is timed, so that torch's own start is paid."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 8, 3)
        self.cell = torch.nn.LSTMCell(8, 8)

    def forward(self) -> torch.Tensor:
        x = torch.relu(self.conv(torch.ones(1, 1, 10)))
        h, c = self.cell(x[:, :, 0])
        return torch.sigmoid(h) * c


def script(module: torch.nn.Module) -> torch.jit.ScriptModule:
    """Scripted, with Chain's loop of a fixed length written out, as a C++ user's tracer would."""
    if isinstance(module, Chain):
        return torch.jit.trace(module, torch.rand(2, 2))
    if isinstance(module, SimpleNet):
        return torch.jit.trace(module, torch.rand(2, 1000))
    return torch.jit.script(module)


def two_branch_inputs(module: TwoBranch) -> dict[str, torch.Tensor]:
    """A batch of four for each branch of `module`."""
    found: dict[str, torch.Tensor] = {}
    generator = torch.Generator().manual_seed(0)
    while len(found) < 2:
        x = torch.randn(4, 10, generator=generator)
        taken = bool(torch.relu(module.first(x))[0, 0] > 0.5)
        found.setdefault("then" if taken else "else", x)
    return found


def silero_model() -> str:
    """The scripted speech detector in PyPI's silero-vad wheel."""
    import importlib.util

    spec = importlib.util.find_spec("silero_vad")
    if spec is None or spec.submodule_search_locations is None:
        raise FileNotFoundError("the silero-vad wheel is not installed: run `./scramjet build`")
    return str(pathlib.Path(spec.submodule_search_locations[0]) / "data" / "silero_vad.jit")


def speech() -> torch.Tensor:
    """Recorded speech at 16 kHz, float in [-1, 1], shape [samples]: the spoken channel names of Debian's alsa-utils."""
    import scipy.io.wavfile

    folder = pathlib.Path("/usr/share/sounds/alsa")
    files = [folder / f"{name}.wav" for name in ("Front_Left", "Front_Right", "Rear_Center", "Side_Left")]
    pieces = []
    for file in files:
        rate, samples = scipy.io.wavfile.read(file)
        if rate != 48000:
            raise ValueError(f"{file}: expected 48000 samples a second, got {rate}")
        third = samples[: len(samples) // 3 * 3].reshape(-1, 3).mean(axis=1)  # low-pass and decimate to 16 kHz
        pieces += [torch.from_numpy(third / 32768.0).float(), torch.zeros(8000)]
    return torch.cat(pieces)


CHUNK = 512  # samples of 16 kHz that silero-vad takes at a time
