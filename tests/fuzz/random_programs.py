"""Random TorchScript programs: what scramjet.compile makes of them must answer what eager answers.

    python random_programs.py --count 10000 --seed 0

A program is a list of statements: pointwise ops over the op table, casts, views, writes in place,
branches on data and loops, over inputs of random dtypes, layouts and broadcasts. It grows statement
by statement; one that eager refuses is dropped. A program that fails is shrunk, then printed with
its seed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import linecache
import random
import sys
import traceback
import warnings
from typing import Iterator, List, Optional, Sequence

import scramjet
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGRAL = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
LAYOUTS = (
    "full",
    "full",
    "transposed",
    "sliced",
    "last_row",
    "column",
    "one",
    "zero_dim",
    "expanded",
)
RELATIVE = {torch.float32: 2e-6, torch.float64: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}

# a, b, c: tensors; s: a number; n: a small integer.
POINTWISE = """
a + b | a - b | a * b | a / b | a + s | s - a | a * s | a / s | torch.add(a, b, alpha=n)
torch.sub(a, b, alpha=n) | torch.fmod(a, b) | torch.remainder(a, s) | a ** n | torch.pow(a, s)
torch.pow(2.0, a) | torch.atan2(a, b) | torch.hypot(a, b) | torch.copysign(a, b)
torch.maximum(a, b) | torch.minimum(a, b) | torch.lerp(a, b, 0.3)
torch.addcmul(a, b, c, value=s) | torch.addcdiv(a, b, c, value=s) | a == b | a != s | a < b
a <= s | a > b | a >= s | torch.isnan(a) | torch.logical_not(a) | torch.logical_and(a, b)
torch.logical_or(a, b) | torch.logical_xor(a, b) | ~a | a & b | torch.bitwise_or(a, b) | a ^ b
a & n | a << n | a >> n | torch.where(a > b, a, c) | torch.where(a > s, b, s)
torch.where(a > 0, s, b) | a.masked_fill(a > s, n) | torch.clamp(a, -1, 2) | torch.clamp(a, min=s)
a.clamp_max(n) | F.hardtanh(a) | torch.relu(a) | F.relu6(a) | F.threshold(a, 0.5, 2.0)
torch.abs(a) | -a | torch.sign(a) | torch.square(a) | torch.floor(a) | torch.ceil(a)
torch.trunc(a) | torch.round(a) | torch.frac(a) | torch.sqrt(a) | torch.rsqrt(a)
torch.reciprocal(a) | torch.nan_to_num(a) | torch.exp(a) | torch.exp2(a) | torch.expm1(a)
torch.log(a) | torch.log2(a) | torch.log10(a) | torch.log1p(a) | torch.sin(a) | torch.cos(a)
torch.tan(a) | torch.asin(a) | torch.acos(a) | torch.atan(a) | torch.sinh(a) | torch.cosh(a)
torch.tanh(a) | torch.erf(a) | torch.erfc(a) | torch.sigmoid(a) | F.silu(a) | F.gelu(a)
F.gelu(a, approximate="tanh") | F.elu(a) | F.leaky_relu(a, 0.1) | F.mish(a) | F.softplus(a)
F.hardsigmoid(a) | F.hardswish(a) | a.to(torch.float32) | a.to(torch.float64) | a.to(torch.int32)
a.to(torch.bool) | a.to(torch.bfloat16) | a.to(torch.int64) | torch.rsub(a, b)
"""
OPS = [op for line in POINTWISE.strip().splitlines() for op in line.split(" | ")]
VIEWS = [
    "a.transpose(-1, -2)", "a[..., :1]", "a[:1]", "a.select(0, 0)", "a.unsqueeze(0)",
    "a.expand_as(b)", "a.view(-1)", "a.contiguous()", "a.detach()", "a.flatten()", "a.flip(0)",
    "a.sum(0)", "a.mean(-1, keepdim=True)", "a.clone()",
]  # fmt: skip
WRITES = [
    "a.add_(b)", "a.mul_(s)", "a.copy_(b)", "a.clamp_(-1, 1)", "a[..., 0] = s", "a[:1] += b",
    "a.zero_()", "a.relu_()", "a += b", "a *= s", "a.masked_fill_(a > s, 0)",
    "a.view(-1).mul_(n)", "torch.add(a, b, out=a)",
]  # fmt: skip


# --- programs ---


@dataclasses.dataclass
class Statement:
    head: str
    body: list[Statement] = dataclasses.field(default_factory=list)
    otherwise: list[Statement] = dataclasses.field(default_factory=list)

    def lines(self, indent: str) -> Iterator[str]:
        yield indent + self.head
        if self.head.endswith(":"):
            for statement in self.body:
                yield from statement.lines(indent + "    ")
            if not self.body:
                yield indent + "    pass"
        if self.otherwise:
            yield indent + "else:"
            for statement in self.otherwise:
                yield from statement.lines(indent + "    ")


@dataclasses.dataclass(frozen=True)
class Input:
    dtype: torch.dtype
    layout: str

    def make(self, shape: Sequence[int], seed: int, special: bool) -> Tensor:
        """The same tensor for the same arguments; its shape broadcasts to `shape`."""
        rows, columns = shape
        size = {
            "transposed": (columns, rows), "sliced": (rows, 2 * columns),
            "last_row": (columns,), "column": (rows, 1),
            "one": (1, 1), "zero_dim": (), "expanded": (columns,),
        }.get(self.layout, (rows, columns))  # fmt: skip
        generator = torch.Generator().manual_seed(seed)
        if self.dtype.is_floating_point:
            tensor = torch.randn(size, generator=generator, dtype=torch.float64).mul_(2)
            if special and tensor.numel() > 3:
                values = torch.tensor(
                    [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-30, -1.0, 100.0]
                )
                chosen = torch.randint(8, (tensor.numel(),), generator=generator)
                tensor = torch.where(
                    torch.rand(size, generator=generator) < 0.3,
                    values.double()[chosen].view(size),
                    tensor,
                )
        else:
            low, high = (
                (0, 2) if self.dtype == torch.bool else (0 if self.dtype == torch.uint8 else -9, 10)
            )
            tensor = torch.randint(low, high, size, generator=generator)
        tensor = tensor.to(self.dtype)
        if self.layout == "transposed":
            return tensor.t()
        if self.layout == "sliced":
            return tensor[:, ::2]
        return tensor.expand(rows, columns) if self.layout == "expanded" else tensor


@dataclasses.dataclass
class Program:
    seed: int
    inputs: list[Input]
    shapes: list[tuple[int, int]]
    mode: str  # "plain", "grad", "no_grad", "inference", "autocast"
    statements: list[Statement] = dataclasses.field(default_factory=list)
    returned: list[str] = dataclasses.field(default_factory=list)

    def source(self) -> str:
        arguments = ", ".join(f"x{k}: Tensor" for k in range(len(self.inputs)))
        lines = [
            "class Program(torch.nn.Module):",
            f"    def forward(self, {arguments}) -> List[Tensor]:",
        ]
        for statement in self.statements:
            lines += statement.lines("        ")
        return "\n".join(lines + [f"        return [{', '.join(self.returned)}]", ""])

    def describe(self) -> str:
        inputs = "".join(
            f"\n# x{k}: {str(i.dtype)[6:]} {i.layout}" for k, i in enumerate(self.inputs)
        )
        return (
            f"# seed {self.seed}, mode {self.mode}, shapes {self.shapes}{inputs}\n{self.source()}"
        )

    def module(self) -> torch.nn.Module:
        source = self.source()
        name = f"<random program {self.seed}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        scope = {"torch": torch, "F": torch.nn.functional, "Tensor": Tensor, "List": List}
        scope["__name__"] = "random_program"
        exec(compile(source, name, "exec"), scope)
        return scope["Program"]()

    def arguments(self, k: int) -> list[Tensor]:
        """The inputs of the k-th call."""
        made = [
            x.make(self.shapes[k], 100 * self.seed + 10 * k + j, k == 1)
            for j, x in enumerate(self.inputs)
        ]
        if self.mode in ("grad", "no_grad"):
            made = [x.requires_grad_() if x.is_floating_point() else x for x in made]
        return made


# --- growing ---


class Grower:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        shape = (self.random.randint(2, 5), self.random.randint(2, 20))
        shapes = [
            shape,
            (shape[0] + 2, 17),
            self.random.choice([(1, 1), (0, 4), (1, 9), (9, 1), (3, 3), (5, 70)]),
        ]
        if self.random.random() < 0.08:
            shapes[2] = (190, 200)  # more than one thread's share
        mode = self.random.choice(
            ["plain"] * 5 + ["grad"] * 2 + ["no_grad", "inference", "autocast"]
        )
        self.program = Program(seed, [], shapes, mode)
        for _ in range(self.random.randint(1, 4)):
            floating = mode == "grad" or self.random.random() < 0.7
            dtypes = FLOATING[:2] if mode == "grad" else FLOATING if floating else INTEGRAL
            dtype = (
                torch.float32
                if floating and self.random.random() < 0.6
                else self.random.choice(dtypes)
            )
            self.program.inputs.append(Input(dtype, self.random.choice(LAYOUTS)))
        self.next = 0

    def grow(self) -> Program:
        names = [f"x{k}" for k in range(len(self.program.inputs))]
        for _ in range(self.random.randint(4, 18)):
            statement, made = self.statement(names, depth=0)
            self.program.statements.append(statement)
            self.program.returned = names[-1:] + made
            if self.eager_accepts(calls=2):
                names += made
            else:
                self.program.statements.pop()
        # With a third size and other values returned, eager may refuse after all: then a
        # shorter program.
        while True:
            made = [statement.head.partition(" = ")[0] for statement in self.program.statements]
            names = [f"x{k}" for k in range(len(self.program.inputs))] + [
                name for name in made if name.isidentifier()
            ]
            count = min(len(names), self.random.randint(1, 4))
            self.program.returned = sorted(set(self.random.sample(names, count) + names[-1:]))
            if self.eager_accepts(calls=3) or not self.program.statements:
                return self.program
            self.program.statements.pop()

    def eager_accepts(self, calls: int) -> bool:
        try:
            module = self.program.module()
            for k in range(calls):
                call(self.program, module, k)
            return True
        except Exception:  # whatever eager refuses is no program
            return False

    def statement(self, names: list[str], depth: int) -> tuple[Statement, list[str]]:
        kind = self.random.random()
        if kind < 0.06 and depth < 2:
            value = self.random.choice(names)
            body, otherwise = self.block(names, depth), self.block(names, depth)
            return (
                Statement(
                    f"if bool({value}.sum() > {self.random.choice([0, 1.5])}):", body, otherwise
                ),
                [],
            )
        if kind < 0.12 and depth < 2:
            return (
                Statement(
                    f"for i{depth} in range({self.random.randint(1, 3)}):", self.block(names, depth)
                ),
                [],
            )
        if kind < 0.22:
            return Statement(self.fill(self.random.choice(WRITES), names)), []
        made = f"v{self.next}"
        self.next += 1
        template = self.random.choice(VIEWS if kind < 0.32 else OPS)
        return Statement(f"{made} = {self.fill(template, names)}"), [made]

    def block(self, names: list[str], depth: int) -> list[Statement]:
        """Statements of a branch or a loop: their last value takes the place of an outer one."""
        inner, statements = list(names), []
        for _ in range(self.random.randint(1, 4)):
            statement, made = self.statement(inner, depth + 1)
            statements.append(statement)
            inner += made
        outer = [name for name in names if name.startswith("v")]
        if outer and inner[-1] not in names:
            statements.append(Statement(f"{self.random.choice(outer)} = {inner[-1]}"))
        return statements

    def fill(self, template: str, names: list[str]) -> str:
        recent = names[-4:]
        words = []
        for word in _words(template):
            if word in ("a", "b", "c"):
                word = self.random.choice(recent if self.random.random() < 0.7 else names)
            elif word == "s":
                word = self.random.choice(["2", "0.5", "-1.25", "3", "-2"])
            elif word == "n":
                word = self.random.choice(["1", "2", "3"])
            words.append(word)
        return "".join(words)


def _words(template: str) -> list[str]:
    words = [""]
    for letter in template:
        if (letter.isalnum() or letter in "_.") != (
            words[-1][-1:].isalnum() or words[-1][-1:] in ("_", ".")
        ):
            words.append("")
        words[-1] += letter
    # "a.relu_": the method belongs to the tensor.
    return [part for word in words for part in _split_method(word)]


def _split_method(word: str) -> list[str]:
    name, dot, method = word.partition(".")
    return [name, dot + method] if dot and name in ("a", "b", "c") else [word]


# --- running and comparing ---


@dataclasses.dataclass
class Answer:
    outputs: list[Tensor]
    inputs: list[Tensor]
    gradients: list[Optional[Tensor]]

    def tensors(self) -> list[tuple[str, Optional[Tensor]]]:
        named = [(f"output {k}", t) for k, t in enumerate(self.outputs)]
        named += [(f"input {k} afterwards", t) for k, t in enumerate(self.inputs)]
        return named + [(f"gradient {k}", t) for k, t in enumerate(self.gradients)]


def call(program: Program, module: torch.nn.Module, k: int) -> Answer:
    contexts = {
        "no_grad": torch.no_grad, "inference": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    }  # fmt: skip
    inputs = program.arguments(k)
    with contexts.get(program.mode, contextlib.nullcontext)():
        outputs = module(*inputs)
    gradients: list[Optional[Tensor]] = []
    if program.mode == "grad":
        losses = [t.sum() for t in outputs if t.requires_grad]
        leaves = [x for x in inputs if x.requires_grad]
        if losses and leaves:
            gradients = list(torch.autograd.grad(sum(losses), leaves, allow_unused=True))
    return Answer(outputs, inputs, gradients)


class Jitter(TorchDispatchMode):
    """Eager with the freedom that eager takes itself: its vector code and its loop tails differ in
    the last bit of transcendentals and multiply-adds, and in the sign of maximum's zero. What
    varies under it cannot be compared."""

    EXACT = set(
        """
        mul div eq ne lt le gt ge isnan logical_not logical_and logical_or logical_xor bitwise_and
        where masked_fill clamp threshold relu abs neg sign copysign floor ceil trunc round sqrt
        _to_copy detach view expand transpose select slice unsqueeze clone copy_ alias t flip fill_
        zero_ add_ mul_ as_strided ones_like _unsafe_view
        """.split()
    )

    def __init__(self, share_up: float):
        super().__init__()
        self.share_up = share_up  # of the elements; the others go down
        self.generator = torch.Generator().manual_seed(0)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, Tensor) or not result.is_floating_point() or result.numel() == 0:
            return result
        name = function.overloadpacket.__name__
        plain_sum = (
            name in ("add", "sub", "rsub") and (kwargs or {}).get("alpha", 1) == 1 and len(args) < 3
        )
        if (
            name in self.EXACT
            or plain_sum
            or name.endswith("_")
            or "view" in name
            or result._is_view()
        ):
            return result
        up = torch.rand(result.shape, generator=self.generator) < self.share_up
        infinity = torch.full_like(result, float("inf"))
        towards = torch.where(up, infinity, -infinity)
        nudged = torch.nextafter(torch.nextafter(result, towards), towards)
        zero = torch.where(up, torch.zeros_like(result), -torch.zeros_like(result))
        result = torch.where(
            result.isnan(), torch.copysign(result, infinity * torch.where(up, 1, -1)), result
        )
        nudged = torch.where(result.isinf() | result.isnan(), result, nudged)
        if name.startswith(
            "gelu"
        ):  # ATen's own erf there: off by 1e-6, and NaN at infinity with AVX-512
            nudged = result + torch.where(up, 2e-6, -2e-6)
            infinite = args[-1 if "backward" in name else 0].isposinf()
            nudged = torch.where(infinite, torch.where(up, float("inf"), float("nan")), nudged)
            nudged = nudged.to(result.dtype)
        return torch.where(result == 0, zero, nudged)


def difference(
    expected: Optional[Tensor], got: Optional[Tensor], others: list[Optional[Tensor]]
) -> Optional[str]:
    """What differs; `others` are the answers of jittered runs."""
    if expected is None or got is None:
        return None if expected is got else f"{got} want {expected}"
    for what in ("dtype", "shape", "requires_grad"):
        if getattr(expected, what) != getattr(got, what):
            return f"{what} {getattr(got, what)} want {getattr(expected, what)}"
    if expected.numel() and expected.stride() != got.stride():
        return f"strides {got.stride()} want {expected.stride()}"
    e, g = expected.detach().double(), got.detach().double()
    same = (e == g) | (e.isnan() & g.isnan())
    if expected.is_floating_point():
        same |= (e - g).abs() <= RELATIVE[expected.dtype] * e.abs() + torch.finfo(
            expected.dtype
        ).tiny
    for other in others:
        if other is not None and other.shape == e.shape:
            o = other.detach().double()
            same |= (
                (e.isnan() != o.isnan())
                | (e.isinf() != o.isinf())
                | (o != e) & (torch.signbit(e) != torch.signbit(o))
            )
            same |= (
                (o != e) & ((e - g).abs() <= 16 * (e - o).abs())
                if expected.is_floating_point()
                else o != e
            )
    if bool(same.all()):
        return None
    at = (~same).flatten().nonzero()[0].item()
    return f"element {at}: {g.flatten()[at].item()!r} want {e.flatten()[at].item()!r}"


def reload(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


@dataclasses.dataclass
class Reference:
    """Eager's answer to one call, and its answers with jitter."""

    answer: Answer
    jittered: list[Answer]

    @staticmethod
    def of(program: Program, k: int) -> Reference:
        eager = program.module()
        reference = Reference(call(program, eager, k), [])
        for share_up in (0.0, 0.5, 1.0):
            with contextlib.suppress(Exception), Jitter(share_up):
                reference.jittered.append(call(program, eager, k))
        return reference

    def difference(self, got: Answer) -> Optional[str]:
        if len(self.answer.outputs) != len(got.outputs):
            return f"{len(got.outputs)} outputs want {len(self.answer.outputs)}"
        columns = [answer.tensors() for answer in self.jittered]
        for place, ((name, want), (_, have)) in enumerate(
            zip(self.answer.tensors(), got.tensors())
        ):
            found = difference(want, have, [column[place][1] for column in columns])
            if found:
                return f"{name}: {found}"
        return None


def compare(
    program: Program, references: list[Reference], candidate: torch.nn.Module
) -> Optional[str]:
    early = []
    for k, reference in enumerate(references):
        for _ in range(2):
            got = call(program, candidate, k)
            early.append((k, got))
            found = reference.difference(got)
            if found:
                return f"call {k}, {found}"
    for k, got in early:
        found = references[k].difference(got)
        if found:
            return f"call {k}, seen after later calls, {found}"
    return compare_aliases(references[0].answer, early[0][1])


def compare_aliases(expected: Answer, got: Answer) -> Optional[str]:
    """Outputs share memory with inputs and with each other where eager's do."""

    def pairs(answer: Answer) -> list[tuple[int, int]]:
        tensors = answer.outputs + answer.inputs
        pointers = [
            t.untyped_storage().data_ptr() if t.numel() else -1 - k for k, t in enumerate(tensors)
        ]
        return [(i, j) for i in range(len(tensors)) for j in range(i) if pointers[i] == pointers[j]]

    return (
        None
        if pairs(expected) == pairs(got)
        else f"sharing memory: {pairs(got)} want {pairs(expected)}"
    )


def failure(program: Program) -> Optional[str]:
    """How the compiled program differs from eager, if it does and neither eager nor stock
    TorchScript refuses it."""
    try:
        scripted = torch.jit.script(program.module())
        references = [Reference.of(program, k) for k in range(len(program.shapes))]
        for k in range(len(program.shapes)):
            call(program, scripted, k)
    except Exception:
        return None
    try:
        compiled = scramjet.compile(scripted)
        found = compare(program, references, compiled)
        if found:
            return found
        found = compare(program, references, reload(compiled))
        return f"after save and load, {found}" if found else None
    except Exception:
        return (
            "raised where eager answers: " + traceback.format_exc().strip().splitlines()[-1][:300]
        )


# --- shrinking ---


def shrink(program: Program) -> Program:
    """The program with every statement, output and call left out that the failure does not need."""

    def smaller() -> Iterator[Program]:
        for statements in _without_one(program.statements):
            yield dataclasses.replace(program, statements=statements)
        for k in range(len(program.returned)):
            if len(program.returned) > 1:
                yield dataclasses.replace(
                    program, returned=program.returned[:k] + program.returned[k + 1 :]
                )
        for k in range(len(program.shapes)):
            if len(program.shapes) > 1:
                yield dataclasses.replace(
                    program, shapes=program.shapes[:k] + program.shapes[k + 1 :]
                )

    for _ in range(40):
        found = next((candidate for candidate in smaller() if failure(candidate)), None)
        if found is None:
            break
        program = found
    return program


def _without_one(statements: list[Statement]) -> Iterator[list[Statement]]:
    for k in reversed(range(len(statements))):
        before, statement, after = statements[:k], statements[k], statements[k + 1 :]
        yield before + after
        yield from (before + body + after for body in (statement.body, statement.otherwise) if body)
        for body in _without_one(statement.body):
            yield before + [dataclasses.replace(statement, body=body)] + after
        for body in _without_one(statement.otherwise):
            yield before + [dataclasses.replace(statement, otherwise=body)] + after


def check(seeds: Sequence[int]) -> list[str]:
    """Reports of the seeds whose programs fail."""
    reports = []
    for seed in seeds:
        program = Grower(seed).grow()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = failure(program)
            if found:
                small = shrink(program)
                reports.append(f"{found}\n# shrunk: {failure(small)}\n{small.describe()}")
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.count):
        for report in check([seed]):
            failed += 1
            print(report, flush=True)
    print(f"{options.count} programs, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
