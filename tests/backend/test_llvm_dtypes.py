"""Every operation and cast on every data type: LLVM does exactly what the interpreter does."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dtype_values import Array, assert_same, converted, edges, pairs
from support.processors import AVX2, needs_avx2
from support.verify import verify

import autotune
from autotune import te
from autotune.ir import dtypes, ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import BinaryOp, Buffer, Call, Cast, Const, Expr, Load, Not, Select, Var
from autotune.ir.stmt import For, LoopKind, PrimFunc, Store, seq
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.lowering.vector.vectorize import vectorize
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache

LANES = 8
KINDS = (LoopKind.SERIAL, LoopKind.VECTORIZED)
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
Operation = Callable[..., Expr]


def padded(values: Array) -> Array:
    """Values repeated to whole vectors."""
    return np.resize(values, -(-len(values) // LANES) * LANES)


def elementwise(
    operations: Sequence[Operation], types: Sequence[str], kind: LoopKind, n: int
) -> PrimFunc:
    """Store what each operation gives for the elements of the inputs, each in an array."""
    shape = (ops.const(n),)
    inputs = [Buffer(f"in{k}", dtype, shape) for k, dtype in enumerate(types)]
    outer, inner = Var("o"), Var("i")
    index = outer * LANES + inner
    values = [make(*(Load(b, index) for b in inputs)) for make in operations]
    outputs = [Buffer(f"out{k}", value.dtype, shape) for k, value in enumerate(values)]
    stores = [Store(b, index, value) for b, value in zip(outputs, values, strict=True)]
    body = For(inner, ops.const(LANES), kind, seq(*stores))
    whole = For(outer, ops.const(n // LANES), LoopKind.SERIAL, body)
    return verify(PrimFunc("f", (*inputs, *outputs), frozenset(outputs), whole))


def results(
    operations: Sequence[Operation],
    inputs: Sequence[Array],
    kind: LoopKind,
    target: str = "llvm",
    signed_zeros: bool = True,
) -> list[Array]:
    """Compute by LLVM and by the interpreter, and return what both agree on."""
    types = [array.dtype.name for array in inputs]
    function = elementwise(operations, types, kind, len(inputs[0]))
    kernel = compile_function(vectorize(function), target, cache=ObjectCache(None))
    found = []
    for run in (kernel, lambda *arrays: interpret(function, arrays)):
        outputs = [
            np.zeros(len(inputs[0]), dtypes.numpy_dtype(b.dtype))
            for b in function.params[len(inputs) :]
        ]
        run(*inputs, *outputs)
        found.append(outputs)
    for compiled, told in zip(*found, strict=True):
        assert_same(compiled, told, signed_zeros)
    return found[0]


def binary(op: str) -> Operation:
    return lambda a, b: BinaryOp(op, a, b)


# -- operations ---------------------------------------------------------------------------------

NUMPY: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "==": np.equal,
    "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
def test_operations_are_those_of_the_interpreter_and_numpy(dtype: str, kind: LoopKind) -> None:
    names = ["+", "-", "*", *COMPARISONS]
    names += ["/"] if dtypes.is_float(dtype) else []
    x, y = map(padded, pairs(dtype))
    with np.errstate(all="ignore"):
        found = results([binary(op) for op in names], [x, y], kind)
        for op, result in zip(names, found, strict=True):
            if op in NUMPY:
                assert_same(result, NUMPY[op](x, y))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
def test_extremes_are_those_of_numpy_but_for_the_sign_of_a_zero(dtype: str, kind: LoopKind) -> None:
    x, y = map(padded, pairs(dtype))
    found = results([binary("min"), binary("max")], [x, y], kind, signed_zeros=False)
    for result, function in zip(found, (np.minimum, np.maximum), strict=True):
        with np.errstate(invalid="ignore"):
            assert_same(result, function(x, y), signed_zeros=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_integers_divide_rounding_down(dtype: str, kind: LoopKind) -> None:
    x, y = pairs(dtype)
    x, y = padded(x[y != 0]), padded(y[y != 0])
    results([binary("//"), binary("%")], [x, y], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_integers_divide_by_constants(dtype: str, kind: LoopKind) -> None:
    divisors = [d for d in (1, 2, 3, 8, 127, -1, -4, -5) if dtypes.fits(d, dtype)]
    cases = [
        lambda a, op=op, d=d: BinaryOp(op, a, Const(d, dtype))
        for op in ("//", "%")
        for d in divisors
    ]
    results(cases, [padded(edges(dtype))], kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_division_by_zero_gives_zero_and_does_not_trap(dtype: str, kind: LoopKind) -> None:
    x = padded(edges(dtype))
    function = elementwise([binary("//"), binary("%")], [dtype, dtype], kind, len(x))
    outputs = [np.ones_like(x), np.ones_like(x)]
    compile_function(vectorize(function), cache=ObjectCache(None))(x, np.zeros_like(x), *outputs)
    assert not np.any(outputs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
def test_functions_without_rounding_are_exact_on_every_type(dtype: str, kind: LoopKind) -> None:
    functions = [te.abs, te.floor, te.round, te.isnan, lambda a: -a]
    if dtypes.is_integer(dtype):
        functions.append(te.popcount)
    values = padded(edges(dtype))
    absolute, whole, *_ = results(functions, [values], kind)
    with np.errstate(over="ignore"):
        assert_same(absolute, np.abs(values))
        assert_same(whole, np.floor(values).astype(values.dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_values_are_chosen_and_constants_stored(dtype: str, kind: LoopKind) -> None:
    x, y = map(padded, pairs(dtype))
    constants = [lambda a, b, v=v: Select(a < b, Const(v, dtype), b) for v in edges(dtype)]
    chosen = results([lambda a, b: Select(a < b, a, b), *constants], [x, y], kind)
    lazy = [lambda a, b: Call("if_then_else", (Not(a.equal(b)), a, b), dtype)]
    with np.errstate(invalid="ignore"):
        assert_same(chosen[0], np.where(x < y, x, y))
        assert_same(results(lazy, [x, y], kind)[0], np.where(x != y, x, y))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", dtypes.ALL)
def test_casts_between_all_types(source: str, kind: LoopKind) -> None:
    targets = [target for target in dtypes.ALL if target != source]
    casts = [lambda a, target=target: Cast(target, a) for target in targets]
    values = padded(edges(source))
    for target, result in zip(targets, results(casts, [values], kind), strict=True):
        assert_same(result, converted(values, target))


#: The first x86 processors had no instruction for float16; the functions they call are ours.
TARGETS = ("llvm", "llvm -mcpu=x86-64") if platform.machine() == "x86_64" else ("llvm",)


def halves(dtype: str) -> Array:
    """Every value of a half type, NaNs and infinities included."""
    return np.arange(2**16, dtype=np.uint16).view(dtypes.numpy_dtype(dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", dtypes.HALVES)
def test_every_half_float_is_loaded_and_stored(dtype: str, target: str) -> None:
    operations = [lambda a: Cast("float32", a), lambda a: Cast("float64", a), lambda a: a]
    found = results(operations, [halves(dtype)], LoopKind.VECTORIZED, target)
    with np.errstate(invalid="ignore"):
        for result, kind in zip(found, ("float32", "float64", dtype), strict=True):
            assert_same(result, halves(dtype).astype(dtypes.numpy_dtype(kind)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", dtypes.HALVES)
def test_float32_rounds_to_half_types_as_numpy_does(
    dtype: str, kind: LoopKind, target: str
) -> None:
    """At every tie between two neighbours, and right beside it."""
    every = halves(dtype).astype(np.float32)
    numbers = np.sort(every[np.isfinite(every)])
    ties = ((numbers[:-1].astype(np.float64) + numbers[1:]) / 2).astype(np.float32)
    beside = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    beyond = np.float32([65519.9, 65520.0, 1e30, -1e30, np.inf, np.nan])
    values = padded(np.concatenate([ties, *beside, beyond]))
    function = elementwise([lambda a: Cast(dtype, a)], ["float32"], kind, len(values))
    result = np.zeros(len(values), dtypes.numpy_dtype(dtype))
    compile_function(vectorize(function), target, cache=ObjectCache(None))(values, result)
    assert_same(result, converted(values, dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_maxima_of_halves_in_float32_are_linked(target: str) -> None:
    """LLVM takes the maximum of the halves, and converts these back where it has to."""
    operations = [lambda a, b: ops.binary("max", Cast("float32", a), Cast("float32", b))]
    a = halves("float16")
    (found,) = results(operations, [a, a[::-1].copy()], LoopKind.VECTORIZED, target, False)
    assert_same(found, np.maximum(a.astype(np.float32), a[::-1].astype(np.float32)))


@needs_avx2
def test_vectors_of_halves_are_converted_by_instructions() -> None:
    for dtype, loads, rounds in (
        ("float16", "vcvtph2ps", "vcvtps2ph"),
        ("bfloat16", "vpmovzxwd", "vpaddd"),
    ):
        function = elementwise([lambda a, b: a * b], [dtype, dtype], LoopKind.VECTORIZED, 64)
        kernel = compile_function(
            vectorize(function), f"llvm -mcpu={AVX2}", cache=ObjectCache(None)
        )
        body = kernel.assembly().partition("kernel_f:")[2].partition("ret")[0]
        assert loads in body
        assert rounds in body
        assert "call" not in body


@pytest.mark.parametrize("dtype", dtypes.HALVES)
def test_sums_of_products_round_after_every_operation(dtype: str) -> None:
    """No fused multiplication: each result is a value of the type."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(64).astype(dtypes.numpy_dtype(dtype)) for _ in range(3))
    (result,) = results([lambda x, y, z: x * y + z], [a, b, c], LoopKind.VECTORIZED)
    assert_same(result, a * b + c)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="saving is for x86-64")
@pytest.mark.parametrize("target", TARGETS)
def test_saved_functions_convert_half_floats_by_themselves(target: str, tmp_path: Path) -> None:
    x = te.placeholder((LANES,), "float16", name="X")
    y = te.compute((LANES,), lambda i: (x[i] * 3).astype("bfloat16"), name="Y")
    built = autotune.build(te.create_schedule(y.op), [x, y], target)
    built.save(tmp_path / "scaled.so")
    values = np.linspace(-2, 2, LANES, dtype=np.float16)
    result = np.zeros(LANES, dtypes.numpy_dtype("bfloat16"))
    autotune.load(tmp_path / "scaled.so")(values, result)
    assert_same(result, converted(values * np.float16(3), "bfloat16"))


# -- tensors -------------------------------------------------------------------------------------


def run(outputs: Sequence[Any], tensors: Sequence[Any], arrays: Sequence[Array]) -> list[Array]:
    """Vectorise the last axis of every output, then compute by LLVM and by the interpreter."""
    schedule = te.create_schedule([t.op for t in outputs])
    for tensor in outputs:
        _, inner = schedule[tensor].split(schedule[tensor].op.axis[-1], factor=LANES)
        schedule[tensor].vectorize(inner)
    function = finalise(analyse(lower_schedule(schedule, [*tensors, *outputs])))
    kernel = compile_function(function, cache=ObjectCache(None))
    found = []
    for run_it in (kernel, lambda *given: interpret(function, given)):
        results = [np.zeros(t.shape, dtypes.numpy_dtype(t.dtype)) for t in outputs]
        run_it(*arrays, *results)
        found.append(results)
    for compiled, told in zip(*found, strict=True):
        assert_same(compiled, told)
    return found[0]


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_vectors_are_loaded_from_anywhere_with_masked_tails(dtype: str) -> None:
    n = 2 * LANES + 5
    rng = np.random.default_rng(1)
    data = rng.integers(0, 2 if dtype == "bool" else 100, 3 * n).astype(dtypes.numpy_dtype(dtype))
    where = rng.integers(0, 3 * n, n).astype(np.int32)
    x, w = te.placeholder((3 * n,), dtype, name="X"), te.placeholder((n,), "int32", name="W")
    zero = te.const(0, dtype)
    padded_ = lambda i: te.if_then_else(te.all(i >= 2, i < n - 3), x[i - 2], zero)  # noqa: E731
    outputs = [
        te.compute((n,), lambda i: x[i], name="straight"),
        te.compute((n,), lambda i: x[3 * i + 1], name="strided"),
        te.compute((n,), lambda i: x[n - 1 - i], name="reversed"),
        te.compute((n,), lambda i: x[w[i]], name="gathered"),
        te.compute((n,), padded_, name="padded"),
    ]
    straight, strided, backwards, gathered, framed = run(outputs, [x, w], [data, where])
    assert_same(straight, data[:n])
    assert_same(strided, data[1 : 3 * n + 1 : 3])
    assert_same(backwards, data[:n][::-1])
    assert_same(gathered, data[where])
    expected = np.zeros(n, data.dtype)
    expected[2 : n - 3] = data[: n - 5]
    assert_same(framed, expected)


@pytest.mark.parametrize("dtype", dtypes.INTEGERS)
def test_any_integer_type_indexes(dtype: str) -> None:
    """A product wraps in its own type (uint8 here) before it becomes an index."""
    n = 2 * LANES + 3
    table = np.arange(300, dtype=np.float32)
    where = (np.arange(n) * 7 % (40 if dtype == "int8" else 100)).astype(dtype)
    x, w = te.placeholder((300,), name="X"), te.placeholder((n,), dtype, name="W")
    read = te.compute((n,), lambda i: x[w[i] * 3], name="read")
    (result,) = run([read], [x, w], [table, where])
    assert_same(result, table[where * np.array(3, dtype)])


@pytest.mark.parametrize("dtype", dtypes.HALVES)
def test_sums_in_a_half_type_round_after_every_step(dtype: str) -> None:
    data = np.random.default_rng(3).random((2 * LANES, 100)).astype(dtypes.numpy_dtype(dtype))
    x, k = te.placeholder(data.shape, dtype, name="X"), te.reduce_axis((0, 100), "k")
    total = te.compute(
        (2 * LANES,), lambda i: te.sum(x[i, k] * x[i, k], axis=k, dtype=dtype), name="total"
    )
    (sums,) = run([total], [x], [data])
    expected = np.zeros(2 * LANES, data.dtype)
    for column in data.T:
        expected = expected + column * column
    assert_same(sums, expected)


@pytest.mark.parametrize("dtype", dtypes.NUMBERS)
def test_sums_accumulate_as_documented(dtype: str) -> None:
    rows, n = 5, 300
    rng = np.random.default_rng(2)
    data = (
        rng.integers(-3, 4, (rows, n))
        if dtype not in dtypes.UNSIGNED
        else rng.integers(0, 4, (rows, n))
    )
    array = data.astype(dtypes.numpy_dtype(dtype))
    x, k = te.placeholder((rows, n), dtype, name="X"), te.reduce_axis((0, n), "k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    largest = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="largest")
    assert total.dtype == dtypes.accumulator(dtype)
    sums, most = run([total, largest], [x], [array])
    exact = data.sum(axis=1)
    if dtypes.is_integer(dtype):
        exact = np.array([dtypes.wrapped(int(v), dtype) for v in exact])
    np.testing.assert_array_equal(sums.astype(np.float64), exact)
    assert_same(most, array.max(axis=1))
