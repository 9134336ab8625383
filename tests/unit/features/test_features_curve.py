"""Curve features: against their formulas written out, one by one against all at once."""

import functools
import math

import numpy as np
import pytest

from autotune import te
from autotune.extract.to_loop_nest import LoopNestPlan
from autotune.feature import get_curve_feature, get_curve_name, get_knob_feature
from autotune.task.task import Task
from features import (
    ANNOTATIONS,
    CURVE_NAMES,
    SYMBOLIC,
    VIRTUAL_THREAD,
    BufferAccess,
    FeatureError,
    Loop,
    LoopNest,
    candidate,
    curve_matrix,
    explain,
    versioned,
)

BYTES = [256 * 2**k for k in range(20)]
FAR = [4**k for k in range(20)]
GEMM = LoopNest(
    (
        Loop("x", "PARALLEL", 128, -1, 1, 0, 0, 0),
        Loop("y", "SERIAL", 128, 0, 2, 0, 0, 0),
        Loop("k", "UNROLL", 128, 1, 3, 1, 1, 0),
    ),
    (
        BufferAccess("C", 0, (0, 1), (128, 1), (-1, -1), 4, True),
        BufferAccess("A", 0, (0, 1, 2), (128, 0, 1), (-1,) * 3, 4, False),
        BufferAccess("B", 0, (0, 1, 2), (0, 1, 128), (-1,) * 3, 4, False),
    ),
)
TASKS = {
    "softmax": {"m": 7, "n": 60},
    "matmul": {"m": 50, "n": 70, "k": 33},
    "conv2d_nchw": {"n": 1, "c": 4, "h": 9, "w": 9, "o": 17, "kh": 3, "kw": 3, "pad": 1},
}


@functools.cache
def task_of(reference):
    return Task.from_reference(reference, TASKS[reference], "llvm")



def by_formula(nest):
    """The definitions of docs/features.md, written out without regard for speed."""
    loops = nest.loops
    chains = []
    for row, loop in enumerate(loops):
        chains.append([*(chains[loop.parent] if loop.parent >= 0 else []), row])
    topdown = [math.prod(loops[i].length for i in chain) for chain in chains]
    entries = [math.prod(loops[i].length for i in chain[:-1]) for chain in chains]
    touches, accesses = [], []
    for access in nest.accesses:
        whole = topdown[access.loops[-1]] if access.loops else 1
        own = []
        for place, row in enumerate(access.loops):
            inside = list(zip(access.loops[place:], access.strides[place:], strict=True))
            count = math.prod(loops[i].length for i, stride in inside if stride != 0)
            reuse = math.prod(loops[i].length for i, stride in inside if stride == 0)
            own.append((row, count, count * access.itemsize, reuse))
        touches += own
        last = abs(access.strides[-1]) * access.itemsize if access.loops else math.inf
        accesses.append((whole, access.itemsize, own, last))
    footprints = [sum(b for r, _, b, _ in touches if r == row) for row in range(len(loops))]
    work = [
        sum(
            (inner.add + inner.mul + inner.div) * topdown[i] // entries[row]
            for i, inner in enumerate(loops)
            if row in chains[i] and entries[row]
        )
        for row in range(len(loops))
    ]
    curves = {
        "bytes/reuse": [max([u for _, _, b, u in touches if b <= t], default=0) for t in BYTES],
        "bytes/topdown": [
            max([topdown[r] for r, _, b, _ in touches if b <= t], default=0) for t in BYTES
        ],
        "bytes/traffic": [
            sum(
                min([whole * size, *(entries[r] * b for r, _, b, _ in own if b <= t)])
                for whole, size, own, _ in accesses
            )
            for t in BYTES
        ],
        "footprint/intensity": [
            max([w / f for w, f in zip(work, footprints, strict=True) if 0 < f <= t], default=0)
            for t in BYTES
        ],
        "count/reuse": [max([u for _, c, _, u in touches if c <= t], default=0) for t in FAR],
        "count/topdown": [
            max([topdown[r] for r, c, _, _ in touches if c <= t], default=0) for t in FAR
        ],
        "topdown/reuse": [
            max([u for r, _, _, u in touches if topdown[r] <= t], default=0) for t in FAR
        ],
        "stride/accesses": [
            sum(whole for whole, _, _, last in accesses if last <= 2**k) for k in range(20)
        ],
    }
    lengths = [
        max(
            [
                math.prod(loops[i].length for i in chain if loops[i].annotation == kind)
                for chain in chains
                if any(loops[i].annotation == kind for i in chain)
            ],
            default=0,
        )
        for kind in (*ANNOTATIONS, VIRTUAL_THREAD)
    ]
    return [*(value for curve in curves.values() for value in curve), *lengths]


def column(name, nest=GEMM):
    return curve_matrix(nest)[0, CURVE_NAMES.index(name)]


def test_a_gemm_has_the_reuse_and_the_traffic_that_one_works_out_by_hand():
    # In a loop over k one row of A (512 bytes) and nothing of B stays; over y, all of B (64 KiB).
    assert column("bytes/reuse/512") == 128
    assert column("bytes/traffic/256") == 4 * (128**2 + 2 * 128**3)
    assert column("bytes/traffic/512") == 4 * (128**2 + 128**2 + 128**3)
    assert column("bytes/traffic/65536") == 4 * 3 * 128**2
    assert column("footprint/intensity/262144") == 2 * 128**3 / (4 * 3 * 128**2)
    assert column("stride/accesses/4") == 128**2 + 128**3
    assert column("stride/accesses/512") == 128**2 + 2 * 128**3
    assert [column(f"length/{kind}") for kind in ("PARALLEL", "UNROLL", "VECTORIZE")] == [
        128, 128, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("reference", TASKS)
def test_all_at_once_is_one_by_one_bit_for_bit_and_what_the_formulas_say(reference):
    task = task_of(reference)
    sample = task.space.sample(50, np.random.default_rng(0))
    labels = task.classify(sample)
    for number in np.unique(labels):
        indices = sample[labels == number]
        plan = LoopNestPlan(task.structures[number].function)
        nest = plan.nest(task.space.columns(indices, plan.knobs))
        matrix = curve_matrix(nest, len(indices))
        for place, row in enumerate(matrix):
            alone = candidate(nest, place)
            assert curve_matrix(alone)[0].tobytes() == row.tobytes()
            if place < 3:
                assert row.tolist() == by_formula(alone)


def test_one_schedule_has_as_many_curve_features_as_any_other():
    a = te.placeholder((30,), name="A")
    b = te.compute((30,), lambda i: a[i] + 1.0, name="B")
    found = get_curve_feature(te.create_schedule(b.op), [a, b])
    assert found.shape == (len(get_curve_name()),)
    named = dict(zip(get_curve_name(), found, strict=True))
    assert named["bytes/traffic/256"] == 240
    logs = get_curve_feature(te.create_schedule(b.op), [a, b], take_log=True)
    np.testing.assert_allclose(logs, np.log2(1 + found))


def test_what_a_length_that_is_not_known_enters_is_left_out():
    loops = (
        Loop("m", "SERIAL", SYMBOLIC, -1, 1, 0, 0, 0),
        Loop("i", "SERIAL", 64, 0, 2, 1, 0, 0),
    )
    access = BufferAccess("A", 0, (0, 1), (64, 1), (-1, -1), 4, False)
    row = dict(zip(CURVE_NAMES, curve_matrix(LoopNest(loops, (access,)))[0], strict=True))
    assert row["bytes/reuse/256"] == 1  # of the loop i alone
    assert row["bytes/topdown/256"] == row["bytes/traffic/134217728"] == 0
    assert row["footprint/intensity/256"] == 64 / 256
    assert all(math.isfinite(value) for value in row.values())


def test_a_nest_without_loops_moves_its_elements_once():
    store = BufferAccess("A", 0, (), (), (), 8, True)
    row = dict(zip(CURVE_NAMES, curve_matrix(LoopNest((), (store,)))[0], strict=True))
    assert {name for name, value in row.items() if value} == {
        name for name in CURVE_NAMES if name.startswith("bytes/traffic/")
    }
    assert row["bytes/traffic/256"] == 8


def test_an_array_of_another_length_is_refused():
    loop = Loop("i", "SERIAL", np.ones(3), -1, 1, 0, 0, 0)
    with pytest.raises(FeatureError, match=r"shape \(3,\), expected \(2,\)"):
        curve_matrix(LoopNest((loop,), ()), 2)


def test_every_curve_column_can_be_explained():
    meanings = {explain(versioned("curve", name)) for name in CURVE_NAMES}
    assert len(meanings) == len(CURVE_NAMES) == 8 * 20 + 11


def test_knob_features_of_a_space_name_every_value_of_a_category():
    task = task_of("matmul")
    names, matrix = get_knob_feature(task.space, [0, 5])
    assert matrix.dtype == np.float32
    assert matrix.shape == (2, len(names))
    row = dict(zip(names, matrix[1], strict=True))
    values = task.space.config(5).values
    for name, value in values.items():
        if isinstance(value, str):
            assert row[f"{name}={value}"] == 1
            assert sum(row[other] for other in row if other.startswith(f"{name}=")) == 1
        else:
            assert row[name] == float(value)
    assert {type(value) for value in values.values()} >= {int, str}
