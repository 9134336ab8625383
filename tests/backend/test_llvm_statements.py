"""Guards, choices and sequences compiled by LLVM, and what it cannot compile."""

from __future__ import annotations

import numpy as np
import pytest
from support.llvm_kernels import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    buffer,
    check,
    compiled,
    i32,
    loop,
    poisoned,
    values,
)

from autotune.errors import CodegenError
from autotune.ir import ops
from autotune.ir.expr import Call, Const, KnobVar, Load, SizeVar, Var
from autotune.ir.stmt import Barrier, For, If, LoopKind, PrimFunc, Seq, Stmt, Store, seq
from autotune.runtime.cpu.llvm_compiler import compile_function
from autotune.runtime.object_cache import ObjectCache


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
    check(PrimFunc("tail", (a, out), frozenset([out]), body), [x], x * 2)


def test_else_branches_run() -> None:
    out = buffer("out", "int32", 10)
    body = loop(10, SERIAL, lambda i: If(i % 3 < 1, Store(out, i, i), Store(out, i, 0 - i)))
    i = np.arange(10)
    check(
        PrimFunc("either", (out,), frozenset([out]), body),
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

    function = PrimFunc("pad", (a, out), frozenset([out]), loop(16, kind, padded))
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
        PrimFunc("pad", (a, out), frozenset([out]), body), [x], np.pad(x, 3).astype("float32")
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
    kernel = compiled(PrimFunc("lazy", (a, out), frozenset([out]), body))
    result = poisoned("int32", 8)
    kernel(x, result)
    np.testing.assert_array_equal(result, [1, 0, 0, 1, 0, 0, 0, 0])


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
        PrimFunc("again", (out,), frozenset([out]), body), [], np.array([3, 106, 109, 3], "int32")
    )


def test_of_unrolled_loops_too_long_together_the_outer_ones_stay_loops() -> None:
    a, out = buffer("A", "float32", 64 * 64), buffer("out", "float32", 64 * 64)
    body = loop(64, UNROLLED, lambda i: loop(64, UNROLLED, lambda j: Store(
        out, i * 64 + j, Load(a, i * 64 + j) + 1.0), "j"))  # fmt: skip
    kernel = compiled(PrimFunc("copies", (a, out), frozenset([out]), body))
    assert kernel.source.count("store float") == 64
    values = np.arange(64 * 64, dtype="float32")
    result = np.zeros_like(values)
    kernel(values, result)
    np.testing.assert_array_equal(result, values + 1)


def test_empty_loops_and_empty_sequences_do_nothing() -> None:
    n = SizeVar("n")
    a, out = buffer("A", "float32", n), buffer("out", "float32", 2)
    body = seq(
        loop(2, SERIAL, lambda i: Store(out, i, Const(1.0, "float32"))),
        loop(n, SERIAL, lambda i: Store(out, i32(0), Load(a, i))),
        loop(0, SERIAL, lambda i: Store(out, i32(5), Const(2.0, "float32"))),
        Seq(()),
    )
    kernel = compiled(PrimFunc("empty", (a, out), frozenset([out]), body, (n,)))
    result = np.zeros(2, "float32")
    kernel(np.zeros(0, "float32"), result)
    assert list(result) == [1.0, 1.0]


def test_what_has_no_meaning_on_a_cpu_is_refused_in_one_line() -> None:
    out = buffer("out", "float32", 4)
    one = Const(1.0, "float32")
    i = Var("i")
    knob = KnobVar("tile", 1, 4)
    refused = {
        "bound to threadIdx.x": For(i, i32(4), LoopKind.THREAD, Store(out, i, one), "threadIdx.x"),
        "was to become vectors": For(i, i32(4), VECTORIZED, Store(out, i, one)),
        "knob without a value: tile": Store(out, knob, one),
        "variable not in scope: i": Store(out, i, one),
        "no intrinsic 'frobnicate'": Store(out, i32(0), Call("frobnicate", (one,), "float32")),
        "a barrier has no meaning on the CPU": Barrier(),
        "is used where it is not allocated": Store(buffer("lost", "float32", 1), i32(0), one),
        "which holds float32": Store(out, i32(0), i32(0)),
    }
    for message, body in refused.items():
        function = PrimFunc("refused", (out,), frozenset([out]), body)
        with pytest.raises(CodegenError, match=message) as error:
            compile_function(function, cache=ObjectCache(None))
        assert "\n" not in str(error.value)


def test_names_that_llvm_would_not_take_are_changed() -> None:
    out = buffer("1 odd-näme", "int32", 3)
    i = Var("i.%*")
    body = For(i, i32(3), PARALLEL, Store(out, i, i))
    result = np.zeros(3, "int32")
    compiled(PrimFunc("a function!", (out,), frozenset([out]), body))(result)
    assert list(result) == [0, 1, 2]
