from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune.errors import ArgumentError, CodegenError
from autotune.ir.expr import Buffer, Const, SizeVar
from autotune.ir.stmt import Function, Seq
from autotune.runtime.arrays import ArgumentChecker


def i32(value: int) -> Const:
    return Const(value, "int32")


def fixed() -> ArgumentChecker:
    """f(A: float32 (2, 3), out B: float32 (6,))."""
    a, b = Buffer("A", "float32", (i32(2), i32(3))), Buffer("B", "float32", (i32(6),))
    return ArgumentChecker(Function("f", (a, b), frozenset([b]), Seq(())))


def symbolic() -> ArgumentChecker:
    """f(A: int32 (n, m), B: int32 (n + 1,), out C: int32 (n * m,))."""
    n, m = SizeVar("n"), SizeVar("m")
    a, b = Buffer("A", "int32", (n, m)), Buffer("B", "int32", (n + 1,))
    c = Buffer("C", "int32", (n * m,))
    return ArgumentChecker(Function("f", (a, b, c), frozenset([c]), Seq(()), (n, m)))


A = np.zeros((2, 3), "float32")
B = np.zeros(6, "float32")


def read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(6, "float32")
    array.flags.writeable = False
    return array


def overlapping() -> tuple[Any, ...]:
    memory = np.zeros(8, "float32")
    return memory[:6].reshape(2, 3), memory[2:]


def misaligned() -> np.ndarray[Any, Any]:
    return np.zeros(25, "int8")[1:].view("float32").reshape(2, 3)


MISTAKES: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "too few": (lambda: (A,), "f takes 2 arrays (A, B), got 1"),
    "a list": (lambda: ([1.0], B), "argument 1, 'A', must be a NumPy array, got list"),
    "dtype": (lambda: (A.astype("float64"), B), "'A', must have dtype float32, got float64"),
    "byte order": (
        lambda: (A.astype(">f4"), B),
        "'A', must have dtype float32, got float32 in foreign byte order",
    ),
    "shape": (
        lambda: (A, np.zeros(5, "float32")),
        "argument 2, 'B', must have shape (6,), got (5,)",
    ),
    "dimensions": (lambda: (A.reshape(6), B), "'A', must have shape (2, 3), got (6,)"),
    "layout": (lambda: (np.asfortranarray(A), B), "'A', must be C-contiguous"),
    "slices": (lambda: (A, np.zeros(12, "float32")[::2]), "'B', must be C-contiguous"),
    "alignment": (lambda: (misaligned(), B), "'A', must be aligned to its float32 elements"),
    "read only": (lambda: (A, read_only()), "'B', is written, so it must be writeable"),
    "overlap": (overlapping, "output 'B' shares memory with 'A'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_clear_line(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(ArgumentError) as error:
        fixed().check(make())
    assert message in str(error.value)
    assert str(error.value).startswith("f")
    assert "\n" not in str(error.value)


def test_right_arrays_become_addresses() -> None:
    assert fixed().check((A, B)) == [A.ctypes.data, B.ctypes.data]


def test_inputs_may_be_read_only_and_share_memory() -> None:
    a, b, c = (Buffer(name, "float32", (i32(6),)) for name in "abc")
    checker = ArgumentChecker(Function("f", (a, b, c), frozenset([c]), Seq(())))
    x, out = read_only(), np.zeros(6, "float32")
    assert checker.check((x, x, out))[0] == x.ctypes.data


def test_neighbouring_arrays_do_not_overlap() -> None:
    memory = np.zeros(12, "float32")
    fixed().check((memory[:6].reshape(2, 3), memory[6:]))


def test_sizes_come_from_the_shapes() -> None:
    arrays = [np.zeros(shape, "int32") for shape in ((4, 5), (5,), (20,))]
    assert symbolic().check(arrays)[3:] == [4, 5]


def test_empty_arrays_are_arrays() -> None:
    arrays = [np.zeros(shape, "int32") for shape in ((0, 5), (1,), (0,))]
    assert symbolic().check(arrays)[3:] == [0, 5]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 5), (4,), (20,)), "argument 2, 'B', must have shape (5,) (n = 4, m = 5), got (4,)"),
        (((4, 5), (5,), (19,)), "argument 3, 'C', must have shape (20,) (n = 4, m = 5), got (19,)"),
        (((4,), (5,), (20,)), "argument 1, 'A', must have 2 dimensions, got 1"),
    ],
)
def test_shapes_must_agree_on_the_sizes(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        symbolic().check([np.zeros(shape, "int32") for shape in shapes])
    assert message in str(error.value)


def test_a_size_that_no_shape_tells_is_refused() -> None:
    n = SizeVar("n")
    a = Buffer("A", "int32", (n * 2,))
    with pytest.raises(CodegenError, match="size n of f is not the extent of any array"):
        ArgumentChecker(Function("f", (a,), frozenset([a]), Seq(()), (n,)))
