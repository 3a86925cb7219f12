"""scramjet::amp::GradScaler against torch.amp.GradScaler: the same training, equal to the bit after every step."""

import pathlib
import pickletools
import subprocess
import tempfile
import unittest
import zipfile

import torch

TRACE = pathlib.Path("amp/grad_scaler_trace").resolve()
STEPS = 1000


def run_trace(*arguments) -> None:
    done = subprocess.run([TRACE, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"grad_scaler_trace {arguments[0]}: {done.stderr}")


def make_config(device: str, seed: int, bad_share: float) -> dict:
    """Two layers' weights, batches, and losses of which a share is multiplied by inf or NaN."""
    random = torch.Generator().manual_seed(seed)
    poison = torch.ones(STEPS, 2)
    bad = torch.rand(STEPS, 2, generator=random) < bad_share
    values = torch.tensor([float("inf"), float("-inf"), float("nan")])
    poison[bad] = values[torch.randint(3, (int(bad.sum()),), generator=random)]
    return {
        "device": device,
        "weight_a": torch.randn(5, 7, generator=random),
        "bias_a": torch.randn(5, generator=random),
        "weight_b": torch.randn(5, 7, generator=random),
        "bias_b": torch.randn(5, generator=random),
        "inputs": torch.randn(32, 3, 7, generator=random),
        "targets": torch.randn(32, 3, 5, generator=random),
        "poison": poison,
        "unscale_first": torch.rand(STEPS, generator=random) < 0.5,
        "lr": 0.05,
        "momentum": 0.9,
        "init_scale": 65536.0,
        "growth_interval": 5,
    }


def train(config: dict) -> tuple[tuple[torch.Tensor, ...], torch.amp.GradScaler]:
    """What grad_scaler_trace does: scales, growth trackers, skipped steps and all parameters after each step."""
    device = config["device"]
    scaler = torch.amp.GradScaler(device, config["init_scale"], growth_interval=config["growth_interval"])
    if "state" in config:
        scaler.load_state_dict(torch.load(config["state"]))
    layers = [[config[f"{kind}_{name}"].to(device, copy=True).requires_grad_() for kind in ("weight", "bias")]
              for name in "ab"]
    # libtorch's SGD knows only the plain loop, and foreach, Python's default on CUDA, may round otherwise.
    optimizers = [torch.optim.SGD(layer, config["lr"], momentum=config["momentum"], foreach=False) for layer in layers]
    stepped = [0, 0]
    for index, optimizer in enumerate(optimizers):
        def count(*_, index=index):
            stepped[index] += 1
        optimizer.register_step_post_hook(count)
    inputs, targets, poison = (config[key].to(device) for key in ("inputs", "targets", "poison"))
    scales, trackers, skipped, parameters = [], [], [], []
    for step in range(len(poison)):
        before = list(stepped)
        for index, (weight, bias) in enumerate(layers):
            optimizers[index].zero_grad()
            output = torch.nn.functional.linear(inputs[step % len(inputs)], weight, bias)
            loss = (output - targets[step % len(targets)]).pow(2).mean() * poison[step][index]
            scaler.scale(loss).backward()
        if config["unscale_first"][step]:
            scaler.unscale_(optimizers[0])
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        skipped.append([int(before[index] == stepped[index]) for index in range(2)])
        scales.append(scaler.get_scale())
        trackers.append(scaler._get_growth_tracker())
        parameters += [tensor.detach().flatten().cpu().clone() for layer in layers for tensor in layer]
    trace = (torch.tensor(scales, dtype=torch.float64), torch.tensor(trackers), torch.tensor(skipped),
             torch.cat(parameters))
    return trace, scaler


class GradScalerParityTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, config: dict) -> tuple[torch.Tensor, ...]:
        expected, scaler = train(config)
        torch.save(config | {"state_out": str(self.folder / "end.pt")}, self.folder / "config.pt")
        run_trace("train", self.folder / "config.pt", self.folder / "trace.pt")
        actual = torch.load(self.folder / "trace.pt")
        for name, ours, theirs in zip(("scale", "growth tracker", "skipped", "parameters"), actual, expected, strict=True):
            same = (ours == theirs) | (ours.isnan() & theirs.isnan()) if ours.shape == theirs.shape else torch.tensor(False)
            self.assertTrue(same.all(), f"{name} first differs at {same.logical_not().nonzero()[:1].tolist()}")
        self.assertEqual(torch.load(self.folder / "end.pt"), scaler.state_dict())
        return expected

    def check_device(self, device: str):
        # With 0 the scale grows until it overflows; with 0.3 it shrinks to 0, and then all becomes NaN, in both.
        for seed, bad_share in ((0, 0.0), (1, 0.05), (2, 0.1), (3, 0.3)):
            with self.subTest(seed=seed, bad_share=bad_share):
                scales, _, skipped, parameters = self.compare(make_config(device, seed, bad_share))
                self.assertEqual(len(scales), STEPS)
                self.assertEqual(bool(parameters.isfinite().all()), bad_share < 0.3)
                self.assertEqual(float(scales[-1]) == 0, bad_share == 0.3)
                self.assertGreater(len(scales.unique()), 10)
                # The two optimizers are skipped apart from each other, or the test would show little.
                self.assertTrue((skipped[:, 0] != skipped[:, 1]).any() or bad_share == 0)

    def test_a_thousand_steps_on_the_cpu(self):
        self.check_device("cpu")

    def test_a_thousand_steps_on_cuda(self):
        if not torch.cuda.is_available():
            print("skipped on CUDA: torch.cuda.is_available() is False")
            self.skipTest("torch.cuda.is_available() is False")
        self.check_device("cuda")

    def test_a_run_that_goes_on_from_pythons_state_file(self):
        _, scaler = train(make_config("cpu", 4, 0.1))
        torch.save(scaler.state_dict(), self.folder / "state.pt")
        self.compare(make_config("cpu", 5, 0.1) | {"state": str(self.folder / "state.pt")})

    def test_state_files_in_both_directions(self):
        states = [
            torch.amp.GradScaler("cpu").state_dict(),
            torch.amp.GradScaler("cpu", init_scale=1024).state_dict(),  # an int in the file
            torch.amp.GradScaler("cpu", 0.1, 1.5, 0.75, growth_interval=2**40).state_dict(),
            torch.amp.GradScaler("cpu", 2.0**-149).state_dict() | {"_growth_tracker": 300},
            torch.amp.GradScaler("cpu", growth_interval=2**63 - 1).state_dict(),
            torch.amp.GradScaler("cpu", growth_interval=2**31).state_dict() | {"_growth_tracker": 2**31 - 1},
            torch.amp.GradScaler("cpu", growth_interval=-(2**33)).state_dict(),
        ]
        for state in states:
            with self.subTest(state=state):
                torch.save(state, self.folder / "python.pt")
                run_trace("resave", self.folder / "python.pt", self.folder / "ours.pt")
                loaded = torch.load(self.folder / "ours.pt", weights_only=True)
                self.assertEqual(loaded, state)
                self.assertEqual(list(loaded), list(state))
                self.assertEqual([type(value) for value in loaded.values()], [float, float, float, int, int])
                scaler = torch.amp.GradScaler("cpu")
                scaler.load_state_dict(loaded)
                self.assertEqual(scaler.state_dict(), state)

    def test_the_file_holds_the_pickle_that_python_writes(self):
        torch.save(torch.amp.GradScaler("cpu", 4.0).state_dict(), self.folder / "python.pt")
        run_trace("resave", self.folder / "python.pt", self.folder / "ours.pt")

        def opcodes(name: str) -> list:
            pickle = zipfile.ZipFile(self.folder / f"{name}.pt").read(f"{name}/data.pkl")
            # Memo entries that nothing reads again may differ.
            return [(op.name, operand) for op, operand, _ in pickletools.genops(pickle) if op.name != "BINPUT"]

        self.assertEqual(opcodes("ours"), opcodes("python"))

    def test_the_empty_state_of_a_disabled_scaler_is_refused(self):
        torch.save(torch.amp.GradScaler("cpu", enabled=False).state_dict(), self.folder / "empty.pt")
        with self.assertRaisesRegex(AssertionError, "The source state dict is empty, possibly because"):
            run_trace("resave", self.folder / "empty.pt", self.folder / "out.pt")


if __name__ == "__main__":
    unittest.main()
