"""A traced template, substituted, is the template run on the plain values: loops, guards, results.

Random small templates over three computations: splits that do not divide, splits of splits,
fusions, orders, places of attachment and caches chosen by knobs, branches and loops on knobs.
`AUTOTUNE_EXAMPLES=300` compares about 1,000 (template, configuration) pairs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.written_loops import conditions

from autotune import te
from autotune.errors import InstantiationError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import Allocate, For, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.target import Target
from autotune.trace.explore import explore
from autotune.trace.fingerprint import code_hash
from autotune.trace.template_knobs import Knobs
from autotune.trace.tracer import Structures
from autotune.trace.value_sources import ConcreteValues, KnobTable

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
TARGET = Target.of("llvm")


@dataclass(frozen=True)
class Recipe:
    """What a random template does; every list is used up in order, again from its start."""

    kind: str
    shape: tuple[int, int, int]
    factors: tuple[tuple[int, ...], ...]
    actions: tuple[str, ...]
    cache_write: bool
    cache_read: bool
    reorder: bool
    annotate: bool
    fuse_own_pieces: bool = False
    padded: bool = False
    ahead: bool = False


def _compute(recipe: Recipe, cfg: Knobs) -> tuple[list[Any], Any, Any]:
    """Return inputs, an intermediate tensor or None, and the output."""
    m, n, k = recipe.shape
    if recipe.kind == "matmul":
        a = te.placeholder((m, k), "float32", name="A")
        b = te.placeholder((k, n), "float32", name="B")
        r = te.reduce_axis((0, k), name="r")
        return (
            [a, b],
            None,
            te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C"),
        )
    if recipe.kind == "packed":
        a = te.placeholder((m, n), "float32", name="A")
        tile = cfg.define_knob("pack", [1, 2, 3, 4])
        p = te.compute(
            (te.ceildiv(n, tile), m, tile),
            lambda jo, i, ji: a[i, te.min(jo * tile + ji, n - 1)],
            name="P",
        )
        return [a], p, te.compute((m, n), lambda i, j: p[j // tile, i, j % tile] * 2, name="C")
    a = te.placeholder((m + 2, n), "float32", name="A")
    p = te.compute((m + 2, n), lambda i, j: a[i, j] + 1, name="P")
    return [a], p, te.compute((m, n), lambda i, j: p[i, j] + p[i + 2, j], name="C")


def _template(recipe: Recipe, cfg: Knobs) -> tuple[Any, list[Any]]:
    inputs, middle, out = _compute(recipe, cfg)
    s = te.create_schedule(out.op)
    cache = s.cache_write(out, "local") if recipe.cache_write else None
    stage = s[out]
    loops = list(stage.op.axis)
    numbers = [cfg.define_knob(f"f{i}", values) for i, values in enumerate(recipe.factors)]
    split = cfg.define_split("tile", recipe.shape[0], 3, policy="power2")
    cfg.add_constraint(numbers[0] * split[2] <= 40, "tiles are small")
    for count, action in enumerate(recipe.actions):
        loops = _act(recipe, stage, loops, action, numbers[count % len(numbers)], count, split)
    if recipe.reorder:
        few = loops[:3]
        order = cfg.define_reorder(f"order{len(few)}", [f"l{i}" for i in range(len(few))])
        loops[: len(few)] = order.apply(stage, few)
    at = loops[te.min(cfg.define_knob("at", [1, 0, 2]), len(loops) - 1)]
    for other in (middle, cache):
        if other is not None:
            s[other].compute_at(stage, at)
            if recipe.padded:
                s[other].storage_align(s[other].op.axis[0], numbers[0] + 1, te.min(numbers[0], 2))
                s[other].pragma(s[other].op.axis[0], "auto_unroll_max_step", numbers[-1] * 4)
    if recipe.ahead and not recipe.cache_read and not recipe.annotate:
        first = cache if middle is None else middle
        if first is not None:
            s[first].double_buffer()
    if cache is not None:
        inner = s[cache].op.axis[-1]
        if recipe.kind == "matmul":
            _, ri = s[cache].split(s[cache].op.reduce_axis[0], factor=numbers[-1])
            if recipe.shape[2] % numbers[-1] == 0:
                s[cache].unroll(ri)
        s[cache].vectorize(inner)
    elif recipe.kind == "matmul":
        stage.split(stage.op.reduce_axis[0], nparts=numbers[-1])
    if recipe.cache_read:
        reader = cache if cache is not None and middle is None else middle or out
        copy = s.cache_read(inputs[0], "local", [reader])
        if reader is out:
            s[copy].compute_at(stage, loops[0])
    if recipe.annotate and cfg.define_knob("last", ["none", "vectorize", "unroll"]) != "none":
        getattr(stage, cfg["last"])(loops[-1])
    return s, [*inputs, out]


def _act(
    recipe: Recipe, stage: Any, loops: list[Any], action: str, number: Any, count: int, split: Any
) -> list[Any]:
    where = count % len(loops)
    match action:
        case "split":
            loops[where : where + 1] = stage.split(loops[where], factor=number)
        case "nparts":
            loops[where : where + 1] = stage.split(loops[where], nparts=number)
        case "sizes":
            loops[where : where + 1] = split.apply(stage, loops[where])
        case "smaller":
            loops[where : where + 1] = stage.split(loops[where], factor=te.min(number, split[1]))
        case "fuse" if where + 1 < len(loops):
            roots = [{"i", "j"}.intersection(loop.name.split(".")) for loop in loops[where:][:2]]
            if recipe.fuse_own_pieces or not roots[0] & roots[1]:
                loops[where : where + 2] = [stage.fuse(*loops[where : where + 2])]
        case "branch":
            if number > 2 and number * split[2] < 12:
                loops[where : where + 1] = stage.split(loops[where], factor=number + 1)
        case "loop":
            for _ in range(te.min(number, 2)):
                loops[where : where + 1] = stage.split(loops[where], factor=2)
    return loops


ACTIONS = ("split", "nparts", "sizes", "smaller", "fuse", "branch", "loop")

recipes = st.builds(
    Recipe,
    kind=st.sampled_from(["matmul", "packed", "stencil"]),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 9)),
    factors=st.lists(
        st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True).map(tuple),
        min_size=1,
        max_size=3,
    ).map(tuple),
    actions=st.lists(st.sampled_from(ACTIONS), max_size=4).map(tuple),
    cache_write=st.booleans(),
    cache_read=st.booleans(),
    reorder=st.booleans(),
    annotate=st.booleans(),
    fuse_own_pieces=st.booleans(),
    padded=st.booleans(),
    ahead=st.booleans(),
)


def _concrete(recipe: Recipe, values: Any) -> PrimFunc:
    cfg = Knobs(ConcreteValues(KnobTable("random"), values), TARGET)
    return analyse(lower_schedule(*_template(recipe, cfg), "random"))


def _loops(function: PrimFunc) -> list[str]:
    """Extents and allocation sizes, in order."""
    lines = []
    for stmt in walk(function.body):
        match stmt:
            case For():
                lines.append(f"{stmt.kind} {stmt.var.name} {stmt.extent}")
            case Allocate():
                lines.append(f"allocate {stmt.buffer.name} {stmt.buffer.shape}")
    return lines


def _run(function: PrimFunc, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrays = []
    for param in function.params:
        shape = tuple(int(e.value) for e in param.shape)  # type: ignore[attr-defined]
        arrays.append(rng.integers(-4, 5, shape).astype(np.float32))
    interpret(function, arrays)
    return arrays


def _expected(recipe: Recipe, arrays: list[Any]) -> Any:
    if recipe.kind == "matmul":
        return arrays[0] @ arrays[1]
    if recipe.kind == "packed":
        return arrays[0] * 2
    return arrays[0][:-2] + arrays[0][2:] + 2


@given(recipes, st.integers(0, 2**32 - 1))
@settings(
    max_examples=EXAMPLES or 6,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_substituting_knobs_in_a_trace_equals_running_the_template(
    recipe: Recipe, seed: int
) -> None:
    structures = Structures("random", lambda cfg: _template(recipe, cfg), TARGET)
    space = explore(structures)
    assert structures.untraceable == ""
    rng = np.random.default_rng(seed)
    indices = np.unique(rng.integers(0, len(space), size=4))
    for index, feasible in zip(indices.tolist(), space.feasible(indices).tolist(), strict=True):
        values = space.config(index).values
        if not feasible:
            for attempt in (structures.instantiate, lambda v: _concrete(recipe, v)):
                _assert_refused(attempt, values)
            continue
        traced, concrete = structures.instantiate(values), _concrete(recipe, values)
        assert _loops(traced) == _loops(concrete)
        assert conditions(traced) == conditions(concrete)
        assert str(traced) == str(concrete)
        assert code_hash(finalise(traced)) == code_hash(finalise(concrete))
        arrays = _run(finalise(traced), seed)
        np.testing.assert_array_equal(arrays[-1], _expected(recipe, arrays))


def _assert_refused(attempt: Any, values: Any) -> None:
    try:
        attempt(values)
    except InstantiationError:
        return
    raise AssertionError(f"{values} is infeasible, but was not refused")
