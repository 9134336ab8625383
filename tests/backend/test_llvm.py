"""Small functions compiled by LLVM against NumPy and the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from vector_kernels import random_index

from autotune.errors import CodegenError
from autotune.ir import ops
from autotune.ir.expr import Broadcast, Buffer, Call, Const, Expr, Knob, Load, Ramp, SizeVar, Var
from autotune.ir.interpreter import interpret
from autotune.ir.stmt import (
    Allocate,
    Evaluate,
    For,
    Function,
    If,
    LoopKind,
    Produce,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.lowering.vectorize import vectorize
from autotune.runtime.cache import ObjectCache
from autotune.runtime.llvm import CompiledFunction, compile_function

Array = npt.NDArray[Any]
SERIAL, PARALLEL = LoopKind.SERIAL, LoopKind.PARALLEL
UNROLLED, VECTORIZED = LoopKind.UNROLLED, LoopKind.VECTORIZED
LANES = 8
FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")


def i32(value: int) -> Const:
    return Const(value, "int32")


def buffer(name: str, dtype: str, *shape: int | Expr, scope: str = "global") -> Buffer:
    sizes = tuple(i32(s) if isinstance(s, int) else s for s in shape)
    return Buffer(name, dtype, sizes, scope)


def loop(extent: int | Expr, kind: LoopKind, body: Callable[[Var], Stmt], name: str = "i") -> For:
    var = Var(name)
    return For(var, i32(extent) if isinstance(extent, int) else extent, kind, body(var))


def compiled(function: Function, target: str = "llvm -threads=2") -> CompiledFunction:
    return compile_function(vectorize(function), target, cache=ObjectCache(None))


def poisoned(dtype: str, *shape: int) -> Array:
    array = np.zeros(shape, dtype)
    array.view(np.uint8)[...] = 1 if dtype == "bool" else 0xA5
    return array


def check(
    function: Function, inputs: list[Array], expected: Array, tolerance: float = 0.0
) -> CompiledFunction:
    """Compiled, interpreted and expected results agree."""
    kernel = compiled(function)
    out = poisoned(expected.dtype.name, *expected.shape)
    kernel(*inputs, out)
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    told = poisoned(expected.dtype.name, *expected.shape)
    interpret(function, [*inputs, told])
    np.testing.assert_allclose(out, told, rtol=tolerance, atol=tolerance)
    return kernel


def elementwise(
    expr: Callable[..., Expr],
    dtypes: tuple[str, ...],
    out: str,
    kind: LoopKind,
    n: int = 2 * LANES,
) -> Function:
    """out[i] = expr(in0[i], in1[i], ...)."""
    inputs = [buffer(f"in{k}", dtype, n) for k, dtype in enumerate(dtypes)]
    result = buffer("out", out, n)
    body = loop(
        n // LANES,
        SERIAL,
        lambda o: loop(
            LANES,
            kind,
            lambda i: Store(result, o * LANES + i, expr(*(Load(b, o * LANES + i) for b in inputs))),
        ),
        "o",
    )
    return Function("elementwise", (*inputs, result), frozenset([result]), body)


def values(dtype: str, n: int = 2 * LANES, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTEGERS:
        return rng.integers(-20, 20, n).astype(dtype)
    return rng.normal(0, 3, n).astype(dtype)


# -- operations -----------------------------------------------------------

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
CASES = [(op, dtype) for op in BINARY for dtype in (*FLOATS, *INTEGERS)]
CASES += [("/", dtype) for dtype in FLOATS]
CASES += [(op, dtype) for op in ("//", "%") for dtype in INTEGERS]
NUMPY = {**BINARY, "/": np.divide, "//": np.floor_divide, "%": np.remainder}


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_binary_operations_agree_with_numpy(op: str, dtype: str, kind: LoopKind) -> None:
    a, b = values(dtype, seed=1), values(dtype, seed=2)
    if op in ("//", "%"):
        b[b == 0] = 7
    a[:2] = b[:2]
    expected = NUMPY[op](a, b)
    function = elementwise(
        lambda x, y: ops.binary(op, x, y), (dtype, dtype), expected.dtype.name, kind
    )
    check(function, [a, b], expected, 0.0)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("op", ["and", "or", "==", "!=", "<", ">="])
def test_conditions_agree_with_numpy(op: str, kind: LoopKind) -> None:
    a, b = values("bool", seed=3), values("bool", seed=4)
    expected = {"and": np.logical_and, "or": np.logical_or, **BINARY}[op](a, b)
    check(
        elementwise(lambda x, y: ops.binary(op, x, y), ("bool", "bool"), "bool", kind),
        [a, b],
        expected,
    )


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("divisor", [1, 2, 3, 16, -4, -1])
@pytest.mark.parametrize("op", ["//", "%"])
def test_division_by_constants_rounds_down(op: str, divisor: int, kind: LoopKind) -> None:
    a = values("int32")
    check(
        elementwise(lambda x: ops.binary(op, x, divisor), ("int32",), "int32", kind),
        [a],
        NUMPY[op](a, np.int32(divisor)),
    )


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_zero_and_of_the_smallest_integer_does_not_trap(
    dtype: str, kind: LoopKind
) -> None:
    a = np.full(2 * LANES, np.iinfo(dtype).min, dtype)
    b = np.resize(np.array([0, -1, 1, 3], dtype), 2 * LANES)
    with np.errstate(all="ignore"):
        expected = np.floor_divide(a, b), np.remainder(a, b)
    for op, want in zip(("//", "%"), expected, strict=True):
        kernel = compiled(
            elementwise(lambda x, y, op=op: ops.binary(op, x, y), (dtype, dtype), dtype, kind)
        )
        out = poisoned(dtype, 2 * LANES)
        kernel(a, b, out)
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("constant", [None, 0.0])
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_hand_on_a_nan_as_numpy_does(
    op: str, constant: float | None, kind: LoopKind
) -> None:
    a = np.resize(np.array([np.nan, 1.0, np.nan, -np.inf, 2.0, -3.0], "float32"), 2 * LANES)
    b = np.resize(np.array([1.0, np.nan, np.nan, 0.0, np.inf], "float32"), 2 * LANES)
    if constant is not None:
        b[:] = constant
    kernel = compiled(
        elementwise(
            lambda x, y: ops.binary(op, x, y if constant is None else constant),
            ("float32", "float32"),
            "float32",
            kind,
        )
    )
    out = poisoned("float32", 2 * LANES)
    kernel(a, b, out)
    np.testing.assert_array_equal(out, BINARY[op](a, b))


ALL = ("float32", "float64", "int32", "int64", "bool")


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
def test_casts_follow_c(source: str, target: str, kind: LoopKind) -> None:
    a = values(source)
    check(
        elementwise(lambda x: ops.cast(target, x), (source,), target, kind), [a], a.astype(target)
    )


INTRINSICS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "log": lambda x: np.log(np.abs(x) + 1), "sqrt": lambda x: np.sqrt(np.abs(x)),
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint,
    "sin": np.sin, "cos": np.cos,
}  # fmt: skip


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", INTRINSICS)
def test_intrinsics_agree_with_numpy(name: str, dtype: str, kind: LoopKind) -> None:
    a = values(dtype)

    def expr(x: Expr) -> Expr:
        if name in ("log", "sqrt"):
            x = Call("abs", (x,), dtype) + (1 if name == "log" else 0)
        return Call(name, (x,), dtype)

    exact = name in ("abs", "floor", "ceil", "trunc", "round", "sqrt")
    tolerance = 0.0 if exact else 4 * float(np.finfo(dtype).eps)
    check(elementwise(expr, (dtype,), dtype, kind), [a], INTRINSICS[name](a), tolerance)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("dtype", FLOATS)
def test_power_agrees_with_numpy(dtype: str, kind: LoopKind) -> None:
    a, b = np.abs(values(dtype, seed=1)), values(dtype, seed=2)
    function = elementwise(lambda x, y: Call("pow", (x, y), dtype), (dtype, dtype), dtype, kind)
    check(function, [a, b], np.power(a, b), 4 * float(np.finfo(dtype).eps))


def test_integers_wrap() -> None:
    a = np.full(2 * LANES, 2**31 - 1, "int32")
    with np.errstate(over="ignore"):
        check(elementwise(lambda x: x * 3 + 2, ("int32",), "int32", SERIAL), [a], a * 3 + 2)


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
def test_select_takes_from_two_values(kind: LoopKind) -> None:
    a, b = values("float32", seed=1), values("float32", seed=2)
    function = elementwise(
        lambda x, y: ops.select(x > y, x * 2, y), ("float32", "float32"), "float32", kind
    )
    check(function, [a, b], np.where(a > b, a * 2, b))


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
def test_negation_and_logical_not(kind: LoopKind) -> None:
    a = values("float32")
    function = elementwise(
        lambda x: ops.select(ops.logical_not(x > 0), -x, x), ("float32",), "float32", kind
    )
    check(function, [a], np.abs(a))


def test_float_constants_keep_every_bit() -> None:
    for dtype in FLOATS:
        specials = [0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e300]
        out = buffer("out", dtype, len(specials))
        body = seq(*(Store(out, i32(k), Const(v, dtype)) for k, v in enumerate(specials)))
        result = poisoned(dtype, len(specials))
        compiled(Function("constants", (out,), frozenset([out]), body))(result)
        with np.errstate(over="ignore"):
            expected = np.array(specials).astype(dtype)
        assert result[:4].tobytes() == expected[:4].tobytes()
        np.testing.assert_array_equal(result, expected)


# -- vectors and indices --------------------------------------------------


def one_vector(index: Expr, size: int = 64, dtype: str = "float32") -> Function:
    """out[ramp] = A[index]."""
    a, out = buffer("A", dtype, size), buffer("out", dtype, index.lanes)
    store = Store(out, Ramp(i32(0), i32(1), index.lanes), Load(a, index))
    return Function("gather", (a, out), frozenset([out]), store)


VECTOR_INDICES = {
    "contiguous": (Ramp(i32(3), i32(1), 8), [3, 4, 5, 6, 7, 8, 9, 10]),
    "strided": (Ramp(i32(1), i32(5), 8), [1, 6, 11, 16, 21, 26, 31, 36]),
    "reversed": (Ramp(i32(20), i32(-1), 6), [20, 19, 18, 17, 16, 15]),
    "repeated": (Broadcast(i32(7), 4), [7, 7, 7, 7]),
    "divided": (Ramp(i32(2), i32(1), 6) // Broadcast(i32(2), 6), [1, 1, 2, 2, 3, 3]),
    "wrapped": (Ramp(i32(2), i32(1), 6) % Broadcast(i32(3), 6), [2, 0, 1, 2, 0, 1]),
    "sum of both": (
        Ramp(i32(8), i32(1), 4) % Broadcast(i32(4), 4) + Broadcast(i32(9), 4),
        [9, 10, 11, 12],
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("name", VECTOR_INDICES)
def test_vector_loads_of_every_form(name: str, dtype: str) -> None:
    index, expected = VECTOR_INDICES[name]
    a = values(dtype, 64)
    check(one_vector(index, dtype=dtype), [a], a[expected])


def test_consecutive_lanes_load_as_one_vector() -> None:
    kernel = compiled(one_vector(VECTOR_INDICES["sum of both"][0]))
    assert "load <4 x float>" in kernel.source


@pytest.mark.parametrize("stride", [1, 2, -1])
def test_vector_stores_of_every_stride(stride: int) -> None:
    a, out = buffer("A", "int32", 8), buffer("out", "int32", 32)
    clear = loop(32, SERIAL, lambda i: Store(out, i, i32(0)))
    put = Store(out, Ramp(i32(10), i32(stride), 8), Load(a, Ramp(i32(0), i32(1), 8)))
    x = values("int32", 8)
    expected = np.zeros(32, "int32")
    expected[10 + stride * np.arange(8)] = x
    check(Function("scatter", (a, out), frozenset([out]), seq(clear, put)), [x], expected)


def test_indices_may_come_from_an_array() -> None:
    table, where, out = (
        buffer("T", "float32", 16), buffer("W", "int32", 8), buffer("out", "float32", 8),
    )  # fmt: skip
    t, w = values("float32", 16), np.array([3, 0, 15, 7, 7, 2, 9, 1], "int32")
    for kind in (SERIAL, VECTORIZED):
        body = loop(8, kind, lambda i: Store(out, i, Load(table, Load(where, i))))
        check(Function("take", (table, where, out), frozenset([out]), body), [t, w], t[w])


@pytest.mark.parametrize("kind", [SERIAL, UNROLLED, VECTORIZED, PARALLEL])
@pytest.mark.parametrize("divisor", [1, 2, 3, 8, -3])
def test_loop_variables_divide_rounding_down(divisor: int, kind: LoopKind) -> None:
    out = buffer("out", "int32", 48)
    body = loop(
        24,
        kind,
        lambda i: seq(
            Store(out, i * 2, (i - 11) // divisor), Store(out, i * 2 + 1, (i - 11) % divisor)
        ),
    )
    i = np.arange(24) - 11
    expected = np.stack([i // divisor, i % divisor], axis=1).reshape(-1).astype("int32")
    check(Function("divide", (out,), frozenset([out]), body), [], expected)


def test_sizes_divide_rounding_down() -> None:
    n, m = SizeVar("n"), SizeVar("m")
    a, b, out = buffer("A", "int32", n), buffer("B", "int32", m), buffer("out", "int32", 4)
    body = seq(
        Store(out, i32(0), (n - 10) // m),
        Store(out, i32(1), (n - 10) % m),
        Store(out, i32(2), n // (0 - m)),
        Store(out, i32(3), n % (0 - m)),
    )
    function = Function("sizes", (a, b, out), frozenset([out]), body, (n, m))
    for size_n, size_m in [(3, 4), (17, 4), (2, 8), (8, 4)]:
        expected = [(size_n - 10) // size_m, (size_n - 10) % size_m]
        expected += [size_n // -size_m, size_n % -size_m]
        arrays = [np.zeros(size_n, "int32"), np.zeros(size_m, "int32")]
        check(function, arrays, np.array(expected, "int32"))


def test_indices_are_computed_in_64_bits() -> None:
    a, out = buffer("A", "float32", 1), buffer("out", "float32", 1)
    far = Var("far")
    # 3 * 10**9 - 3 * 10**9: beyond int32 on the way.
    index = far * 1_000_000_000 * 3 - far * 1_000_000_000 * 3
    body = For(far, i32(2), SERIAL, Store(out, i32(0), Load(a, index)))
    check(Function("wide", (a, out), frozenset([out]), body), [np.ones(1, "float32")],
          np.ones(1, "float32"))  # fmt: skip


# -- statements -----------------------------------------------------------


@pytest.mark.parametrize("kind", [SERIAL, UNROLLED, PARALLEL])
def test_guards_cut_the_tail(kind: LoopKind) -> None:
    a, out = buffer("A", "float32", 13), buffer("out", "float32", 13)
    body = loop(
        4,
        kind,
        lambda o: loop(
            4,
            kind,
            lambda i: If(ops.likely(o * 4 + i < 13), Store(out, o * 4 + i, Load(a, o * 4 + i) * 2)),
        ),
    )
    x = values("float32", 13)
    check(Function("tail", (a, out), frozenset([out]), body), [x], x * 2)


def test_else_branches_run() -> None:
    out = buffer("out", "int32", 10)
    body = loop(10, SERIAL, lambda i: If(i % 3 < 1, Store(out, i, i), Store(out, i, 0 - i)))
    i = np.arange(10)
    check(
        Function("either", (out,), frozenset([out]), body),
        [],
        np.where(i % 3 == 0, i, -i).astype("int32"),
    )


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED, UNROLLED])
def test_if_then_else_does_not_touch_what_is_out_of_bounds(kind: LoopKind) -> None:
    page = 4096
    a, out = buffer("A", "float32", 4), buffer("out", "float32", 16)

    def padded(i: Var) -> Stmt:
        far = (i - 6) * page * 64  # unmapped but for i = 6
        inside = ops.binary("and", i >= 6, i < 7)
        return Store(out, i, ops.if_then_else(inside, Load(a, far), i.astype("float32")))

    function = Function("pad", (a, out), frozenset([out]), loop(16, kind, padded))
    x = values("float32", 4)
    expected = np.arange(16, dtype="float32")
    expected[6] = x[0]
    check(function, [x], expected)


def test_masked_loads_read_only_active_lanes() -> None:
    a, out = buffer("A", "float32", 10), buffer("out", "float32", 16)
    body = loop(
        16,
        VECTORIZED,
        lambda i: Store(
            out,
            i,
            ops.if_then_else(
                ops.binary("and", i >= 3, i < 13), Load(a, i - 3), Const(0.0, "float32")
            ),
        ),
    )
    x = values("float32", 10)
    kernel = check(
        Function("pad", (a, out), frozenset([out]), body), [x], np.pad(x, 3).astype("float32")
    )
    assert "llvm.masked.load" in kernel.source


def test_and_evaluates_its_right_side_only_where_needed() -> None:
    a, out = buffer("A", "int32", 4), buffer("out", "int32", 8)
    body = loop(
        8,
        SERIAL,
        lambda i: Store(
            out,
            i,
            ops.select(
                ops.binary("and", i < 4, Load(a, i * i * (i // 4) * 10**8 + i % 4) > 0),
                i32(1),
                i32(0),
            ),
        ),
    )
    x = np.array([1, -1, 0, 5], "int32")
    kernel = compiled(Function("lazy", (a, out), frozenset([out]), body))
    result = poisoned("int32", 8)
    kernel(x, result)
    np.testing.assert_array_equal(result, [1, 0, 0, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("n", [16, 20_000])
@pytest.mark.parametrize("kind", [SERIAL, PARALLEL])
def test_allocations_on_the_stack_and_on_the_heap(kind: LoopKind, n: int, scope: str) -> None:
    a, out, scratch = (
        buffer("A", "float32", 4, n),
        buffer("out", "float32", 4, n),
        buffer("scratch", "float32", n, scope=scope),
    )
    body = loop(
        4,
        kind,
        lambda r: Allocate(
            scratch,
            seq(
                loop(n, SERIAL, lambda i: Store(scratch, i, Load(a, r * n + i) + 1)),
                loop(n, SERIAL, lambda i: Store(out, r * n + i, Load(scratch, n - 1 - i))),
            ),
        ),
        "r",
    )
    x = values("float32", 4 * n).reshape(4, n)
    kernel = compiled(Function("reverse", (a, out), frozenset([out]), body))
    result = poisoned("float32", 4, n)
    kernel(x, result)
    np.testing.assert_array_equal(result, x[:, ::-1] + 1)
    assert ("aligned_alloc" in kernel.source) == (n == 20_000)


def test_allocations_of_symbolic_size() -> None:
    n = SizeVar("n")
    a, out, scratch = buffer("A", "int64", n), buffer("out", "int64", n), buffer("s", "int64", n)
    body = Allocate(
        scratch,
        seq(
            loop(n, PARALLEL, lambda i: Store(scratch, i, Load(a, i) * 2)),
            loop(n, PARALLEL, lambda i: Store(out, i, Load(scratch, n - 1 - i))),
        ),
    )
    function = Function("double", (a, out), frozenset([out]), body, (n,))
    kernel = compiled(function)
    for size in (0, 1, 7, 100_000):
        x = np.arange(size, dtype="int64")
        result = poisoned("int64", size)
        kernel(x, result)
        np.testing.assert_array_equal(result, x[::-1] * 2)


def test_memory_that_cannot_be_had_is_a_memory_error() -> None:
    n = SizeVar("n")
    a, scratch = buffer("A", "int64", n), buffer("s", "int64", n, n, n, n)
    body = loop(
        2,
        PARALLEL,
        lambda r: Allocate(
            scratch, seq(Store(scratch, r, r.astype("int64")), Store(a, r, Load(scratch, r)))
        ),
    )
    kernel = compiled(Function("huge", (a,), frozenset([a]), body, (n,)))
    result = np.zeros(10, "int64")
    kernel(result)
    assert list(result[:2]) == [0, 1]
    with pytest.raises(MemoryError, match="huge: scratch memory"):
        kernel(np.zeros(40_000, "int64"))


def test_parallel_loops_see_outer_variables_sizes_and_buffers() -> None:
    n = SizeVar("n")
    a, out = buffer("A", "float32", 3, n), buffer("out", "float32", 3, n)
    acc = buffer("acc", "float32", 1, scope="local")

    def row(r: Var) -> Stmt:
        return loop(
            n,
            PARALLEL,
            lambda i: Store(
                out, r * n + i, Load(a, r * n + i) * Load(acc, i32(0)) + r.astype("float32")
            ),
        )

    body = Allocate(
        acc,
        loop(3, SERIAL, lambda r: seq(Store(acc, i32(0), (r + 1).astype("float32")), row(r)), "r"),
    )
    function = Function("rows", (a, out), frozenset([out]), body, (n,))
    x = values("float32", 33).reshape(3, 11)
    check(function, [x], x * np.array([[1], [2], [3]], "float32") + np.arange(3)[:, None]
          .astype("float32"), 1e-6)  # fmt: skip


def test_more_threads_than_iterations_and_nested_parallel_loops() -> None:
    out = buffer("out", "int32", 3, 5)
    body = loop(
        3, PARALLEL, lambda r: loop(5, PARALLEL, lambda i: Store(out, r * 5 + i, r * 10 + i))
    )
    kernel = compile_function(
        Function("nested", (out,), frozenset([out]), body), "llvm -threads=16",
        cache=ObjectCache(None),
    )  # fmt: skip
    result = poisoned("int32", 3, 5)
    kernel(result)
    np.testing.assert_array_equal(result, np.add.outer(np.arange(3) * 10, np.arange(5)))


def test_stored_values_are_read_back() -> None:
    """A store forgets what was loaded from its buffer, also around loops and branches."""
    out = buffer("out", "int32", 4)
    one = i32(1)
    body = seq(
        loop(4, UNROLLED, lambda i: Store(out, i, i)),
        loop(3, SERIAL, lambda _: seq(
            Store(out, i32(0), Load(out, i32(0)) + 1), Store(out, one, Load(out, i32(0)) * 2))),
        If(Load(out, one) > 2, Store(out, one, Load(out, one) + 100)),
        Store(out, i32(2), Load(out, one) + Load(out, i32(0))),
    )  # fmt: skip
    check(
        Function("again", (out,), frozenset([out]), body), [], np.array([3, 106, 109, 3], "int32")
    )


def test_empty_loops_and_empty_sequences_do_nothing() -> None:
    n = SizeVar("n")
    a, out = buffer("A", "float32", n), buffer("out", "float32", 2)
    body = seq(
        loop(2, SERIAL, lambda i: Store(out, i, Const(1.0, "float32"))),
        loop(n, SERIAL, lambda i: Store(out, i32(0), Load(a, i))),
        loop(0, SERIAL, lambda i: Store(out, i32(5), Const(2.0, "float32"))),
        Seq(()),
    )
    kernel = compiled(Function("empty", (a, out), frozenset([out]), body, (n,)))
    result = np.zeros(2, "float32")
    kernel(np.zeros(0, "float32"), result)
    assert list(result) == [1.0, 1.0]


def packed_matmul(
    m: int, n: int, k: int, rows: int = 8, vectors: int = 2, lanes: int = 16
) -> Function:
    """C = A @ B with B packed into panels and a register tile of rows x vectors x lanes."""
    width = vectors * lanes
    a, b, c = (
        buffer("A", "float32", m, k),
        buffer("B", "float32", k, n),
        buffer("C", "float32", m, n),
    )
    panels = buffer("panels", "float32", n // width, k, width)
    acc = buffer("acc", "float32", rows, width, scope="local")

    def tile(put: Callable[[Expr, Expr], Stmt]) -> Stmt:
        return loop(rows, UNROLLED, lambda u: loop(vectors, UNROLLED, lambda v: loop(
            lanes, VECTORIZED, lambda x: put(u, v * lanes + x))))  # fmt: skip

    def pack(jo: Var) -> Stmt:
        return loop(k, SERIAL, lambda r: loop(vectors, UNROLLED, lambda v: loop(
            lanes, VECTORIZED, lambda x: Store(
                panels, jo * (k * width) + r * width + v * lanes + x,
                Load(b, r * n + jo * width + v * lanes + x)))))  # fmt: skip

    def compute(jo: Var, io: Var) -> Stmt:
        def update(r: Var) -> Stmt:
            return tile(lambda u, x: Store(acc, u * width + x, Load(acc, u * width + x)
                + Load(a, (io * rows + u) * k + r)
                * Load(panels, jo * (k * width) + r * width + x)))  # fmt: skip

        return Allocate(acc, seq(
            tile(lambda u, x: Store(acc, u * width + x, Const(0.0, "float32"))),
            loop(k, SERIAL, update, "k"),
            tile(lambda u, x: Store(
                c, (io * rows + u) * n + jo * width + x, Load(acc, u * width + x))),
        ))  # fmt: skip

    main = loop(
        n // width,
        PARALLEL,
        lambda jo: loop(m // rows, SERIAL, lambda io: compute(jo, io), "io"),
        "jo",
    )
    body = Allocate(panels, seq(Produce("panels", loop(n // width, PARALLEL, pack, "jo")), main))
    return Function("matmul", (a, b, c), frozenset([c]), body)


def test_packed_matmul_keeps_its_tile_in_registers() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(16, 24)).astype("float32")
    b = rng.normal(size=(24, 64)).astype("float32")
    kernel = check(packed_matmul(16, 64, 24), [a, b], a @ b, 1e-4)
    assert "alloca" not in kernel.optimised().split("parallel2(", 1)[1].split("\n}")[0]


# -- what cannot be compiled ----------------------------------------------


def test_what_has_no_meaning_on_a_cpu_is_refused_in_one_line() -> None:
    out = buffer("out", "float32", 4)
    one = Const(1.0, "float32")
    i = Var("i")
    knob = Knob("tile", 1, 4)
    refused = {
        "bound to threadIdx.x": For(i, i32(4), LoopKind.THREAD, Store(out, i, one), "threadIdx.x"),
        "was to become vectors": For(i, i32(4), VECTORIZED, Store(out, i, one)),
        "knob without a value: tile": Store(out, knob, one),
        "variable not in scope: i": Store(out, i, one),
        "no intrinsic 'frobnicate'": Store(out, i32(0), Call("frobnicate", (one,), "float32")),
        "has no meaning on the CPU": Evaluate(Call("barrier", (), "int32")),
        "is used where it is not allocated": Store(buffer("lost", "float32", 1), i32(0), one),
        "which holds float32": Store(out, i32(0), i32(0)),
    }
    for message, body in refused.items():
        function = Function("refused", (out,), frozenset([out]), body)
        with pytest.raises(CodegenError, match=message) as error:
            compile_function(function, cache=ObjectCache(None))
        assert "\n" not in str(error.value)


def test_names_that_llvm_would_not_take_are_changed() -> None:
    out = buffer("1 odd-näme", "int32", 3)
    i = Var("i.%*")
    body = For(i, i32(3), PARALLEL, Store(out, i, i))
    result = np.zeros(3, "int32")
    compiled(Function("a function!", (out,), frozenset([out]), body))(result)
    assert list(result) == [0, 1, 2]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("offset", [0, 1])
def test_streamed_stores_write_the_same(dtype: str, offset: int) -> None:
    function = elementwise(lambda x: x, (dtype,), dtype, VECTORIZED, n=128)
    function.attrs["nontemporal"] = ["out"]
    kernel = compiled(function)
    x, memory = values(dtype, 128), poisoned(dtype, 129)
    out = memory[offset : 128 + offset]
    kernel(x, out)
    np.testing.assert_array_equal(out, x)
    assert ("!nontemporal !1" in kernel.source) == (dtype != "bool")


@pytest.mark.parametrize("kind", [SERIAL, UNROLLED, VECTORIZED, PARALLEL])
@pytest.mark.parametrize("seed", range(6))
def test_random_index_arithmetic_agrees_with_the_interpreter(seed: int, kind: LoopKind) -> None:
    """Values, and positions in a table, of random expressions over loop and size variables."""
    rng = np.random.default_rng(seed)
    n, count = SizeVar("n"), 12
    table, out = buffer("T", "int32", n), buffer("out", "int32", count, 2, 40)

    def point(i: Var, j: Var) -> Stmt:
        stores = []
        for k in range(count):
            index = random_index(rng, [i, j, i * 8 + j, n], 4)
            at = k * 80 + i * 8 + j
            stores.append(Store(out, at, index))
            stores.append(Store(out, at + 40, Load(table, index % n)))
        return seq(*stores)

    body = loop(5, SERIAL, lambda i: loop(8, kind, lambda j: point(i, j), "j"))
    function = Function("random", (table, out), frozenset([out]), body, (n,))
    x = rng.integers(-100, 100, 13).astype("int32")
    told = poisoned("int32", count, 2, 40)
    interpret(function, [x, told])
    check(function, [x], told)
