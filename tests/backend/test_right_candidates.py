"""No right candidate is refused: built-in templates at random sizes, types and configurations."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.benches import answers_bench, built
from support.slow_cases import slow

from autotune.ir import dtypes
from autotune.measure.candidate import CandidateError
from autotune.measure.result import MeasureErrorNo
from autotune.task.task import Task

SCANNED = ("float32", "float64", "int32", "int64")
CONFIGURATIONS = 2
SLOW = int(os.environ.get("AUTOTUNE_SHAPES", "200"))
Draw = Callable[[np.random.Generator], dict[str, Any]]


def size(rng: np.random.Generator, most: int) -> int:
    """Return a size, small ones as often as large ones, powers of two among them."""
    if rng.random() < 0.3:
        return 2 ** int(rng.integers(0, most.bit_length()))
    return round(2 ** (rng.random() * np.log2(most)))


def _scan(rng: np.random.Generator) -> dict[str, Any]:
    return {"m": size(rng, 400), "n": size(rng, 400)}


def _cell(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "steps": size(rng, 60), "batch": size(rng, 8), "units": size(rng, 128),
        "dtype": str(rng.choice(["float32", "float64"])),
    }


def _conv(rng: np.random.Generator) -> dict[str, Any]:
    kh, kw = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    return {
        "n": int(rng.integers(1, 3)), "c": 2 * size(rng, 10), "h": kh + size(rng, 14) - 1,
        "w": kw + size(rng, 14) - 1, "o": 2 * size(rng, 10), "kh": kh, "kw": kw,
        "stride": int(rng.integers(1, 3)), "pad": int(rng.integers(0, 3)),
        "groups": 1 + int(rng.integers(2)), "dtype": str(rng.choice(dtypes.NUMBERS)),
    }


def _matmul(rng: np.random.Generator) -> dict[str, Any]:
    dtype = str(rng.choice(dtypes.NUMBERS))
    return {"m": size(rng, 80), "n": size(rng, 80), "k": size(rng, 600), "dtype": dtype}


def _layout(rng: np.random.Generator) -> dict[str, Any]:
    return {name: bool(rng.integers(2)) for name in ("transpose_a", "transpose_b")}


def _pool(rng: np.random.Generator) -> dict[str, Any]:
    kernel = int(rng.integers(1, 5))
    return {
        "n": int(rng.integers(1, 3)), "c": size(rng, 20), "h": kernel + size(rng, 14) - 1,
        "w": kernel + size(rng, 14) - 1, "kernel": kernel, "stride": int(rng.integers(1, 3)),
        "pad": int(rng.integers(0, kernel)), "how": str(rng.choice(["max", "mean"])),
        "dtype": str(rng.choice(dtypes.FLOATS)),
    }


def _softmax(rng: np.random.Generator) -> dict[str, Any]:
    return {"m": size(rng, 40), "n": size(rng, 2000), "dtype": str(rng.choice(dtypes.FLOATS))}


TEMPLATES: dict[str, tuple[list[str], Draw]] = {
    "broadcast_add": (
        ["llvm", "cuda"],
        lambda rng: {"n": size(rng, 300), "dtype": str(rng.choice(dtypes.NUMBERS))},
    ),
    "matmul": (["llvm", "cuda"], lambda rng: {**_matmul(rng), **_layout(rng)}),
    "conv2d_nchw": (["llvm", "cuda"], _conv),
    "softmax": (["llvm", "cuda"], _softmax),
    "cumsum": (
        ["llvm", "cuda"],
        lambda rng: {**_scan(rng), "axis": int(rng.integers(2)), "dtype": str(rng.choice(SCANNED))},
    ),
    "linear_recurrence": (
        ["llvm", "cuda"], lambda rng: {**_scan(rng), "dtype": str(rng.choice(SCANNED[:2]))}
    ),
    "rnn_cell": (["llvm", "cuda"], _cell),
    "lstm_cell": (["llvm", "cuda"], _cell),
    "batch_matmul": (["llvm"], lambda rng: {"b": size(rng, 20), **_matmul(rng), **_layout(rng)}),
    "dense": (
        ["llvm", "cuda"],
        lambda rng: {
            "m": size(rng, 80), "n": size(rng, 80), "k": size(rng, 300),
            "activation": str(rng.choice(["", "relu", "gelu"])),
            "dtype": str(rng.choice(dtypes.FLOATS)),
        },
    ),
    "conv2d_nhwc": (["llvm"], _conv),
    "pool2d": (["llvm", "cuda"], _pool),
    "layer_norm": (["llvm", "cuda"], _softmax),
    "rms_norm": (["llvm"], _softmax),
    "bias_gelu": (["llvm"], _softmax),
    "attention": (
        ["llvm"],
        lambda rng: {
            "b": int(rng.integers(1, 3)), "heads": int(rng.integers(1, 3)), "s": size(rng, 150),
            "d": size(rng, 40), "causal": bool(rng.integers(2)),
            "dtype": str(rng.choice(dtypes.FLOATS)),
        },
    ),
    "reduce": (
        ["llvm", "cuda"],
        lambda rng: {
            "m": size(rng, 60), "n": size(rng, 3000), "axis": int(rng.integers(2)),
            "how": str(rng.choice(["sum", "mean", "max", "min"])),
            "dtype": str(rng.choice(dtypes.FLOATS)),
        },
    ),
    "transpose": (
        ["llvm", "cuda"],
        lambda rng: {
            "m": size(rng, 200), "n": size(rng, 200), "dtype": str(rng.choice(dtypes.NUMBERS)),
        },
    ),
}
CASES = [(name, kind) for name, (kinds, _) in TEMPLATES.items() for kind in kinds]


pytestmark = pytest.mark.usefixtures("own_cache")


def refused(name: str, target: str, args: dict[str, Any], rng: np.random.Generator) -> list[str]:
    """Return what is said against some random configurations of a workload, one line each."""
    task = Task.from_reference(name, args, target)
    others = task.space.sample(min(CONFIGURATIONS, len(task.space)) - 1, rng)
    indices = {task.default_index, *map(int, others)}
    bench = answers_bench(task, seed=int(rng.integers(100)))
    found = []
    for index in sorted(indices):
        values = task.space.config(index).values
        try:
            bench.run(built(task, values))
        except CandidateError as error:
            if error.code is MeasureErrorNo.WRONG_ANSWER:
                found.append(f"{name} {target} {args} {values}: {error.message}; {bench.checks}")
    return found


def random_target(kind: str, rng: np.random.Generator) -> str:
    """Return a target for this machine."""
    return str(rng.choice(["llvm", "llvm -fast-math"])) if kind == "llvm" else "cuda -on=cpu"


def none_refused(name: str, kind: str, count: int, first: int) -> None:
    """Try random workloads of a template."""
    found = []
    for number in range(first, first + count):
        rng = np.random.default_rng(number)
        found += refused(name, random_target(kind, rng), TEMPLATES[name][1](rng), rng)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_right_candidate_of_a_template_is_refused(name: str, kind: str) -> None:
    none_refused(name, kind, 1, 1000)


@pytest.mark.parametrize(
    ("d", "causal", "dtype"),
    [slow((9, False, "float32")), (20, True, "float16"), slow((33, True, "float32"))],
)
def test_a_fused_multiply_add_in_the_argument_of_exp_is_right(d, causal, dtype) -> None:
    # Scores are multiplied by the root of 1 / d, which is rounded.
    sizes = {"b": 1, "heads": 2, "s": 70, "d": d, "causal": causal, "dtype": dtype}
    found = refused("attention", "llvm", sizes, np.random.default_rng(0))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_no_right_candidate_of_a_template_is_refused_at_many_sizes(name: str, kind: str) -> None:
    none_refused(name, kind, SLOW, 0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("name", "target", "args"),
    [
        ("rnn_cell", "llvm", {"steps": 512, "batch": 1, "units": 1024}),
        ("lstm_cell", "llvm", {"steps": 128, "batch": 2, "units": 512}),
        ("rnn_cell", "llvm -fast-math", {"steps": 64, "batch": 4, "units": 256}),
        ("rnn_cell", "llvm", {"steps": 512, "batch": 2, "units": 64, "dtype": "float64"}),
        ("lstm_cell", "llvm", {"steps": 16, "batch": 8, "units": 128}),
        ("lstm_cell", "llvm", {"steps": 512, "batch": 1, "units": 32, "dtype": "float64"}),
        ("cumsum", "llvm", {"m": 1, "n": 10**7, "axis": 1}),
        ("cumsum", "llvm", {"m": 10**7, "n": 1, "axis": 0}),
        ("cumsum", "llvm -fast-math", {"m": 10**6, "n": 10, "axis": 0}),
        ("cumsum", "llvm", {"m": 1, "n": 10**7, "axis": 1, "dtype": "float64"}),
        ("linear_recurrence", "llvm", {"m": 10**6, "n": 4}),
        ("softmax", "llvm", {"m": 1, "n": 10**7}),
        ("softmax", "llvm -fast-math", {"m": 1, "n": 10**7, "dtype": "float64"}),
        ("softmax", "llvm", {"m": 1, "n": 10**7, "dtype": "bfloat16"}),
        ("softmax", "llvm", {"m": 1, "n": 10**7, "dtype": "float16"}),
        ("reduce", "cuda -on=cpu", {"m": 1, "n": 10**7}),
        ("reduce", "cuda -on=cpu", {"m": 1, "n": 10**7, "dtype": "float16"}),
        ("reduce", "cuda -on=cpu", {"m": 2, "n": 10**7, "dtype": "bfloat16"}),
        ("matmul", "llvm", {"m": 4, "n": 4, "k": 10**6, "dtype": "float16"}),
        ("matmul", "llvm -fast-math", {"m": 4, "n": 4, "k": 10**6}),
    ],
)
def test_no_right_candidate_of_a_large_workload_is_refused(
    name: str, target: str, args: dict[str, Any]
) -> None:
    assert not refused(name, target, args, np.random.default_rng(0))
