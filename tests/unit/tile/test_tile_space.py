"""The search space of Tile functions: every candidate is right, and records find their way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import QUICK

from autotune import tile
from autotune.builder import BuiltFunction
from autotune.errors import UsageError
from autotune.operators.tile_template import tile_template
from autotune.task.task import Task

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
CONVOLUTION = """function (I[N, C, Y, X], F[O, C, H, W]) -> (R) {
    S[n, o, y, x: N, O, Y, X] = +(I[n, c, y + h - 1, x + w - 1] * F[o, c, h, w]);
    R = S > 0 ? S : 0.0;
}"""
SOFTMAX = """function (X[M, N]) -> (Y) {
    Most[i, 0: M, 1] = >(X[i, j]);
    E = exp(X - Most);
    Sum[i, 0: M, 1] = +(E[i, j]);
    Y = E / Sum;
}"""


def task(code: str, target: str = "llvm", **args: int) -> Task:
    template = tile_template(tile.parse(code), "f", target.split()[0])
    return Task(template, args, target)


@pytest.mark.parametrize(
    ("code", "args", "target"),
    [
        (MATMUL, {"M": 20, "K": 9, "N": 37}, "llvm"),
        (MATMUL, {"M": 16, "K": 8, "N": 32}, "llvm"),
        (CONVOLUTION, {"N": 1, "C": 3, "Y": 5, "X": 7, "O": 33, "H": 3, "W": 3}, "llvm"),
        (SOFTMAX, {"M": 5, "N": 33}, "llvm"),
        (MATMUL, {"M": 20, "K": 9, "N": 37}, "cuda -on=cpu"),
    ],
)
def test_the_default_and_others_compute_what_the_function_means(
    code: str, args: dict[str, int], target: str
) -> None:
    tuned, rng = task(code, target, **args), np.random.default_rng(0)
    arrays = [rng.normal(size=a.shape).astype(a.dtype) for a in tuned.arguments]
    assert tuned.reference is not None
    want = tuned.reference(*arrays[:-1])
    legal = (i for i in rng.integers(len(tuned.space), size=99).tolist() if not tuned.refusal(i))
    for index in (tuned.default_index, next(legal), next(legal)):
        arrays[-1].fill(np.nan)
        BuiltFunction(tuned.final(index), tuned.target)(*arrays)
        np.testing.assert_allclose(arrays[-1], want, rtol=1e-4, atol=1e-4)


def test_a_product_is_in_register_tiles_over_a_packed_panel() -> None:
    listing = str(task(MATMUL, M=512, K=256, N=512).function_of({}))
    assert "C_B1" in listing
    assert "C_A" not in listing
    assert "C_tile" in listing


def test_the_weights_of_a_convolution_are_what_lies_in_vectors() -> None:
    sizes = {"N": 1, "C": 16, "Y": 40, "X": 10, "O": 64, "H": 3, "W": 3}
    assert "S_F1" in str(task(CONVOLUTION, "llvm -threads=2", **sizes).function_of({}))


def test_another_function_is_another_workload_but_its_layout_does_not_count() -> None:
    sizes = {"M": 4, "K": 4, "N": 4}
    key = task(MATMUL, **sizes).workload.key
    assert task(MATMUL.replace("; }", ";  # the product\n}"), **sizes).workload.key == key
    assert task(MATMUL.replace("+(", ">("), **sizes).workload.key != key


def test_inputs_without_dimensions_take_shapes_and_inputs_may_differ_in_type() -> None:
    template = tile_template(tile.parse("function (A, B[N]) -> (C) { C = A * B; }"), "f", "llvm")
    found = Task(template, {"N": 3, "A": "2,3", "dtype": "int32,float64"}).arguments
    assert [(a.shape, a.dtype) for a in found] == [
        ((2, 3), "int32"), ((3,), "float64"), ((2, 3), "float64")
    ]  # fmt: skip
    with pytest.raises(UsageError, match="one for each of A, B"):
        _ = Task(template, {"N": 3, "A": "2,3", "dtype": "int32,int32,int32"}).space


def test_a_file_is_tuned_and_what_was_found_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("product.tile").write_text(MATMUL)
    sizes = ["--set", "M=16", "--set", "K=8", "--set", "N=32"]
    words = [*sizes, "--log", "log.jsonl"]
    assert call("run", "product.tile", *words, "--trials", 2, *QUICK).code == 0
    shown = call("best", "product.tile", *words)
    assert shown.out.startswith("product(M=16, K=8, N=32")
    compiled = tile.compile(MATMUL, records="log.jsonl")
    a, b = np.ones((16, 8), "f4"), np.ones((8, 32), "f4")
    assert (compiled(a, b) == 8).all()
    assert compiled.built(a, b)[1].record is not None
    with pytest.warns(UserWarning, match="default configuration"):
        assert (compiled(b, b.T.copy()) == 32).all()
