"""Feeds random texts to the parser, the checker and the binder of Tile: any ends well.

Well means a result, or a `TileError` that points into the text. Run it alone for many inputs::

    python -m tests.tile_fuzz 1000000
"""

from __future__ import annotations

import argparse
import collections
import math
import random
import re
import time
from collections.abc import Iterator

import numpy as np

from autotune.errors import TileError, UsageError
from autotune.ir import dtypes
from autotune.tile import Function, Program, bind, check, evaluate, gradient, parse, to_code
from autotune.tile.binding.bound_program import Contract
from autotune.tile.binding.size_limits import operations
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.syntax.unparser import expr_code

SEEDS = (
    "function (A[M, L], B[L, N]) -> (C) {\n    C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n",
    "function (I) -> (O) {\n    Neg = -I;\n    M[] = >(Neg[i, j, k]);  # all\n    O = -M;\n}\n",
    "function (I[N]) -> (O) { O[i: (N + 1) / 2] = >(I[2 * i + j]), j < 2; }",
    "function (I[N]) -> (O, P) { O[i: N] = +(I[k]), i - k < N; P[2 * i: N] = =(I[i / 2]); }",
    "function (I[N, Lx, Ly, CI], K[LKx, LKy, CI, CO]) -> (O) {\n"
    "    O[n, x, y, co: N, Lx - 2 * (LKx - 1), Ly - 3 * (LKy - 1), CO] =\n"
    "        +(I[n, x + 2 * kx, y + 3 * ky, ci] * K[kx, ky, ci, co]);\n}\n",
    "function (X[M, N]) -> (O) {\n    Most[i: M] = >(X[i, j]);\n    At = index(X, 1);\n"
    "    O[i: M] = <(X[i, j] == Most[i] ? At[i, j]);\n}\n",
    "function (X[M, N], G) -> (O) {\n    H = (M + 1) / 2;\n    S = exp(X - 1.5e-3) / (H * N);\n"
    "    O = X < 0 ? as_float(S, 64) : max(pow(S, 2), G >= 1 ? reshape(X, M, N) : -X);\n}\n",
    "function (I[N, L, CI], K[LK, CI, CO], D) -> (O, Pad) {\n"
    "    Pad = max(0, ((D + 1) / 2 - 1) * 2 + LK - D) / 2;\n"
    "    A = assert_fits(min(D, L) >= 1 & CI != 9);\n"
    "    O[n, 2 * x + k - Pad, co: N, D, CO] = +(I[n, x, ci] * K[k, ci, co]) no_defract;\n}\n",
    "function (X[M, N], T[M, N], P) -> (O, Q, R, S) {\n    O = relu(builtin_softmax(X, M, N));\n"
    "    Q = builtin_binary_crossentropy(O, T, M * N) + builtin_logsoftmax(T, M, N);\n"
    "    R[i, j: M, N] = =(X[i, j] == T[j, i]) default P;\n    S[ : ] = +(R[i, j]);\n}\n",
    "function (V[N, C], I, State) -> (O, Back, Next) {\n    J = as_int(I, 32) & 3 | ~1 << 2;\n"
    "    O = gather(V, J);\n    Back = scatter(O, J, V);\n    F = prng_step(State, N, C);\n"
    "    R = as_bool(prng_value(F) * V, 8) ? (N ^ 1) >> 1 : shape(V);\n"
    "    Next = prng_state(F);\n}\n",
)
TOKENS = re.compile(r"[A-Za-z]\w*|[0-9][0-9.e-]*|->|<<|>>|[=!<>]=|\s+|.", re.DOTALL)
TYPES = ("float32", "float32", "float32", "int32", "int64", "uint8", "bool", "float16")
WORDS = (
    "function", "(", ")", "->", "{", "}", "[", "]", ",", ":", ";", "=", "+", "-", "*", "/", "<",
    ">", "==", "!=", "<=", ">=", "?", "#", "\n", "A", "B", "I", "O", "N", "M", "i", "j", "k", "0",
    "1", "2", "0.5", "1e9", "99999999999999999", "sqrt", "as_int", "index", "reshape", "max", "_",
    "&", "|", "^", "~", "<<", ">>", "min", "default", "no_defract", "default P", "relu", "gather",
    "scatter", "shape", "prng_step", "prng_value", "prng_state", "builtin_softmax", "assert_n",
    "as_bool", "builtin_logsoftmax", "builtin_binary_crossentropy", "D", "State",
    "\u00e9", "\x00", "\u2028", "'", "\\", "$", "1e999", "..", "\t", "\r\n", "\U0001f600",
)  # fmt: skip


def mutated(rng: random.Random) -> str:
    """Return a program with a few of its tokens or characters changed."""
    text = rng.choice(SEEDS)
    parts = TOKENS.findall(text) if rng.random() < 0.8 else list(text)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(parts) + 1)
        match rng.randrange(6):
            case 0:
                del parts[at : at + rng.choice([1, 1, 2, 5])]
            case 1:
                parts.insert(at, rng.choice(WORDS))
            case 2:
                parts[at : at + 1] = [rng.choice(WORDS)]
            case 3:
                parts[at:at] = parts[at : at + rng.choice([1, 3, 10])]
            case 4:
                other = rng.randrange(len(parts) + 1)
                parts[at : at + 1], parts[other : other + 1] = (
                    parts[other : other + 1], parts[at : at + 1]
                )  # fmt: skip
            case 5:
                parts[at:at] = [rng.choice("([-{")] * rng.choice([1, 5, 150])
    return "".join(parts)


def noise(rng: random.Random) -> str:
    """Return words in no order, or characters."""
    length = rng.choice([0, 1, 5, 30])
    if rng.random() < 0.5:
        return " ".join(rng.choices(WORDS, k=length))
    return "".join(chr(rng.randrange(rng.choice([128, 0xD7FF]))) for _ in range(length))


class _Grammar:
    """Writes programs by the grammar, most of them with names that exist."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tensors: list[str] = []
        self.dimensions: list[str] = []

    def program(self) -> str:
        inputs = ", ".join(self.input(k) for k in range(self.rng.randint(1, 3)))
        body = "".join(self.statement(k) for k in range(self.rng.randint(1, 4)))
        outputs = self.rng.choice(self.tensors[-2:])
        return f"function ({inputs}) -> ({outputs}) {{\n{body}}}"

    def input(self, number: int) -> str:
        name = f"T{number}"
        self.tensors.append(name)
        if self.rng.random() < 0.3:
            return name
        own = [self.rng.choice("MNKL") for _ in range(self.rng.randint(0, 3))]
        self.dimensions += own
        if self.dimensions and self.rng.random() < 0.1:
            own.append(self.size(2))
        return f"{name}[{', '.join(own)}]"

    def statement(self, number: int) -> str:
        name = f"S{number}"
        if self.rng.random() < 0.5:
            text = f"{name} = {self.assigned()};"
        else:
            text = self.contraction(name)
        self.tensors.append(name)
        return f"    {text}\n"

    def assigned(self) -> str:
        if self.rng.random() < 0.1:
            return f"prng_step({self.rng.choice(self.tensors)}, {self.size(1)}, {self.size(2)})"
        if self.rng.random() < 0.1:
            return f"assert_so({self.size(2)} {self.rng.choice(['==', '<', '!='])} {self.size(1)})"
        return self.size(3) if self.rng.random() < 0.1 else self.value(self.rng.randint(0, 4))

    def contraction(self, name: str) -> str:
        rng = self.rng
        rank = rng.randint(0, 2)
        indices = ", ".join(self.form() for _ in range(rank))
        sizes = ", ".join(self.size(2) for _ in range(rank if rng.random() < 0.95 else 1))
        reads = [self.access() for _ in range(3)]
        ways = ["{0}", "{0} * {1}", "{0} + {1}", "{0} == {1} ? {2}", "{0} == {1}"]
        combined = rng.choice(ways).format(*reads)
        limits = "".join(f", {self.form()} < {self.size(1)}" for _ in range(rng.randint(0, 2)))
        colon = f": {sizes}" if sizes else ""
        behind = rng.choice(["", "", "", " no_defract", f" default {rng.choice(self.tensors)}"])
        return f"{name}[{indices}{colon}] = {rng.choice('+*<>=')}({combined}){limits}{behind};"

    def access(self) -> str:
        indices = ", ".join(self.form() for _ in range(self.rng.randint(0, 2)))
        return f"{self.rng.choice(self.tensors)}[{indices}]"

    def form(self) -> str:
        rng = self.rng
        term = rng.choice(["i", "j", "k", "2 * i", "i / 2", "3 * j / 2", "-k", "0"])
        return term if rng.random() < 0.6 else f"{term} {rng.choice('+-*/')} {rng.choice('ijk12N')}"

    def size(self, depth: int) -> str:
        rng = self.rng
        if not depth or rng.random() < 0.6:
            return rng.choice([*self.dimensions, "1", "2", "7", rng.choice(self.tensors)])
        if rng.random() < 0.3:
            ways = ["max({}, {})", "min({}, {})", "({} & {})", "({} >> {})", "({} ^ ~{})"]
            way = rng.choice(ways)
            return way.format(self.size(depth - 1), self.size(depth - 1))
        return f"({self.size(depth - 1)} {rng.choice('+-*/')} {self.size(depth - 1)})"

    def value(self, depth: int) -> str:
        rng = self.rng
        if not depth:
            return rng.choice([*self.tensors, *self.dimensions, "1", "0.5", "0"])
        a, b, c = (self.value(rng.randrange(depth)) for _ in range(3))
        ways = [
            f"({a} + {b})", f"{a} * {b}", f"{a} / {b}", f"-{a}", f"({a} < {b})", f"sqrt({a})",
            f"({a} ? {b} : {c})", f"as_int({a}, 32)", f"max({a}, {b})", f"index({a}, 0)",
            f"reshape({a}, {self.size(1)})", f"pow({a}, {b})", f"exp({a}, {b})",
            f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"({a} << {b})", f"({a} >> {b})",
            f"~{a}", f"relu({a})", f"shape({a})", f"gather({a}, as_int({b}, 32))",
            f"scatter({a}, as_int({b}, 64), {c})", f"builtin_softmax({a}, {self.size(1)}, 2)",
            f"builtin_logsoftmax({a}, 2, {self.size(1)})", f"prng_value({a})", f"prng_state({a})",
            f"builtin_binary_crossentropy({a}, {b}, {self.size(1)})", f"as_bool({a}, 8)",
        ]  # fmt: skip
        return rng.choice(ways)


def texts(rng: random.Random) -> Iterator[str]:
    """Yield texts that are, or nearly are, or are not Tile functions."""
    while True:
        kind = rng.random()
        if kind < 0.6:
            yield mutated(rng)
        elif kind < 0.9:
            yield _Grammar(rng).program()
        else:
            yield noise(rng)


def judge(text: str, rng: random.Random) -> str:
    """Take a text as far as it goes and say how far; fail on any error but a `TileError`."""
    stage = "parsed"
    try:
        function = parse(text)
        assert parse(to_code(function)) == function, text
        stage = "checked"
        ranks = {name: symbol.rank for name, symbol in check(function).items()}
        stage = "bound"
        shapes, sizes = _shapes(function, ranks, rng), size_inputs(function)
        types = {name: rng.choice(TYPES) for name in shapes}
        types |= {name: "uint32" for name, shape in shapes.items() if shape == (3, 2048)}
        program = bind(function, shapes, types, {name: rng.randint(-1, 5) for name in sizes})
    except TileError as error:
        refused = error
    else:
        follow(program, types)
        return "accepted"
    lines = text.split("\n")
    assert 1 <= refused.line <= len(lines), text
    assert 1 <= refused.column <= len(lines[refused.line - 1]) + 1, text
    return f"not {stage}"


def follow(program: Program, types: dict[str, str]) -> None:
    """Evaluate and differentiate a program, which may be refused in one line."""
    contracts = [step for step in program.steps if isinstance(step, Contract)]
    sizes = [math.prod(step.type.shape) for step in program.steps]
    sizes += [operations(contract.domain) for contract in contracts]
    if max(sizes, default=0) < 10_000:
        of = [program.types[name] for name in program.inputs]
        found = evaluate(program, *(np.ones(t.shape, dtypes.numpy_dtype(t.dtype)) for t in of))
        for name, array in zip(program.outputs, found, strict=True):
            own = program.types[name]
            assert (array.shape, array.dtype.name) == (own.shape, own.dtype)
    ranks = {name: len(program.types[name].shape) for name in program.inputs}
    try:
        check(gradient(program.function, dtypes_of=types, ranks=ranks))
    except UsageError:
        return


def _shapes(
    function: Function, ranks: dict[str, int | None], rng: random.Random
) -> dict[str, tuple[int, ...]]:
    sizes = {name: rng.randint(1, 4) for name in "MNKLI"}
    shapes: dict[str, tuple[int, ...]] = {}
    for i in function.inputs:
        if i.name.text in size_inputs(function):
            continue
        if i.name.text == "State" or (i.dimensions is None and rng.random() < 0.05):
            shapes[i.name.text] = (3, 2048)
            continue
        rank = ranks[i.name.text]
        own = i.dimensions
        names = ["I"] * (rank or 1) if own is None else [expr_code(d) for d in own]
        shapes[i.name.text] = tuple(sizes.setdefault(name, rng.randint(1, 4)) for name in names)
    return shapes


def fuzz(count: int, seed: int) -> collections.Counter[str]:
    """Judge so many texts; return how many came how far."""
    rng = random.Random(seed)
    return collections.Counter(
        judge(text, rng) for text, _ in zip(texts(rng), range(count), strict=False)
    )


def main() -> None:
    """Fuzz as often as the command line says, and print counts and time."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("count", type=int)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    start = time.process_time()
    outcomes = fuzz(asked.count, asked.seed)
    spent = time.process_time() - start
    print(f"{asked.count} texts in {spent:.0f} s of CPU, {asked.count / spent:.0f} per second")
    for outcome, number in outcomes.most_common():
        print(f"{number:9d} {outcome}")


if __name__ == "__main__":
    main()
