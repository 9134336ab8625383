"""Arguments of templates, read off the shapes and dtypes of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import ArgumentError, UsageError
from autotune.operators.template_lookup import find_template
from autotune.runtime.signature import ArrayParameter
from autotune.target import Target
from autotune.task.array_arguments import check_arrays, read_arguments
from autotune.template import Knobs, template, template_of

LLVM = Target.of("llvm")


def product(m: int, n: int, k: int, dtype: str = "float32") -> te.Tensor:
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="r")
    return te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def window(n: int, width: int = 2) -> te.Tensor:
    A = te.placeholder((n + width - 1,), name="A")
    return te.compute((n,), lambda i: sum(A[i + j] for j in range(width)), name="B")


def read(function: Callable[..., Any], *arrays: Any, **given: Any) -> dict[str, Any]:
    return read_arguments(template_of(function), LLVM, arrays, given)


def test_sizes_are_read_off_shapes_and_types_off_dtypes() -> None:
    a, b = np.ones((2, 4), "f8"), np.ones((4, 3), "f8")
    assert read(product, a, b) == {"m": 2, "n": 3, "k": 4, "dtype": "float64"}


def test_what_is_given_by_name_goes_before_what_arrays_tell() -> None:
    a, b = np.ones((2, 4), "f8"), np.ones((4, 3), "f8")
    found = read(product, a, b, m=7, dtype="float32")
    assert found == {"m": 7, "n": 3, "k": 4, "dtype": "float32"}


def test_an_operator_with_defaults_and_flags_is_read() -> None:
    matmul = find_template("matmul", LLVM)
    a, b = np.ones((2, 4), "f4"), np.ones((4, 3), "f4")
    found = read_arguments(matmul, LLVM, (a, b), {})
    assert {name: found[name] for name in "mnk"} == {"m": 2, "n": 3, "k": 4}


def test_a_template_with_knobs_is_read() -> None:
    @template("knobbed")
    def knobbed(cfg: Knobs, n: int) -> list[te.Tensor]:
        cfg.define_knob("x", [1, 2])
        A = te.placeholder((n,), name="A")
        return [A, te.compute((n,), lambda i: A[i], name="B")]

    assert read(knobbed, np.ones(5, "f4")) == {"n": 5}


def test_a_kernel_written_elsewhere_tells_its_sizes_by_its_inputs() -> None:
    @template("scale", target="llvm", reference=lambda x: x)
    def scale(cfg: Knobs, n: int) -> Any:
        x, y = (te.placeholder((n,), name=name) for name in "XY")
        return autotune.CallableKernel(np.copyto, [x], [y], keywords={})

    assert read_arguments(scale, Target.of("llvm"), [np.ones(7, "f4")], {}) == {"n": 7}


def test_a_default_that_cannot_be_a_symbol_is_kept() -> None:
    def scaled(n: int, times: int = 3) -> te.Tensor:
        A = te.placeholder((n,), name="A")
        return te.compute((n,), lambda i: sum(A[i] for _ in range(times)), name="B")

    assert read(scaled, np.ones(5, "f4")) == {"n": 5, "times": 3}
    assert read(scaled, np.ones(5, "f4"), times=2) == {"n": 5, "times": 2}


def test_an_argument_that_no_array_tells_has_to_be_given() -> None:
    with pytest.raises(UsageError, match="do not tell argument 'n': give it by name"):
        read(window, np.ones(5, "f4"))
    assert read(window, np.ones(5, "f4"), n=4) == {"n": 4, "width": 2}


def test_a_function_that_takes_no_symbols_says_so() -> None:
    def even(n: int) -> te.Tensor:
        assert range(n)
        A = te.placeholder((n,), name="A")
        return te.compute((n,), lambda i: A[i], name="B")

    with pytest.raises(UsageError, match=r"argument 'n' \(it does not run with sizes as symbols:"):
        read(even, np.ones(6, "f4"))
    assert read(even, np.ones(6, "f4"), n=6) == {"n": 6}


@pytest.mark.parametrize("leave", [lambda: exit(3), lambda: 5])
def test_a_function_that_ends_the_program_or_returns_no_tensors_says_so(leave: Any) -> None:
    def odd(n: int) -> Any:
        return leave()

    with pytest.raises(UsageError, match=r"symbols: (SystemExit: 3|template 'odd' must return)"):
        read(odd, np.ones(6, "f4"))


def test_an_error_of_several_lines_is_told_in_one_and_kept_as_the_cause() -> None:
    def failing(n: int) -> te.Tensor:
        raise ValueError(f"no such size:\n  {type(n).__name__}\n")

    with pytest.raises(
        UsageError, match=r"as symbols: ValueError: no such size: \w+\): give"
    ) as told:
        read(failing, np.ones(6, "f4"))
    assert "\n" not in str(told.value)
    assert isinstance(told.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.ones((2, 4), "f4")], r"takes 2 arrays \(A, B\), got 1"),
        ([np.ones((2, 4), "f4"), 3], "argument 2 must be an array, got int"),
        (
            [np.ones(2, "f4"), np.ones((4, 3), "f4")],
            r"argument 1, 'A', must have 2 dimensions, got shape \(2,\)",
        ),
    ],
)
def test_arrays_that_cannot_be_read_are_named(arrays: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read(product, *arrays)


def test_a_name_that_is_no_argument_is_refused() -> None:
    with pytest.raises(UsageError, match="'product' has no argument 'q'; it takes: m, n, k"):
        read(product, np.ones((2, 4), "f4"), np.ones((4, 3), "f4"), q=1)
    with pytest.raises(UsageError, match="m must be one value, got"):
        read(product, np.ones((2, 4), "f4"), np.ones((4, 3), "f4"), m=[1, 2])


PARAMETERS = (
    ArrayParameter("A", "float32", (2, 4), False),
    ArrayParameter("C", "bfloat16", (2,), True),
)


def test_arrays_that_fit_pass_with_and_without_outputs() -> None:
    import ml_dtypes

    a = np.ones((2, 4), "f4")
    check_arrays("f", PARAMETERS, [a])
    check_arrays("f", PARAMETERS, [a, np.ones(2, ml_dtypes.bfloat16)])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], r"f takes 1 arrays \(A\), or 2 with its outputs \(C\), got 0"),
        ([np.ones((2, 4))], "f: argument 1, 'A', must have dtype float32, got float64"),
        ([np.ones((4, 2), "f4")], r"'A', must have shape \(2, 4\), got \(4, 2\)"),
        ([np.ones((2, 4), "f4"), np.ones(2, "f4")], "'C', must have dtype bfloat16, got float32"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: list[Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_arrays("f", PARAMETERS, arrays)
