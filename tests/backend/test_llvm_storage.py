"""Allocations, parallel loops and streamed stores compiled by LLVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.llvm_kernels import (
    ALL,
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    buffer,
    check,
    compiled,
    elementwise,
    i32,
    loop,
    poisoned,
    values,
)

from autotune.ir.expr import Const, Expr, Load, SizeVar, Var
from autotune.ir.stmt import Allocate, FunctionInfo, LoopKind, PrimFunc, Produce, Stmt, Store, seq
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache


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
    kernel = compiled(PrimFunc("reverse", (a, out), frozenset([out]), body))
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
    function = PrimFunc("double", (a, out), frozenset([out]), body, (n,))
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
    kernel = compiled(PrimFunc("huge", (a,), frozenset([a]), body, (n,)))
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
    function = PrimFunc("rows", (a, out), frozenset([out]), body, (n,))
    x = values("float32", 33).reshape(3, 11)
    check(function, [x], x * np.array([[1], [2], [3]], "float32") + np.arange(3)[:, None]
          .astype("float32"), 1e-6)  # fmt: skip


def test_more_threads_than_iterations_and_nested_parallel_loops() -> None:
    out = buffer("out", "int32", 3, 5)
    body = loop(
        3, PARALLEL, lambda r: loop(5, PARALLEL, lambda i: Store(out, r * 5 + i, r * 10 + i))
    )
    kernel = compile_function(
        PrimFunc("nested", (out,), frozenset([out]), body), "llvm -threads=16",
        cache=ObjectCache(None),
    )  # fmt: skip
    result = poisoned("int32", 3, 5)
    kernel(result)
    np.testing.assert_array_equal(result, np.add.outer(np.arange(3) * 10, np.arange(5)))


def packed_matmul(
    m: int, n: int, k: int, rows: int = 8, vectors: int = 2, lanes: int = 16
) -> PrimFunc:
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
    return PrimFunc("matmul", (a, b, c), frozenset([c]), body)


def test_packed_matmul_keeps_its_tile_in_registers() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(16, 24)).astype("float32")
    b = rng.normal(size=(24, 64)).astype("float32")
    kernel = check(packed_matmul(16, 64, 24), [a, b], a @ b, 1e-4)
    assert "alloca" not in kernel.optimised().split("parallel2(", 1)[1].split("\n}")[0]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("offset", [0, 1])
def test_streamed_stores_write_the_same(dtype: str, offset: int) -> None:
    function = elementwise(lambda x: x, (dtype,), dtype, VECTORIZED, n=128)
    kernel = compiled(replace(function, info=FunctionInfo(nontemporal=frozenset(["out"]))))
    x, memory = values(dtype, 128), poisoned(dtype, 129)
    out = memory[offset : 128 + offset]
    kernel(x, out)
    np.testing.assert_array_equal(out, x)
    assert ("!nontemporal !1" in kernel.source) == (dtype != "bool")
