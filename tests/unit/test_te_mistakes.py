"""What the tensor-expression language refuses, and in what words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mistakes import Mistakes, Program, assert_refused, lower_schedule_of

from autotune import te
from autotune.errors import AutotuneError, IRError

mistake = Mistakes()


@mistake(IRError, "placeholder 'X': dimension 1 must not be negative, got -1")
def placeholder_negative(p: Program) -> None:
    te.placeholder((4, -1), name="X")


@mistake(IRError, "placeholder 'X': dimension 1 must be an integer, got 2.5 of type float32")
def placeholder_float(p: Program) -> None:
    te.placeholder((4, 2.5), name="X")


@mistake(IRError, "te.const: 1099511627776 does not fit in int32")
def constant_too_large(p: Program) -> None:
    te.const(2**40, "int32")


@mistake(IRError, "te.const: 1.5 does not fit in int32")
def constant_not_whole(p: Program) -> None:
    te.const(1.5, "int32")


@mistake(IRError, "`+` takes numbers, not conditions: use .astype('int32') first")
def sum_of_conditions(p: Program) -> None:
    te.compute((4,), lambda i: (i > 1) + (i > 2), name="X")


@mistake(IRError, "`-` takes numbers, not conditions: use .astype('int32') first")
def minus_a_condition(p: Program) -> None:
    te.compute((4,), lambda i: -(i > 1), name="X")


@mistake(IRError, "placeholder 'X': the shape must be a tuple of sizes, got '44'")
def placeholder_shape_str(p: Program) -> None:
    te.placeholder("44", name="X")


@mistake(IRError, "placeholder 'X': the shape must be a tuple of sizes, got None")
def placeholder_none(p: Program) -> None:
    te.placeholder(None, name="X")


@mistake(IRError, "placeholder 'X': dimension 0 must be an integer, got None")
def placeholder_none_dim(p: Program) -> None:
    te.placeholder((None, 4), name="X")


@mistake(
    IRError,
    "unknown dtype 'float': expected one of float16, bfloat16, float32, float64, int8, int16, "
    "int32, int64, uint8, uint16, uint32, uint64, bool",
)
def placeholder_dtype(p: Program) -> None:
    te.placeholder((4,), "float", name="X")


@mistake(
    IRError,
    "the number 300 does not fit in uint8, the type of the operand beside it: convert that operand "
    "with .astype first",
)
def literal_too_large(p: Program) -> None:
    pixels = te.placeholder((4,), "uint8", name="X")
    te.compute((4,), lambda i: pixels[i] + 300)


@mistake(IRError, "te.const: -1 does not fit in uint16")
def constant_of_the_wrong_sign(p: Program) -> None:
    te.const(-1, "uint16")


@mistake(IRError, "te.const: 100000.0 does not fit in float16")
def constant_beyond_a_half(p: Program) -> None:
    te.const(1e5, "float16")


@mistake(IRError, "compute 'X': the shape has 1 dimensions, but the function takes 2 indices")
def too_many_lambda(p: Program) -> None:
    te.compute((4,), lambda i, j: p.A[i, j], name="X")


@mistake(IRError, "compute 'X': the function must return an expression, got None")
def compute_none(p: Program) -> None:
    te.compute((4,), lambda i: None, name="X")


@mistake(IRError, "compute 'X': the function must return an expression, got ()")
def compute_empty(p: Program) -> None:
    te.compute((4,), lambda i: (), name="X")


@mistake(IRError, "compute 'X': expected a function of the indices, got 3")
def compute_notcallable(p: Program) -> None:
    te.compute((4,), 3, name="X")


@mistake(IRError, "tensor 'A' has 2 dimensions: index it, as in A[i, j]")
def whole_tensor(p: Program) -> None:
    te.compute((4,), lambda i: p.A + 1, name="X")


@mistake(IRError, "tensor 'A' has 2 dimensions, got 1 indices")
def index_count(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i], name="X")


@mistake(
    IRError,
    "index 0 of tensor 'A' must be an integer, got `(float32(i)/2f)` of type float32",
)
def index_float(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i / 2.0, 0], name="X")


@mistake(IRError, "index 0 of tensor 'A' must be an integer, got `A[i, 0]` of type float32")
def index_tensor_float(p: Program) -> None:
    te.compute((4,), lambda i: p.A[p.A[i, 0], 0], name="X")


@mistake(
    IRError,
    "compute 'X': index 1 of 'A', `-1`, runs from -1 to -1, outside 0 to 5; guard it "
    "with te.if_then_else",
)
def index_negative_const(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i, -1], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


@mistake(
    IRError,
    "compute 'X': index 0 of 'A', `(i + 5)`, runs from 5 to 8, outside 0 to 7; guard "
    "it with te.if_then_else",
)
def index_too_large(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i + 5, 0], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


@mistake(
    IRError,
    "the truth of `(i > 0)` is not known before the program runs: use "
    "te.if_then_else, te.all or te.any instead of if, and or or",
)
def python_if(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i, 0] if i > 0 else 0.0, name="X")


@mistake(IRError, "`/` divides floats: use `//` (rounds down) for integers, or .astype first")
def int_div(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i / 2, 0], name="X")


@mistake(IRError, "division by zero in `i // 0`")
def div_zero(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i // 0, 0], name="X")


@mistake(IRError, "`//` divides integers, not float32")
def float_floordiv(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i, 0] // 2.0, name="X")


@mistake(IRError, "te.exp takes floats, got `i` of type int32: use .astype('float32') first")
def exp_int(p: Program) -> None:
    te.compute((4,), lambda i: te.exp(i), name="X")


@mistake(
    IRError, "te.isnan takes floats, got `(i > 1)` of type bool: use .astype('float32') first"
)
def isnan_of_a_condition(p: Program) -> None:
    te.compute((4,), lambda i: te.isnan(i > 1), name="X")


@mistake(IRError, "te.floor takes floats, got `(i > 1)` of type bool: use .astype('float32') first")
def floor_of_a_condition(p: Program) -> None:
    te.compute((4,), lambda i: te.floor(i > 1), name="X")


@mistake(
    IRError,
    "te.popcount takes integers, got `A[i, 0]` of type float32: use .astype('int32') first",
)
def popcount_float(p: Program) -> None:
    te.compute((4,), lambda i: te.popcount(p.A[i, 0]), name="X")


@mistake(IRError, "te.power takes floats, got `i` of type int32: use .astype('float32') first")
def power_of_integers(p: Program) -> None:
    te.compute((4,), lambda i: te.power(i, 2), name="X")


@mistake(
    IRError,
    "te.fmod takes operands of one type, got `A[i, 0]` of float32 and `float64(i)` of float64: "
    "use .astype first",
)
def fmod_of_two_types(p: Program) -> None:
    te.compute((4,), lambda i: te.fmod(p.A[i, 0], i.astype("float64")), name="X")


@mistake(IRError, "cannot use a str ('x') in an expression")
def sin_of_text(p: Program) -> None:
    te.sin("x")


@mistake(IRError, "tensor 'A' has 2 dimensions: index it, as in A[i, j]")
def tanh_of_a_tensor(p: Program) -> None:
    te.tanh(p.A)


@mistake(
    IRError,
    "compute 'X': a reduction must be the whole expression of a compute; give it a "
    "compute of its own and read that",
)
def reduce_inside(p: Program) -> None:
    te.compute((4,), lambda i: te.sum(p.A[i, p.k], axis=p.k) + 1, name="X")


@mistake(
    IRError,
    "compute 'X': values that are not parts of one reduction cannot share a compute; "
    "give each a compute of its own",
)
def reduce_two(p: Program) -> None:
    te.compute((4,), lambda i: (te.sum(p.A[i, p.k], axis=p.k), p.A[i, 0]), name="X")


@mistake(IRError, "sum: axis must be made by te.reduce_axis, got <i>")
def reduce_bad_axis(p: Program) -> None:
    te.compute((4,), lambda i: te.sum(p.A[i, 0], axis=i), name="X")


@mistake(IRError, "sum: give at least one axis, and each one once")
def reduce_no_axis(p: Program) -> None:
    te.compute((4,), lambda i: te.sum(p.A[i, 0], axis=[]), name="X")


@mistake(IRError, "sum: give at least one axis, and each one once")
def reduce_same_axis_twice(p: Program) -> None:
    te.compute((4,), lambda i: te.sum(p.A[i, p.k], axis=[p.k, p.k]), name="X")


@mistake(
    IRError,
    "compute 'X': 'k' is neither one of its indices nor an axis that it reduces over",
)
def free_k(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i, p.k], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


@mistake(
    IRError,
    "compute 'X': 'j' is neither one of its indices nor an axis that it reduces over",
)
def free_foreign(p: Program) -> None:
    X = te.compute((4,), lambda i: p.A[i, p.B.op.axis[1]], name="X")
    lower_schedule_of(te.create_schedule(X.op), p.A, X)


@mistake(IRError, "reduce_axis 'r': expected (first, end), got 5")
def reduce_axis_bad(p: Program) -> None:
    te.reduce_axis(5, "r")


@mistake(IRError, "reduce_axis 'r': extent must not be negative, got -3")
def reduce_axis_reversed(p: Program) -> None:
    te.reduce_axis((5, 2), "r")


@mistake(IRError, "sum: cannot reduce conditions; use .astype('int32') first")
def reduce_bool(p: Program) -> None:
    te.compute((4,), lambda i: te.sum(p.A[i, p.k] > 0, axis=p.k), name="X")


@mistake(IRError, "sum: where= takes a condition, got `A[i, k]` of float32")
def sum_where_float(p: Program) -> None:
    te.compute((4,), lambda i: te.sum(p.A[i, p.k], axis=p.k, where=p.A[i, p.k]), name="X")


@mistake(IRError, "select takes a condition first, not float32")
def select_cond(p: Program) -> None:
    te.compute((4,), lambda i: te.select(p.A[i, 0], 1.0, 2.0), name="X")


@mistake(IRError, "te.max: a second value or axis= is missing")
def max_one(p: Program) -> None:
    te.max(3)


@mistake(IRError, "te.max: give either a second value or an axis, not both")
def max_both(p: Program) -> None:
    te.max(p.k, p.k, axis=p.k)


@mistake(
    IRError,
    "unknown thread axis 'threadIdx.w': expected one of blockIdx.x, blockIdx.y, "
    "blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, vthread",
)
def thread_bad(p: Program) -> None:
    te.thread_axis("threadIdx.w")


@mistake(IRError, "var 'n': a size is an int32 or int64, not float32")
def var_float(p: Program) -> None:
    te.var("n", "float32")


@mistake(IRError, "var 'n': a size is an int32 or int64, not uint8")
def var_too_narrow(p: Program) -> None:
    te.var("n", "uint8")


@mistake(IRError, "tensor 'A' has 2 dimensions: index it, as in A[i, j]")
def tensor_bool(p: Program) -> None:
    te.compute((4,), lambda i: te.select(p.A > 0, 1.0, 2.0), name="X")


@mistake(IRError, "compute 'X': the function must return an expression, got 'a'")
def compute_str(p: Program) -> None:
    te.compute((4,), lambda i: "a", name="X")


@mistake(IRError, "cannot use a slice (slice(None, None, None)) in an expression")
def index_slice(p: Program) -> None:
    te.compute((4,), lambda i: p.A[i, :], name="X")


@mistake(IRError, "cannot use a str ('x') in an expression")
def eq_axis(p: Program) -> None:
    te.compute((4,), lambda i: te.select(i.equal(2), p.A[i, 0], "x"), name="X")


@mistake(
    IRError,
    "unknown thread axis None: expected one of blockIdx.x, blockIdx.y, blockIdx.z, "
    "threadIdx.x, threadIdx.y, threadIdx.z, vthread",
)
def thread_none(p: Program) -> None:
    te.thread_axis((0, 4))


@pytest.mark.parametrize(("make", "error", "message"), mistake.table)
def test_a_mistake_is_told_in_one_line(
    make: Callable[[Program], None], error: type[AutotuneError], message: str
) -> None:
    assert_refused(make, error, message)
