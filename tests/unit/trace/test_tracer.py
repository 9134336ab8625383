"""Structures of templates: which there are, what they refuse, and what cannot be traced."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.rejections import rejections

from autotune import rules, te
from autotune.errors import InstantiationError, LoweringError, ScheduleError, UsageError
from autotune.ir.stmt import For
from autotune.ir.visitor import walk
from autotune.rules.gpu.gpu_rules import _Loops
from autotune.rules.reductions.rows import RowLoops
from autotune.target import GpuLimits, Target
from autotune.trace import explore as exploring
from autotune.trace import tracer
from autotune.trace.explore import classify, explore
from autotune.trace.template_knobs import Knobs
from autotune.trace.tracer import Structures, TracingWarning
from search_spaces import Space

Body = Callable[[Knobs, Any, Any], None]


def add_one(n: int, body: Body) -> Callable[[Knobs], Any]:
    """Return a template of B[i] = A[i] + 1 whose loops `body` schedules."""

    def run(cfg: Knobs) -> Any:
        a = te.placeholder((n,), "float32", name="A")
        b = te.compute((n,), lambda i: a[i] + 1, name="B")
        s = te.create_schedule(b.op)
        body(cfg, s[b], s[b].op.axis[0])
        return s, [a, b]

    return run


def found(body: Body, n: int = 24, target: str = "llvm") -> tuple[Structures, Space]:
    structures = Structures("t", add_one(n, body), Target.of(target), __file__)
    return structures, explore(structures)


def every(space: Space) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(len(space), dtype=np.int64)


def test_a_template_without_branches_has_one_structure() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        o, _ = stage.split(i, factor=cfg.define_knob("a", [1, 2, 5]))
        stage.split(o, nparts=cfg.define_knob("b", [1, 3]))

    structures, space = found(body)
    assert len(structures.known) == 1
    assert (len(space), space.constraints) == (6, ())
    assert classify(structures, space, every(space)).tolist() == [0] * 6


def test_each_way_through_branches_is_a_structure_of_its_own() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a, b = cfg.define_knob("a", [1, 2, 3]), cfg.define_knob("b", [1, 4])
        if a * b > 3:
            stage.split(i, factor=a)
            if a == 2:
                stage.split(stage.leaf_axes[0], factor=b)

    structures, space = found(body)
    ways = [(a * b > 3, a * b > 3 and a == 2) for a in (1, 2, 3) for b in (1, 4)]
    labels = classify(structures, space, every(space)).tolist()
    assert len(structures.known) == len(set(ways)) == 3
    assert structures.explored
    for (way, label), (other, number) in itertools.combinations(zip(ways, labels, strict=True), 2):
        assert (way == other) == (label == number)
    for index in range(len(space)):
        values = space.config(index).values
        assert structures.of(values) is structures.known[labels[index]]
        loops = sum(isinstance(s, For) for s in walk(structures.instantiate(values).body))
        assert loops == 1 + ways[index][0] + ways[index][1]


def test_a_loop_over_a_knob_is_a_structure_per_number_of_rounds() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        for _ in range(cfg.define_knob("rounds", [0, 1, 3])):
            i, _ = stage.split(i, factor=2)

    structures, space = found(body)
    assert len(structures.known) == 3
    depth = [len(s.schedule.stages[1].leaf_axes) for s in structures.known if s.schedule]
    assert sorted(depth) == [1, 2, 4]
    assert len(space) == 3


def test_later_decisions_are_made_only_where_earlier_ones_allow() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        step = cfg.define_knob("step", [0, 2, 5])
        if step > 0 and 24 % step == 0:
            stage.split(i, factor=step)

    structures, space = found(body)
    assert len(structures.known) == 3
    assert not any(structure.error for structure in structures.known)
    assert space.feasible(every(space)).all()


def test_what_a_template_raises_becomes_a_constraint() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a, b = cfg.define_knob("a", [1, 2, 3]), cfg.define_knob("b", [1, 2])
        if a * b > 4:
            raise ValueError("too much")
        if a == b == 2:
            raise ScheduleError("both are two")
        stage.split(i, factor=a)

    structures, space = found(body)
    bad = [a * b > 4 or a == b == 2 for a in (1, 2, 3) for b in (1, 2)]
    assert space.feasible(every(space)).tolist() == [not b for b in bad]
    rules = rejections(space)
    assert list(rules.values()) == [1, 1]
    for said in ("template: both are two (", "template: ValueError: too much ("):
        (message,) = (message for message in rules if message.startswith(said))
        assert __file__ in message
    refused = space.config(bad.index(True)).values
    with pytest.raises(InstantiationError, match="both are two"):
        structures.instantiate(refused)


def add_two_in_rules(value: Any) -> Any:
    """Return a template without a knob of its own, for which `rules.schedule` makes a schedule."""

    def run(cfg: Knobs) -> Any:
        a = te.placeholder((24,), "float32", name="A")
        b = te.compute((24,), lambda i: a[i] + value, name="B")
        s = rules.schedule(cfg, [b])
        return s, [a, *rules.scheduled_outputs(s, [b])]

    return run


def failing(cfg: Any, *_: Any) -> Any:
    """Stand for a rule with a mistake, which the default meets."""
    lanes = cfg.define_knob("lanes", [4, 1])
    assert lanes == 1, "no lanes"
    raise ScheduleError("one lane")


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90 -on=cpu"])
def test_what_the_rules_raise_is_told_as_a_mistake(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowLoops, "apply", lambda self, *_: failing(self.cfg))
    monkeypatch.setattr(_Loops, "_elements", lambda self, *_: failing(self.knobs.cfg))
    structures = Structures("t", add_two_in_rules(1), Target.of(target), __file__)
    with pytest.warns(TracingWarning, match="by a mistake in autotune, which") as caught:
        space = explore(structures)
    told = [str(warning.message) for warning in caught]
    assert len(told) == 2
    assert "AssertionError: no lanes" in told[0]
    assert "one lane" in told[1]
    assert not space.feasible(every(space)).any()
    assert structures.untraceable == ""


def test_what_the_rules_make_and_lowering_refuses_is_told_as_a_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lower(*_: Any) -> Any:
        raise LoweringError("no loops")

    monkeypatch.setattr(tracer, "lower_schedule", lower)
    run, target = add_two_in_rules(1), Target.of("llvm")
    with pytest.warns(TracingWarning, match="by a mistake in autotune, which .*: no loops"):
        explore(Structures("t", run, target, compared=False))
    explore(Structures("t", run, target))  # its own schedule may be to blame


def test_what_a_template_without_knobs_raises_is_its_own_mistake() -> None:
    def run(cfg: Knobs) -> Any:
        raise ValueError("no")

    structures = Structures("t", run, Target.of("llvm"), __file__, compared=False)
    explore(structures)
    assert structures.known[0].error.startswith("template: ValueError: no (")


def test_what_a_primitive_refuses_becomes_a_constraint() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        stage.split(i, factor=cfg.define_knob("f", [-1, 0, 1, 6]))

    structures, space = found(body)
    assert len(structures.known) == 1
    assert rejections(space) == {"split on stage 'B', axis 'i': the factor must be at least 1": 2}
    assert structures.instantiate({"f": 6}).body is not None
    with pytest.raises(InstantiationError, match="factor must be at least 1"):
        structures.instantiate({"f": 0})


def test_a_constraint_counts_only_on_the_way_it_was_added() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a, flag = cfg.define_knob("a", [1, 2, 3]), cfg.define_knob("flag", [False, True])
        if flag:
            cfg.add_constraint(a < 3, "small")
        cfg.add_constraint(a != 2, "not two")
        stage.split(i, factor=a)

    structures, space = found(body)
    allowed = [a != 2 and not (flag and a >= 3) for a in (1, 2, 3) for flag in (False, True)]
    assert space.feasible(every(space)).tolist() == allowed
    assert rejections(space) == {"not two": 2, "small": 1}
    with pytest.raises(InstantiationError, match=r"^small$"):
        structures.instantiate({"a": 3, "flag": True})


def test_a_constraint_that_is_plainly_false_ends_the_way() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        if cfg.define_knob("a", [1, 2]) == 2:
            cfg.add_constraint(False, "never two")

    _, space = found(body)
    assert rejections(space) == {"never two": 1}


def test_a_knob_defined_on_one_way_only_joins_the_space() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        if cfg.define_knob("deep", [False, True]):
            o, _ = stage.split(i, factor=cfg.define_knob("inner", [2, 3, 4]))
            if cfg.define_knob("again", [0, 1]) > 0:
                stage.split(o, factor=2)

    structures, space = found(body)
    assert [knob.name for knob in space.knobs] == ["deep", "inner", "again"]
    assert len(space) == 12
    assert len(structures.known) == 3


def test_a_knob_defined_with_other_values_elsewhere_is_one_clear_error() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a = cfg.define_knob("a", [2, 4])
        cfg.define_split("rest", 24 // a, 2)

    with pytest.raises(UsageError, match=r"knob 'rest' is defined twice with different values"):
        found(body)


def test_knobs_that_are_no_integers_are_told_apart() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        scale = cfg.define_knob("scale", [1.5, 0.5, 2.0])
        large = cfg.define_knob("large", [2**40, 1])
        stage.split(i, factor=int(scale * 2) if large == 1 else 4)

    structures, space = found(body)
    assert len(structures.known) == 6
    labels = classify(structures, space, every(space))
    assert sorted(labels.tolist()) == list(range(6))
    for index, label in enumerate(labels.tolist()):
        assert structures.of(space.config(index).values).number == label


def test_annotations_make_a_structure_each_only_if_they_are_used() -> None:
    def unused(cfg: Knobs, stage: Any, i: Any) -> None:
        cfg.define_annotate("ann", ["i"])

    def used(cfg: Knobs, stage: Any, i: Any) -> None:
        cfg.define_annotate("ann", [i]).apply(stage, [i])

    assert len(found(unused)[0].known) == 1
    structures, space = found(used)
    assert len(structures.known) == len(space) == 3
    kinds = {
        str(
            next(
                s for s in walk(structures.instantiate({"ann": [a]}).body) if isinstance(s, For)
            ).kind
        )
        for a in ("none", "unroll", "vectorize")
    }
    assert kinds == {"serial", "unrolled", "vectorized"}


def test_a_template_that_defeats_tracing_works_one_configuration_at_a_time() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a = cfg.define_knob("a", [1, 2, 3])
        cfg.add_constraint(a < 3, "below three")
        stage.split(i, factor={1: 4, 2: 6}[a])  # hashing

    with pytest.warns(TracingWarning) as caught:
        structures, space = found(body)
    (warning,) = caught
    line = body.__code__.co_firstlineno + 3
    assert f"{__file__}:{line}" in str(warning.message)
    assert "use int(knob) as the key" in str(warning.message)
    assert len(space) == 3
    assert classify(structures, space, every(space)).tolist() == [-1] * 3
    extents = [
        [str(s.extent) for s in walk(structures.instantiate({"a": a}).body) if isinstance(s, For)]
        for a in (1, 2)
    ]
    assert extents == [["6", "4"], ["4", "6"]]
    with pytest.raises(InstantiationError, match="below three"):
        structures.instantiate({"a": 3})


def test_an_error_that_only_symbols_meet_defeats_tracing_instead_of_the_configuration() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a = cfg.define_knob("a", [2, 3])
        if type(a) is not int:
            raise TypeError("wants an int")
        stage.split(i, factor=a)

    with pytest.warns(TracingWarning, match="wants an int"):
        structures, space = found(body)
    assert space.feasible(every(space)).all()
    assert structures.instantiate({"a": 3}) is not None


def test_a_template_that_exits_refuses_that_configuration_only() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        if cfg.define_knob("a", [1, 2]) == 2:
            sys.exit("enough")

    _, space = found(body)
    assert space.feasible(every(space)).tolist() == [True, False]


def test_a_template_that_depends_on_earlier_calls_is_told_so_with_the_line() -> None:
    calls = itertools.count()

    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a = cfg.define_knob("a", [1, 2, 3])
        if a > next(calls) % 2 + 1:
            stage.split(i, factor=2)

    with pytest.warns(TracingWarning, match="does not do the same twice") as caught:
        found(body)
    (warning,) = caught
    assert f"{__file__}:{body.__code__.co_firstlineno + 2}]" in str(warning.message)


def test_structures_beyond_the_cap_are_found_when_they_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        for _ in range(cfg.define_knob("rounds", list(range(6)))):
            i, _ = stage.split(i, factor=2)
        cfg.add_constraint(cfg["rounds"] < 5, "few")

    monkeypatch.setattr(exploring, "MAX_STRUCTURES", 3)
    structures, space = found(body)
    assert len(structures.known) == 3
    assert classify(structures, space, every(space)).tolist() == [0, 1, 2, -1, -1, -1]
    assert space.feasible(every(space)).all()  # what unknown structures demand is not known
    assert structures.instantiate(space.config(4).values) is not None
    with pytest.raises(InstantiationError, match="few"):
        structures.instantiate(space.config(5).values)
    assert classify(structures, space, every(space)).tolist() == [0, 1, 2, -1, 3, 4]


def test_a_large_space_is_explored_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a, b = (cfg.define_knob(name, list(range(1, 1001))) for name in "ab")
        if a + b == 2000:
            stage.split(i, factor=2)

    monkeypatch.setattr(exploring, "MAX_CLASSIFIED", 1000)
    monkeypatch.setattr(exploring, "SAMPLE", 100)
    structures, space = found(body)
    assert len(structures.known) == 1
    last = len(space) - 1
    assert classify(structures, space, np.array([0, last])).tolist() == [0, -1]
    assert structures.of(space.config(last).values).number == 1
    assert classify(structures, space, np.array([0, last])).tolist() == [0, 1]


def test_a_way_that_one_value_out_of_many_leads_to_is_found_with_its_knobs() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        a, _ = (cfg.define_knob(name, list(range(1, 3001))) for name in "ab")
        if a == 2222:
            stage.split(i, factor=cfg.define_knob("rare", [2, 3]))

    structures, space = found(body)
    assert len(space) > exploring.MAX_CLASSIFIED
    assert [knob.name for knob in space.knobs] == ["a", "b", "rare"]
    assert len(structures.known) == 2


def test_knobs_of_ways_beyond_the_cap_join_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        for _ in range(cfg.define_knob("rounds", list(range(6)))):
            i, _ = stage.split(i, factor=2)
        if cfg["rounds"] == 5:
            stage.split(i, factor=cfg.define_knob("last", [1, 3]))

    monkeypatch.setattr(exploring, "MAX_STRUCTURES", 3)
    structures, space = found(body)
    assert [knob.name for knob in space.knobs] == ["rounds", "last"]
    assert len(structures.known) == 3
    assert not structures.explored


def test_threads_beyond_the_target_are_infeasible() -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        block, thread = stage.split(i, factor=cfg.define_knob("threads", [256, 1024, 2048]))
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(thread, te.thread_axis("threadIdx.x"))

    _, space = found(body, n=1 << 16, target="cuda")
    assert rejections(space) == {"a block has at most 1024 threads": 1}
    _, space = found(body, n=1 << 16)
    (message,) = rejections(space)
    assert "binds loops to GPU threads, which target 'llvm' does not have" in message


def test_a_template_must_return_a_schedule_and_tensors() -> None:
    structures = Structures("t", lambda cfg: None, Target.of("llvm"))  # type: ignore[arg-type,return-value]
    with pytest.raises(UsageError, match="must return its tensors, as in"):
        explore(structures)


def test_tracing_warns_of_nothing_else() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found(lambda cfg, stage, i: stage.split(i, factor=cfg.define_knob("a", [3, 7])))


def test_a_reduction_across_threads_takes_shared_memory_of_the_block() -> None:
    def run(cfg: Knobs) -> Any:
        a = te.placeholder((4096,), "float64", name="A")
        k = te.reduce_axis((0, 4096), name="k")
        b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
        s = te.create_schedule(b.op)
        _, ki = s[b].split(k, factor=cfg.define_knob("threads", [64, 512, 1024]))
        partial = s.rfactor(b, ki)
        s[b].bind(s[b].op.axis[0], te.thread_axis("blockIdx.x"))
        s[b].bind(s[b].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
        s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
        return s, [a, b]

    class Narrow(Target):
        @property
        def gpu(self) -> GpuLimits:
            return GpuLimits(shared_bytes=4096)

    space = explore(Structures("t", run, Narrow("cuda"), __file__))
    assert rejections(space)["a block has at most 4096 bytes of shared memory"] == 1


@pytest.mark.parametrize("first", [["flat", "tiled"], [0, 1]])
def test_a_knob_under_a_condition_has_its_default_elsewhere(first: list[Any]) -> None:
    def body(cfg: Knobs, stage: Any, i: Any) -> None:
        way = cfg.define_knob("way", first)
        is_tiled = way == first[1]
        by = cfg.define_range("by", 2, 8, log=True, default=4, when=is_tiled)
        kind = cfg.define_knob("kind", ["x", "y"], when=is_tiled)
        sizes = cfg.define_split("sizes", 24, default=(-1, 6), when=is_tiled)
        if is_tiled:
            outer, inner = stage.split(i, factor=by)
            if kind == "y":
                stage.unroll(inner)
            stage.split(outer, factor=sizes[1])

    structures, space = found(body)
    assert not structures.untraceable
    names = ("way", "by", "kind", "sizes")
    kept = [
        tuple(space.config(int(i)).values[name] for name in names)
        for i in every(space)[space.feasible(every(space))]
    ]
    tiled = [
        (first[1], by, kind, (24 // inner, inner))
        for by, kind, inner in itertools.product([2, 4, 8], "xy", [1, 2, 3, 4, 6, 8, 12, 24])
    ]
    assert sorted(kept) == sorted([(first[0], 4, "x", (4, 6)), *tiled])
    refused = structures.refusal({"way": first[0], "by": 2})
    assert refused == "by has its default unless its condition holds"


def test_a_condition_of_a_knob_that_is_none_is_refused() -> None:
    for condition in ("tiled", 3, None):
        with pytest.raises(UsageError, match="expected a condition on knobs"):
            found(lambda cfg, stage, i, c=condition: cfg.define_knob("a", [1, 2], when=c))  # type: ignore[misc]
