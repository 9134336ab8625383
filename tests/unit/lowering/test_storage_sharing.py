"""Temporaries share storage where they are not in use together, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import pytest
from support.verify import verify
from support.written_loops import changed

from autotune import te
from autotune.codegen.llvm import emit
from autotune.ir.expr import Buffer, Const, Expr, Load, SizeVar, Var
from autotune.ir.ops import const
from autotune.ir.stmt import Allocate, For, FunctionInfo, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.lowering.storage_rewrite import elements, share_storage
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache

LENGTH = 4096
IN, OUT = (Buffer(name, "int32", (const(LENGTH),)) for name in ("in", "out"))


def allocations(function: PrimFunc) -> list[Buffer]:
    return [stmt.buffer for stmt in walk(function.body) if isinstance(stmt, Allocate)]


def size(function: PrimFunc) -> int:
    """Elements of all allocations."""
    counts = [elements(buffer) for buffer in allocations(function)]
    return sum(int(count.value) for count in counts if isinstance(count, Const))


def buffer(name: str, length: int | Expr = LENGTH, dtype: str = "int32") -> Buffer:
    return Buffer(name, dtype, (const(length) if isinstance(length, int) else length,))


def copy(source: Buffer, target: Buffer, length: int = LENGTH, plus: int = 1) -> For:
    i = Var("i")
    return For(i, const(length), LoopKind.SERIAL, Store(target, i, Load(source, i) + plus))


def allocated(buffers: Iterable[Buffer], body: Stmt) -> Stmt:
    for temporary in reversed(list(buffers)):
        body = Allocate(temporary, body)
    return body


def shared(body: Stmt, nontemporal: str = "") -> PrimFunc:
    """Share, check that the result is the same, and return the function."""
    info = FunctionInfo(nontemporal=frozenset(nontemporal))
    data = np.arange(LENGTH, dtype="int32")
    after = changed(share_storage, body, (IN, OUT), data, info=info)
    assert share_storage(after) is after or str(share_storage(after)) == str(after)
    return after


def chain(*temporaries: Buffer, length: int = LENGTH) -> Stmt:
    """Return copies from the input through the temporaries to the output."""
    places = [IN, *temporaries, OUT]
    copies = [copy(a, b, length) for a, b in pairwise(places)]
    return allocated(temporaries, seq(*copies))


def test_a_chain_of_temporaries_needs_two_of_them() -> None:
    after = shared(chain(*map(buffer, "ABCD")))
    assert [b.name for b in allocations(after)] == ["A", "B"]
    assert size(after) == 2 * LENGTH


def test_storage_is_as_large_as_the_largest_that_shares_it() -> None:
    sizes = {"A": 1000, "B": 2000, "C": 3000, "D": 1500}
    after = shared(chain(*(buffer(n, s) for n, s in sizes.items()), length=1000))
    assert [int(b.shape[0].value) for b in allocations(after)] == [3000, 2000]


def test_storage_that_fits_best_is_taken() -> None:
    big, small, other, last = buffer("A", 4096), buffer("B", 1000), buffer("C"), buffer("D", 1000)
    body = seq(
        copy(IN, big), copy(big, small, 1000), copy(small, OUT, 1000),
        copy(IN, last, 1000), copy(last, OUT, 900), copy(IN, other), copy(other, OUT, 800),
    )  # fmt: skip
    after = shared(allocated([big, small, other, last], body))
    assert [int(b.shape[0].value) for b in allocations(after)] == [4096, 1000]


def test_what_is_read_while_the_other_is_written_does_not_share() -> None:
    after = shared(chain(*map(buffer, "AB")))
    assert len(allocations(after)) == 2


def test_types_and_scopes_do_not_share() -> None:
    floats = Buffer("C", "float32", (const(LENGTH),))
    i = Var("i")
    fill = For(i, const(LENGTH), LoopKind.SERIAL, Store(floats, i, const(1.0, "float32")))
    local = Buffer("D", "int32", (const(LENGTH),), "local")
    first = buffer("A")
    body = seq(copy(IN, first), copy(first, OUT), fill, copy(IN, local), copy(local, OUT))
    assert len(allocations(shared(allocated([first, floats, local], body)))) == 3


def test_small_arrays_stay_their_own_for_they_become_registers() -> None:
    after = shared(chain(*(buffer(name, 256) for name in "ABCD"), length=256))
    assert len(allocations(after)) == 4


def test_streamed_temporaries_stay_their_own() -> None:
    after = shared(chain(*map(buffer, "ABCD")), nontemporal="AB")
    assert [b.name for b in allocations(after)] == ["A", "B", "C", "D"]


def test_what_a_loop_carries_from_iteration_to_iteration_keeps_its_storage() -> None:
    kept, other = buffer("A"), buffer("B")
    i = Var("i")
    inside = seq(copy(kept, OUT), copy(IN, other), copy(other, OUT, plus=2))
    body = seq(copy(IN, kept), For(i, const(2), LoopKind.SERIAL, inside))
    assert len(allocations(shared(allocated([kept, other], body)))) == 2


def test_temporaries_of_one_iteration_share_and_leave_the_loop() -> None:
    i = Var("i")
    after = shared(For(i, const(2), LoopKind.SERIAL, chain(*map(buffer, "ABCD"))))
    assert isinstance(after.body, Allocate)
    assert size(after) == 2 * LENGTH


@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.THREAD, LoopKind.VECTORIZED])
def test_iterations_side_by_side_each_have_their_own(kind: LoopKind) -> None:
    i = Var("threadIdx.x")
    tag = i.name if kind is LoopKind.THREAD else ""
    outside = buffer("Z")
    inside = For(i, const(2), kind, chain(*map(buffer, "ABCD")), tag)
    after = shared(allocated([outside], seq(copy(IN, outside), copy(outside, OUT), inside)))
    assert [b.name for b in allocations(after)] == ["Z", "A", "B"]
    (loop,) = (s for s in walk(after.body) if isinstance(s, For) and s.kind is kind)
    assert isinstance(loop.body, Allocate)


def test_a_size_that_depends_on_a_loop_stays_inside_it() -> None:
    i = Var("i")
    inner = buffer("A", i + 1)
    body = For(i, const(3), LoopKind.SERIAL, allocated([inner], seq(copy(IN, inner, 1))))
    assert shared(body).body is body


def four_stages(length: int | SizeVar, rows: int = 1) -> tuple[te.Schedule, list[te.Tensor]]:
    """Return a schedule of ((x + 1) * 2 - 3) ** 2 in four stages, and its parameters."""
    source = te.placeholder((rows, length), name="S")
    steps: list[Callable[[te.Tensor], Callable[[te.Expr, te.Expr], te.Expr]]] = [
        lambda t: lambda y, x: t[y, x] + 1,
        lambda t: lambda y, x: t[y, x] * 2,
        lambda t: lambda y, x: t[y, x] - 3,
        lambda t: lambda y, x: t[y, x] * t[y, x],
    ]
    tensors = [source]
    for number, step in enumerate(steps):
        tensors.append(te.compute((rows, length), step(tensors[-1]), name=f"T{number}"))
    return te.create_schedule(tensors[-1].op), [source, tensors[-1]]


def requested(function: PrimFunc) -> list[str]:
    """Return the sizes that the compiled function asks the heap for."""
    return re.findall(r"call ptr @aligned_alloc\(i64 \d+, i64 ([^)]+)\)", emit(function).text)


@pytest.mark.parametrize("length", [100_000, 70])
def test_a_chain_of_stages_uses_less_memory_and_computes_the_same(length: int) -> None:
    final = verify(finalise(analyse(lower_schedule(*four_stages(length)))))
    x = np.linspace(-1, 1, length, dtype="float32")[None]
    y = np.empty_like(x)
    compile_function(final, cache=ObjectCache(None))(x, y)
    np.testing.assert_allclose(y, ((x + 1) * 2 - 3) ** 2, rtol=1e-6, atol=1e-6)
    sizes = [int(text) for text in requested(final)]
    assert len(sizes) == (2 if length == 100_000 else 0)
    assert sum(sizes) <= 2 * (4 * length + 256)


def test_each_thread_has_its_own_shared_storage() -> None:
    schedule, (source, result) = four_stages(1000, rows=64)
    row = result.op.axis[0]
    for stage in schedule.stages:
        if stage.outputs[0] not in (source, result):
            stage.compute_at(schedule[result], row)
    schedule[result].parallel(row)
    final = verify(finalise(analyse(lower_schedule(schedule, [source, result]))))
    (loop,) = (s for s in walk(final.body) if isinstance(s, For) and s.kind is LoopKind.PARALLEL)
    assert size(final) == size(final.with_body(loop.body)) == 2 * 1000
    x = np.random.default_rng(0).uniform(-1, 1, (64, 1000)).astype("float32")
    y = np.empty_like(x)
    compile_function(final, cache=ObjectCache(None))(x, y)
    np.testing.assert_allclose(y, ((x + 1) * 2 - 3) ** 2, rtol=1e-6, atol=1e-6)


def test_sizes_known_only_at_run_time_share_too() -> None:
    final = verify(finalise(analyse(lower_schedule(*four_stages(te.var("n"))))))
    kernel = compile_function(final, cache=ObjectCache(None))
    for length in (0, 1, 1000):
        x = np.linspace(-1, 1, length, dtype="float32")[None]
        y = np.empty_like(x)
        kernel(x, y)
        np.testing.assert_allclose(y, ((x + 1) * 2 - 3) ** 2, rtol=1e-6, atol=1e-6)
    assert len(requested(final)) == 2


def test_of_two_sizes_known_only_at_run_time_the_larger_counts() -> None:
    n, m = SizeVar("n"), SizeVar("m")
    first, second = buffer("A", n), buffer("B", m)
    source, target = buffer("in", n), buffer("out", m)
    i, j = Var("i"), Var("j")
    body = seq(
        For(i, n, LoopKind.SERIAL, Store(first, i, Load(source, i))),
        For(j, m, LoopKind.SERIAL, Store(second, j, const(7))),
        For(Var("k"), const(0), LoopKind.SERIAL, Store(target, const(0), const(0))),
    )
    k = Var("k")
    use = For(k, m, LoopKind.SERIAL, Store(target, k, Load(second, k)))
    function = PrimFunc(
        "f", (source, target), frozenset({target}),
        allocated([first, second], seq(body, use)), (n, m),
    )  # fmt: skip
    after = verify(share_storage(verify(function)))
    assert [str(b.shape[0]) for b in allocations(after)] == ["max(n, m)"]
    kernel = compile_function(after, cache=ObjectCache(None))
    for sizes in ((3, 900), (900, 3), (0, 1)):
        out = np.zeros(sizes[1], "int32")
        kernel(np.arange(sizes[0], dtype="int32"), out)
        assert (out == 7).all()
