"""Alignment that machine code relies on: what is known of own memory, elements of arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from support.llvm_kernels import buffer
from support.vector_kernels import agree, loop

from autotune.ir.expr import Buffer, Expr, Load, Var
from autotune.ir.stmt import Allocate, LoopKind, PrimFunc, Stmt, Store, seq
from autotune.runtime.cpu.llvm_compiler import CompiledFunction, compile_function
from autotune.runtime.object_cache import ObjectCache
from autotune.task.task import Task

SERIAL = LoopKind.SERIAL


def values(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).integers(-20, 20, count).astype(np.float32)


def alignments(kernel: CompiledFunction, *operations: str) -> list[int]:
    """Alignments that the text states for vector loads and stores, in order."""
    lines = [text for text in kernel.source.splitlines() if any(o in text for o in operations)]
    return [int(line.rsplit("align ", 1)[1]) for line in lines]


@pytest.mark.parametrize("count", [64, 8192])
def test_own_memory_is_aligned_as_far_as_it_is_known_and_arrays_only_to_elements(
    count: int,
) -> None:
    a, out = buffer("A", "float32", 4 * count), buffer("out", "float32", 4 * count)
    own = buffer("own", "float32", 4 * count + 32, scope="global")

    def rows(o: Var) -> Stmt:
        def at(v: Expr, step: int, offset: int) -> Expr:
            return o * step + offset + v

        return seq(
            loop(8, lambda v: Store(own, at(v, 16, 0), Load(a, at(v, 16, 0)))),
            loop(8, lambda v: Store(own, at(v, 16, 8), Load(a, at(v, 16, 8)))),
            loop(8, lambda v: Store(own, at(v, 3, 0), Load(a, at(v, 16, 0)))),
            loop(8, lambda v: Store(out, at(v, 16, 0), Load(own, at(v, 16, 0)))),
        )

    body = Allocate(own, loop(4, rows, SERIAL, "o"))
    function = PrimFunc("aligned", (a, out), frozenset([out]), body)
    kernel = agree(function, [values(4 * count)], np.zeros(4 * count, "float32"))
    assert alignments(kernel, "store <8") == [64, 32, 4, 4]


def test_a_parallel_body_knows_the_alignment_of_what_was_allocated_around_it() -> None:
    a, out = buffer("A", "float32", 64), buffer("out", "float32", 64)
    own = buffer("own", "float32", 64)

    def copy(to: Buffer, source: Buffer) -> Stmt:
        def row(o: Var) -> Stmt:
            return loop(16, lambda v: Store(to, o * 16 + v, Load(source, o * 16 + v)))

        return loop(4, row, LoopKind.PARALLEL, "o")

    body = seq(copy(own, a), copy(out, own))
    function = PrimFunc("passed on", (a, out), frozenset([out]), Allocate(own, body))
    kernel = agree(function, [values(64)], np.zeros(64, "float32"))
    assert alignments(kernel, "load <16", "store <16") == [4, 64, 64, 4]


TEMPLATES = [
    ("broadcast_add", {"n": 70}),
    ("matmul", {"m": 37, "n": 50, "k": 19}),
    ("matmul", {"m": 48, "n": 64, "k": 16}),
    ("conv2d_nchw", {"n": 1, "c": 3, "h": 9, "w": 11, "o": 20, "kh": 3, "kw": 3, "pad": 1}),
    ("softmax", {"m": 5, "n": 64}),
    ("softmax", {"m": 5, "n": 70}),
]


@pytest.mark.parametrize(("name", "args"), TEMPLATES)
def test_templates_take_arrays_that_start_one_element_late(name: str, args: dict[str, int]) -> None:
    task = Task.from_reference(name, args, "llvm")
    for index in {task.default_index, *map(int, task.space.sample(3, np.random.default_rng(0)))}:
        kernel = compile_function(task.final(index), task.target, cache=ObjectCache(None))
        results = []
        for late in (0, 1):
            arrays = [shifted(a.shape, a.dtype, late) for a in task.arguments]
            assert all(array.ctypes.data % 64 == late * array.itemsize for array in arrays)
            kernel(*arrays)
            results.append(arrays[-1])
        np.testing.assert_array_equal(results[0], results[1])


def shifted(shape: tuple[int, ...], dtype: str, late: int) -> npt.NDArray[np.float32]:
    """Return random values that start `late` elements after a multiple of 64 bytes."""
    count = int(np.prod(shape))
    memory = np.zeros(count + 32, dtype)
    start = -memory.ctypes.data % 64 // memory.itemsize + late
    array = memory[start : start + count].reshape(shape)
    array[...] = np.random.default_rng(1).uniform(-1, 1, shape)
    return array
