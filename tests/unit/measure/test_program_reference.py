"""A program without a reference is checked against itself in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.bare_computations import (
    COMPUTATIONS,
    FLOATS,
    Made,
    gelu_of_normalised,
    one,
    quantised,
    task_of,
)
from support.benches import Fake, answers_bench, built
from support.legal_configurations import default_and_drawn
from support.slow_cases import every

from autotune import te
from autotune.measure.build_bench import BuildBench
from autotune.measure.candidate import CandidateError
from autotune.measure.checks.program_reference import UnscheduledPrograms
from autotune.measure.run_bench import RunBench
from autotune.runtime.cpu.llvm_compiler import LoadedBinary
from autotune.task.task import Task

Array = np.ndarray[Any, Any]

CASES = [(name, dtype) for name in COMPUTATIONS for dtype in FLOATS]
SOME = every(5, CASES)


pytestmark = pytest.mark.usefixtures("own_cache")


def made(name: str, dtype: str, fault: str = "") -> Task:
    return task_of(lambda: COMPUTATIONS[name](dtype, fault))


def refusal(bench: RunBench, kernel: Any) -> str:
    """Return why a kernel's answers are refused, nothing if they are not."""
    try:
        bench.run(kernel)
    except CandidateError as error:
        return error.message
    return ""


def default(task: Task) -> Any:
    return built(task, task.space.config(task.default_index).values)


def programs(make: Callable[[], Made]) -> UnscheduledPrograms[Any]:
    _, found = BuildBench(task_of(make)).subject()
    assert found is not None
    return found.loaded(LoadedBinary)


# -- candidates ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_inputs_may_be_scalars(dtype: str) -> None:
    def scaled() -> Made:
        X, f = te.placeholder((9,), dtype, "X"), te.placeholder((), dtype, "f")
        return [X, f], [te.compute(X.shape, lambda i: X[i] * f(), name="Y")]

    task = task_of(scaled)
    assert refusal(answers_bench(task), default(task)) == ""


@pytest.mark.parametrize(("name", "dtype"), SOME)
def test_no_schedule_is_refused(name: str, dtype: str) -> None:
    task = made(name, dtype)
    bench = answers_bench(task)
    for index in default_and_drawn(task, 2):
        assert refusal(bench, built(task, task.space.config(index).values)) == ""


@pytest.mark.parametrize(("name", "dtype"), SOME)
def test_a_fault_is_found(name: str, dtype: str) -> None:
    task = made(name, dtype)
    bench, right = answers_bench(task), default(task)

    def one_lane(*arrays: Array) -> None:
        right(*arrays)
        flat = arrays[-1].reshape(-1)
        flat[3::8] = np.roll(flat, 1)[3::8]

    assert "wrong" in refusal(bench, Fake(one_lane))
    faults = ("neighbour",) if name == "recurrence" else ("neighbour", "dropped")
    for fault in faults:
        assert "wrong" in refusal(bench, default(made(name, dtype, fault))), fault


def test_what_is_wrong_by_little_is_found() -> None:
    task = task_of(lambda: gelu_of_normalised("float32"))
    bench, right = answers_bench(task), default(task)

    def off(share: float) -> Fake:
        def kernel(*arrays: Array) -> None:
            right(*arrays)
            arrays[-1][...] += share * np.median(np.abs(arrays[-1]))

        return Fake(kernel)

    assert refusal(bench, off(2.0**-24)) == ""
    assert "wrong" in refusal(bench, off(2.0**-17))


def test_a_factor_in_a_narrow_type_is_found() -> None:
    task = made("products", "float32")

    def products(a: Array, b: Array, c: Array, y: Array) -> None:
        y[...] = np.maximum(a @ b, 0) @ c

    def with_halves(a: Array, b: Array, c: Array, y: Array) -> None:
        products(a, b, c.astype(np.float16).astype(np.float32), y)

    bench = answers_bench(task)
    assert refusal(bench, Fake(products)) == ""
    assert "wrong" in refusal(bench, Fake(with_halves))


# -- what rounds ---------------------------------------------------------------------------


def test_at_a_tie_of_rounding_either_side_is_right() -> None:
    # In this order some sums are on another side of a half than in the program's.
    m, n, d = 200, 300, 128
    task = task_of(lambda: quantised("float32", m=m, n=n, d=d))

    def reversed_sums(a: Array, b: Array, y: Array) -> None:
        total = np.zeros((m, n), np.float32)
        for k in reversed(range(d)):
            total += a[:, k, np.newaxis] * b[:, k]
        y[...] = np.rint(np.clip(total * np.float32(8), -127, 127)) * np.float32(0.125)

    benches = [answers_bench(task, seed) for seed in range(4)]
    assert [refusal(bench, Fake(reversed_sums)) for bench in benches] == [""] * 4


def remainder() -> Made:
    X = te.placeholder((20, 40), name="X")
    return one(lambda i, j: X[i, j] - X[i, j].astype("bfloat16").astype("float32"), X)


def test_where_rounding_is_what_is_computed_the_types_of_the_program_are_right() -> None:
    bench = answers_bench(task_of(remainder))
    assert refusal(bench, default(task_of(remainder))) == ""

    def zeros(_: Array, y: Array) -> None:  # in float64 that would be right
        y[...] = 0

    assert "wrong" in refusal(bench, Fake(zeros))


def test_inputs_that_a_half_type_overflows_for_are_not_drawn() -> None:
    def scaled_square() -> Made:
        X = te.placeholder((40, 50), "float16", name="X")
        return one(lambda i, j: X[i, j] * X[i, j] * te.const(1 / 1024, "float16"), X)

    task = task_of(scaled_square)
    bench = answers_bench(task)
    assert refusal(bench, default(task)) == ""
    assert np.abs(bench._buffers.inputs[0].astype(np.float32)).max() < 256


@pytest.mark.parametrize("outside", ["float64", "float32"])
def test_what_narrow_intermediate_results_round_is_allowed(outside: str) -> None:
    inside = {"float64": "float32", "float32": "float16"}[outside]

    def rounded() -> Made:
        X = te.placeholder((40, 50), outside, name="X")
        return one(lambda i, j: te.sin(X[i, j].astype(inside)).astype(outside) * 3.0, X)

    task = task_of(rounded)
    bench, right = answers_bench(task), default(task)

    def off(x: Array, y: Array) -> None:
        right(x, y)
        y *= 1.02

    assert refusal(bench, right) == ""
    assert "wrong" in refusal(bench, Fake(off))


def test_a_scan_in_a_half_type_may_add_in_another_order() -> None:
    t, n = 96, 40

    def sums() -> Made:
        X, S = (te.placeholder((t, n), "float16", name) for name in "XS")
        first = te.compute((1, n), lambda i, j: X[i, j], name="first")
        update = te.compute((t, n), lambda i, j: S[i - 1, j] + X[i, j], name="update")
        return [X], [te.scan(first, update, S, [X], name="Y")]

    def in_blocks(x: Array, y: Array) -> None:
        blocks = np.cumsum(x.reshape(-1, 8, n), axis=1, dtype=np.float16)
        before = np.zeros(n, np.float16)
        for block, out in zip(blocks, y.reshape(-1, 8, n), strict=True):
            out[...] = before + block
            before = out[-1]

    task = task_of(sums)
    for seed in range(6):
        bench = answers_bench(task, seed)
        assert refusal(bench, Fake(in_blocks)) == ""
        assert "wrong" in refusal(bench, Fake(lambda x, y: (in_blocks(x, y), y.__imul__(1.02))))


# -- the programs --------------------------------------------------------------------------


def test_inputs_and_constants_keep_their_values_and_nothing_else_is_rounded() -> None:
    def make() -> Made:
        X = te.placeholder((3,), "float16", name="X")
        third = te.const(1 / 3, "float32")
        return one(lambda i: ((X[i] * X[i]).astype("float32") * third).astype("bfloat16"), X)

    x, y = np.array([0.1, 1.7, 300.0], np.float16).astype(np.float64), np.zeros(3)
    wide = programs(make).wide
    assert wide is not None
    wide(x, y)
    np.testing.assert_array_equal(y, x * x * np.float64(np.float32(1 / 3)))


def test_integers_are_made_of_precise_floats() -> None:
    def make() -> Made:
        X = te.placeholder((3,), name="X")
        return one(lambda i: (X[i] + 16777216.0).astype("int32") - 16777216, X)

    found = programs(make)
    own, precise = np.zeros(3, np.int32), np.zeros(3, np.int32)
    x = np.array([1.0, 2.0, 3.9], np.float32)
    found.own(x, own)
    assert found.wide is not None
    found.wide(x.astype(np.float64), precise)
    assert (own.tolist(), precise.tolist()) == ([0, 2, 4], [1, 2, 3])


def test_what_is_rounded_on_the_way_is_read_off_the_program() -> None:
    X = te.placeholder((5,), "float16", name="X")
    k = te.reduce_axis((0, 5), "k")

    def kind(element: Callable[..., Any]) -> str | None:
        return programs(lambda: ([X], [te.compute((5,), element, name="Y")])).intermediate

    assert kind(lambda i: X[i] + X[4 - i]) is None  # the output alone
    assert kind(lambda i: X[i] + X[4 - i] * X[i]) == "float16"
    assert kind(lambda i: te.exp(X[i].astype("float32") * 2.0).astype("float16")) == "float32"
    assert kind(lambda i: te.sum(X[k] * X[i], axis=k)) == "float32"
    assert kind(lambda i: te.sum(X[k] * X[i], axis=k, dtype="float16")) == "float16"
    assert kind(lambda i: te.exp(X[i].astype("bfloat16").astype("float32"))) == "bfloat16"


def test_which_programs_have_a_second_type() -> None:
    T = te.placeholder((9,), name="T")
    I = te.placeholder((5,), "int32", name="I")  # noqa: E741
    X = te.placeholder((5,), name="X")
    D = te.placeholder((5,), "float64", name="D")
    place = te.compute((5,), lambda i: X[i].astype("int32") % 9, name="place")

    def kinds(inputs: list[Any], element: Callable[..., Any]) -> tuple[bool, bool, bool]:
        found = programs(lambda: (inputs, [te.compute((5,), element, name="Y")]))
        return found.wide is not None, found.single is not None, found.jumps

    assert kinds([I, T], lambda i: T[I[i] % 9] * 2.0) == (True, False, False)
    assert kinds([X, T], lambda i: T[X[i].astype("int32") % 9]) == (False, False, False)
    assert kinds([X, T], lambda i: T[place[i]]) == (False, False, False)
    assert kinds([D], lambda i: te.exp(D[i])) == (False, True, False)
    assert kinds([I], lambda i: (I[i].astype("float32") / 3.0).astype("int32")) == (
        False, False, False,
    )  # fmt: skip
    assert kinds([X], lambda i: te.select(X[i] > 0.5, X[i], 0.0)) == (True, False, True)
    assert kinds([X], lambda i: te.floor(X[i])) == (True, False, True)
    assert kinds([X], lambda i: te.max(X[i], 0.0)) == (True, False, False)
