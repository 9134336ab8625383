"""What the tensor-expression language refuses, and in what words."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support.mistakes import Program, assert_refused, lower_schedule_of, refused

from autotune import te
from autotune.errors import AutotuneError, IRError, ScheduleError


def literal_too_large(p: Program) -> None:
    pixels = te.placeholder((4,), "uint8", name="X")
    te.compute((4,), lambda i: pixels[i] + 300)


def index_negative_const(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i, -1], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


def index_too_large(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i + 5, 0], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


def free_k(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i, p.k], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


def free_foreign(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i, p.B.op.axis[1]], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


MISTAKES = [
    refused(
        "placeholder negative",
        lambda p: te.placeholder((4, -1), name="X"),
        "placeholder 'X': dimension 1 must not be negative, got -1",
        IRError,
    ),
    refused(
        "placeholder float",
        lambda p: te.placeholder((4, 2.5), name="X"),
        "placeholder 'X': dimension 1 must be an integer, got 2.5 of type float32",
        IRError,
    ),
    refused(
        "constant too large",
        lambda p: te.const(2**40, "int32"),
        "te.const: 1099511627776 does not fit in int32",
        IRError,
    ),
    refused(
        "constant of thousands of digits",
        lambda p: te.const(10**5000),
        "te.const: about 10^5000 does not fit in int64",
        IRError,
    ),
    refused(
        "dimension of thousands of digits",
        lambda p: te.placeholder((10**5000,), name="X"),
        "placeholder 'X': dimension 0: the number about 10^5000 does not fit in int64",
        IRError,
    ),
    refused(
        "operand of thousands of digits",
        lambda p: te.var("n") + -(10**5000),
        "the number about -10^5000 does not fit in int32, the type of the operand beside it: "
        "convert that operand with .astype first",
        IRError,
    ),
    refused(
        "branch of thousands of digits",
        lambda p: te.if_then_else(te.var("n") < 3, 10**5000, 1),
        "the number about 10^5000 does not fit in int64",
        IRError,
    ),
    refused(
        "constant not whole",
        lambda p: te.const(1.5, "int32"),
        "te.const: 1.5 does not fit in int32",
        IRError,
    ),
    refused(
        "constant that is no number",
        lambda p: te.const("1", "float32"),
        "cannot use a str ('1') in an expression",
        IRError,
    ),
    refused(
        "sum of conditions",
        lambda p: te.compute((4,), lambda i: (i > 1) + (i > 2), name="X"),
        "`+` takes numbers, not conditions: use .astype('int32') first",
        IRError,
    ),
    refused(
        "minus a condition",
        lambda p: te.compute((4,), lambda i: -(i > 1), name="X"),
        "`-` takes numbers, not conditions: use .astype('int32') first",
        IRError,
    ),
    refused(
        "placeholder shape str",
        lambda p: te.placeholder("44", name="X"),
        "placeholder 'X': the shape must be a tuple of sizes, got '44'",
        IRError,
    ),
    refused(
        "placeholder none",
        lambda p: te.placeholder(None, name="X"),
        "placeholder 'X': the shape must be a tuple of sizes, got None",
        IRError,
    ),
    refused(
        "placeholder none dim",
        lambda p: te.placeholder((None, 4), name="X"),
        "placeholder 'X': dimension 0 must be an integer, got None",
        IRError,
    ),
    refused(
        "placeholder dtype",
        lambda p: te.placeholder((4,), "float", name="X"),
        "unknown dtype 'float': expected one of float16, bfloat16, float32, float64, int8, int16, "
        "int32, int64, uint8, uint16, uint32, uint64, bool",
        IRError,
    ),
    refused(
        "literal too large",
        literal_too_large,
        "the number 300 does not fit in uint8, the type of the operand beside it: convert that "
        "operand with .astype first",
        IRError,
    ),
    refused(
        "constant of the wrong sign",
        lambda p: te.const(-1, "uint16"),
        "te.const: -1 does not fit in uint16",
        IRError,
    ),
    refused(
        "constant beyond a half",
        lambda p: te.const(1e5, "float16"),
        "te.const: 100000.0 does not fit in float16",
        IRError,
    ),
    refused(
        "too many lambda",
        lambda p: te.compute((4,), lambda i, j: p.A[i, j], name="X"),
        "compute 'X': the shape has 1 dimensions, but the function takes 2 indices",
        IRError,
    ),
    refused(
        "compute none",
        lambda p: te.compute((4,), lambda i: None, name="X"),
        "compute 'X': the function must return an expression, got None",
        IRError,
    ),
    refused(
        "compute empty",
        lambda p: te.compute((4,), lambda i: (), name="X"),
        "compute 'X': the function must return an expression, got ()",
        IRError,
    ),
    refused(
        "compute notcallable",
        lambda p: te.compute((4,), 3, name="X"),
        "compute 'X': expected a function of the indices, got 3",
        IRError,
    ),
    refused(
        "whole tensor",
        lambda p: te.compute((4,), lambda i: p.A + 1, name="X"),
        "tensor 'A' has 2 dimensions: index it, as in A[i, j]",
        IRError,
    ),
    refused(
        "index count",
        lambda p: te.compute((4,), lambda i: p.A[i], name="X"),
        "tensor 'A' has 2 dimensions, got 1 indices",
        IRError,
    ),
    refused(
        "index float",
        lambda p: te.compute((4,), lambda i: p.A[i / 2.0, 0], name="X"),
        "index 0 of tensor 'A' must be an integer, got `(float32(i)/2f)` of type float32",
        IRError,
    ),
    refused(
        "index tensor float",
        lambda p: te.compute((4,), lambda i: p.A[p.A[i, 0], 0], name="X"),
        "index 0 of tensor 'A' must be an integer, got `A[i, 0]` of type float32",
        IRError,
    ),
    refused(
        "index negative const",
        index_negative_const,
        "compute 'X': index 1 of 'A', `-1`, runs from -1 to -1, outside 0 to 5; guard it "
        "with te.if_then_else",
        IRError,
    ),
    refused(
        "index too large",
        index_too_large,
        "compute 'X': index 0 of 'A', `(i + 5)`, runs from 5 to 8, outside 0 to 7; guard "
        "it with te.if_then_else",
        IRError,
    ),
    refused(
        "index guarded by a select, which evaluates both sides",
        lambda p: te.compute((9,), lambda i: te.select(i < 8, p.A[i, 0], 0.0), name="X"),
        "compute 'X': index 0 of 'A', `i`, runs from 0 to 8, outside 0 to 7; guard it with "
        "te.if_then_else",
        IRError,
    ),
    refused(
        "python if",
        lambda p: te.compute((4,), lambda i: p.A[i, 0] if i > 0 else 0.0, name="X"),
        "the truth of `(i > 0)` is not known before the program runs: use "
        "te.if_then_else, te.all or te.any instead of if, and or or",
        IRError,
    ),
    refused(
        "int div",
        lambda p: te.compute((4,), lambda i: p.A[i / 2, 0], name="X"),
        "`/` divides floats: use `//` (rounds down) for integers, or .astype first",
        IRError,
    ),
    refused(
        "div zero",
        lambda p: te.compute((4,), lambda i: p.A[i // 0, 0], name="X"),
        "division by zero in `i // 0`",
        IRError,
    ),
    refused(
        "float floordiv",
        lambda p: te.compute((4,), lambda i: p.A[i, 0] // 2.0, name="X"),
        "`//` divides integers, not float32",
        IRError,
    ),
    refused(
        "exp int",
        lambda p: te.compute((4,), lambda i: te.exp(i), name="X"),
        "te.exp takes floats, got `i` of type int32: use .astype('float32') first",
        IRError,
    ),
    refused(
        "isnan of a condition",
        lambda p: te.compute((4,), lambda i: te.isnan(i > 1), name="X"),
        "te.isnan takes floats, got `(i > 1)` of type bool: use .astype('float32') first",
        IRError,
    ),
    refused(
        "floor of a condition",
        lambda p: te.compute((4,), lambda i: te.floor(i > 1), name="X"),
        "te.floor takes floats, got `(i > 1)` of type bool: use .astype('float32') first",
        IRError,
    ),
    refused(
        "popcount float",
        lambda p: te.compute((4,), lambda i: te.popcount(p.A[i, 0]), name="X"),
        "te.popcount takes integers, got `A[i, 0]` of type float32: use .astype('int32') first",
        IRError,
    ),
    refused(
        "power of integers",
        lambda p: te.compute((4,), lambda i: te.power(i, 2), name="X"),
        "te.power takes floats, got `i` of type int32: use .astype('float32') first",
        IRError,
    ),
    refused(
        "fmod of two types",
        lambda p: te.compute((4,), lambda i: te.fmod(p.A[i, 0], i.astype("float64")), name="X"),
        "te.fmod takes operands of one type, got `A[i, 0]` of float32 and `float64(i)` of float64: "
        "use .astype first",
        IRError,
    ),
    refused(
        "sin of text",
        lambda p: te.sin("x"),
        "cannot use a str ('x') in an expression",
        IRError,
    ),
    refused(
        "tanh of a tensor",
        lambda p: te.tanh(p.A),
        "tensor 'A' has 2 dimensions: index it, as in A[i, j]",
        IRError,
    ),
    refused(
        "reduce inside",
        lambda p: te.compute((4,), lambda i: te.sum(p.A[i, p.k], axis=p.k) + 1, name="X"),
        "compute 'X': a reduction must be the whole expression of a compute; give it a "
        "compute of its own and read that",
        IRError,
    ),
    refused(
        "reduce two",
        lambda p: te.compute((4,), lambda i: (te.sum(p.A[i, p.k], axis=p.k), p.A[i, 0]), name="X"),
        "compute 'X': values that are not parts of one reduction cannot share a compute; "
        "give each a compute of its own",
        IRError,
    ),
    refused(
        "reduce bad axis",
        lambda p: te.compute((4,), lambda i: te.sum(p.A[i, 0], axis=i), name="X"),
        "sum: axis must be made by te.reduce_axis, got <i>",
        IRError,
    ),
    refused(
        "reduce no axis",
        lambda p: te.compute((4,), lambda i: te.sum(p.A[i, 0], axis=[]), name="X"),
        "sum: give at least one axis, and each one once",
        IRError,
    ),
    refused(
        "reduce same axis twice",
        lambda p: te.compute((4,), lambda i: te.sum(p.A[i, p.k], axis=[p.k, p.k]), name="X"),
        "sum: give at least one axis, and each one once",
        IRError,
    ),
    refused(
        "free k",
        free_k,
        "compute 'X': 'k' is neither one of its indices nor an axis that it reduces over",
        IRError,
    ),
    refused(
        "free foreign",
        free_foreign,
        "compute 'X': 'j' is neither one of its indices nor an axis that it reduces over",
        IRError,
    ),
    refused(
        "reduce axis bad",
        lambda p: te.reduce_axis(5, "r"),
        "reduce_axis 'r': expected (first, end), got 5",
        IRError,
    ),
    refused(
        "reduce axis reversed",
        lambda p: te.reduce_axis((5, 2), "r"),
        "reduce_axis 'r': extent must not be negative, got -3",
        IRError,
    ),
    refused(
        "reduce bool",
        lambda p: te.compute((4,), lambda i: te.sum(p.A[i, p.k] > 0, axis=p.k), name="X"),
        "sum: cannot reduce conditions; use .astype('int32') first",
        IRError,
    ),
    refused(
        "sum where float",
        lambda p: te.compute(
            (4,), lambda i: te.sum(p.A[i, p.k], axis=p.k, where=p.A[i, p.k]), name="X"
        ),
        "sum: where= takes a condition, got `A[i, k]` of float32",
        IRError,
    ),
    refused(
        "select cond",
        lambda p: te.compute((4,), lambda i: te.select(p.A[i, 0], 1.0, 2.0), name="X"),
        "select takes a condition first, not float32",
        IRError,
    ),
    refused(
        "max one",
        lambda p: te.max(3),
        "te.max: a second value or axis= is missing",
        IRError,
    ),
    refused(
        "max both",
        lambda p: te.max(p.k, p.k, axis=p.k),
        "te.max: give either a second value or an axis, not both",
        IRError,
    ),
    refused(
        "thread bad",
        lambda p: te.thread_axis("threadIdx.w"),
        "unknown thread axis 'threadIdx.w': expected one of blockIdx.x, blockIdx.y, "
        "blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, vthread",
        IRError,
    ),
    refused(
        "var float",
        lambda p: te.var("n", "float32"),
        "var 'n': a size is an int32 or int64, not float32",
        IRError,
    ),
    refused(
        "var too narrow",
        lambda p: te.var("n", "uint8"),
        "var 'n': a size is an int32 or int64, not uint8",
        IRError,
    ),
    refused(
        "tensor bool",
        lambda p: te.compute((4,), lambda i: te.select(p.A > 0, 1.0, 2.0), name="X"),
        "tensor 'A' has 2 dimensions: index it, as in A[i, j]",
        IRError,
    ),
    refused(
        "compute str",
        lambda p: te.compute((4,), lambda i: "a", name="X"),
        "compute 'X': the function must return an expression, got 'a'",
        IRError,
    ),
    refused(
        "index slice",
        lambda p: te.compute((4,), lambda i: p.A[i, :], name="X"),
        "cannot use a slice (slice(None, None, None)) in an expression",
        IRError,
    ),
    refused(
        "eq axis",
        lambda p: te.compute((4,), lambda i: te.select(i.equal(2), p.A[i, 0], "x"), name="X"),
        "cannot use a str ('x') in an expression",
        IRError,
    ),
    refused(
        "thread none",
        lambda p: te.thread_axis((0, 4)),
        "unknown thread axis None: expected one of blockIdx.x, blockIdx.y, blockIdx.z, "
        "threadIdx.x, threadIdx.y, threadIdx.z, vthread",
        IRError,
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), MISTAKES)
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], object], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)


def test_an_axis_of_what_has_no_loops_says_what_to_schedule_instead() -> None:
    X, state = te.placeholder((4, 5), name="X"), te.placeholder((4, 5), name="state")
    first = te.compute((1, 5), lambda _, i: X[0, i], name="first")
    later = te.compute((4, 5), lambda t, i: state[t - 1, i] + X[t, i], name="later")
    sums = te.scan(first, later, state, name="sums")
    for op, index, message in (
        (state.op, 0, "axis[0]: 'state' is a placeholder, which is given and not computed, so it"),
        (X.op, -1, "if it is the state of a scan, the scan's update and init"),
        (sums.op, 1, "axis[1]: 'sums' is a scan, whose loops are those of its init and update ("),
        (sums.op, 0, "('first', 'later'), and over the steps its scan_axis; schedule these"),
        (later.op, 2, "axis[2]: operation 'later' has 2: t, i"),
    ):
        with pytest.raises(ScheduleError, match=re.escape(message)):
            op.axis[index]
    with pytest.raises(ScheduleError, match=r"reduce_axis\[0\]: operation 'later' has none"):
        later.op.reduce_axis[0]
    assert later.op.axis[:1] == (later.op.axis[0],)
    assert list(state.op.axis) == []
