"""Symbolic knob values: what stays symbolic, what decides, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import te
from autotune.errors import TracingError, UsageError
from autotune.target import Target
from autotune.trace.symbolic_values import SymbolicBool, SymbolicInt
from autotune.trace.template_knobs import Knobs
from autotune.trace.value_sources import ConcreteValues, KnobTable, SymbolicValues


class Trace:
    """Two symbols, x in 2, 4, 8 and y in 0, 1, 3, guided by x = 4 and y = 3."""

    def __init__(self) -> None:
        self.source = SymbolicValues(KnobTable("t"), {"x": 4, "y": 3})
        self.cfg = Knobs(self.source, Target.of("llvm"))
        self.x: Any = self.cfg.define_knob("x", [2, 4, 8])
        self.y: Any = self.cfg.define_knob("y", [0, 1, 3])

    @property
    def decisions(self) -> list[tuple[str, int]]:
        return [(str(expr), outcome) for expr, outcome in self.source.decisions]


@pytest.fixture
def trace() -> Trace:
    return Trace()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda x, y: x + 1, "(x + 1)"),
        (lambda x, y: 12 - x * y, "(12 - x*y)"),
        (lambda x, y: (100 // x) % 7, "floormod(floordiv(100, x), 7)"),
        (lambda x, y: te.min(x, y), "min(x, y)"),
        (lambda x, y: te.max(3, y), "max(3, y)"),
        (lambda x, y: te.ceildiv(10, x), "floordiv(((10 + x) - 1), x)"),
        (lambda x, y: -x, "(0 - x)"),
        (lambda x, y: sum([x, y]), "(x + y)"),
        (lambda x, y: math.prod([x, y]), "x*y"),
        (lambda x, y: np.int64(3) * x, "3*x"),
        (lambda x, y: x * np.int64(3), "x*3"),
        (lambda x, y: divmod(x, 3)[1], "floormod(x, 3)"),
    ],
)
def test_arithmetic_stays_symbolic(trace: Trace, make: Callable[..., Any], text: str) -> None:
    result = make(trace.x, trace.y)
    assert isinstance(result, SymbolicInt)
    assert str(result.expr).replace(" * ", "*").replace("(x*y)", "x*y").strip() in (
        text, f"({text})"
    )
    assert trace.decisions == []
    assert int(result) == make(4, 3)


def test_a_branch_is_recorded_once_with_its_outcome(trace: Trace) -> None:
    assert trace.x * trace.y > 10
    assert not trace.x > 5
    assert trace.x * trace.y > 10
    assert trace.decisions == [("((x*y) > 10)", 1), ("(x > 5)", 0)]


def test_and_or_not_branch_one_after_the_other(trace: Trace) -> None:
    assert not (trace.x > 5 and trace.y > 1)
    assert trace.x == 4 or trace.y == 0
    assert trace.decisions == [("(x > 5)", 0), ("(x == 4)", 1)]


def test_what_the_ranges_of_knobs_decide_is_not_recorded(trace: Trace) -> None:
    assert trace.x < 100
    assert trace.y >= 0
    assert trace.decisions == []


def test_min_max_and_sorted_of_python_branch(trace: Trace) -> None:
    assert min(trace.x, trace.y) is trace.y
    assert sorted([trace.x, trace.y])[0] is trace.y
    assert trace.decisions == [("(y < x)", 1)]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: list(range(x)),
        lambda x: "abcdefghi"[x],
        lambda x: math.gcd(x, 6),
        lambda x: int(x),
        lambda x: x**2,
        lambda x: 1 << x,
        lambda x: x & 6,
        lambda x: [0] * x,
    ],
)
def test_asking_for_the_number_makes_a_trace_for_this_value(
    trace: Trace, use: Callable[[Any], Any]
) -> None:
    assert use(trace.x) == use(4)
    assert trace.decisions == [("x", 4)]
    assert trace.x < 7  # follows from x = 4
    assert trace.decisions == [("x", 4)]


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda x: hash(x), "int(knob) as the key"),
        (lambda x: {x: 1}, "int(knob) as the key"),
        (lambda x: str(x), "int(knob) in names"),
        (lambda x: f"A_{x}", "int(knob) in names"),
        (lambda x: f"{x:>3}", "int(knob) in names"),
        (lambda x: x / 2, "use //"),
        (lambda x: 2 / x, "use //"),
        (lambda x: float(x), "integers"),
        (lambda x: math.log2(x), "integers"),
        (lambda x: x * 0.5, "scale by integers"),
    ],
)
def test_text_hashing_and_floats_are_refused_with_advice(
    trace: Trace, use: Callable[[Any], Any], advice: str
) -> None:
    with pytest.raises(TracingError) as caught:
        use(trace.x)
    assert advice in str(caught.value)
    assert "`x`" in str(caught.value)


def test_division_by_a_knob_that_may_be_zero_decides_on_that() -> None:
    trace = Trace()
    assert str((12 // trace.y).expr) == "floordiv(12, y)"
    assert trace.decisions == [("(y == 0)", 0)]
    source = SymbolicValues(KnobTable("t"), {"y": 0})
    zero = Knobs(source, Target.of("llvm")).define_knob("y", [0, 1, 3])
    with pytest.raises(ZeroDivisionError):
        _ = 12 % zero
    assert [(str(e), v) for e, v in source.decisions] == [("(y == 0)", 1)]


def test_conditions_combine_without_branching(trace: Trace) -> None:
    both = (trace.x > 5) & (trace.y > 1)
    either = (trace.x > 5) | ~(trace.y > 1)
    assert isinstance(both, SymbolicBool)
    assert str(both.expr) == "((x > 5) && (y > 1))"
    assert str(either.expr) == "((x > 5) || !(y > 1))"
    assert trace.decisions == []
    assert not both
    assert len(trace.decisions) == 1


def test_a_knob_of_one_value_is_a_plain_number(trace: Trace) -> None:
    assert trace.cfg.define_knob("one", [7]) == 7
    assert type(trace.cfg["one"]) is int
    assert trace.decisions == []


def test_flags_texts_and_floats_are_decided_when_they_are_defined(trace: Trace) -> None:
    assert trace.cfg.define_knob("flag", [False, True]) is False
    assert trace.cfg.define_knob("word", ["a", "b"]) == "a"
    assert trace.cfg.define_knob("scale", [0.5, 1.5]) == 0.5
    assert trace.decisions == [("flag", 0), ("word", 0), ("scale (position)", 0)]


def test_annotations_and_orders_are_decided_when_they_are_read(trace: Trace) -> None:
    annotations = trace.cfg.define_annotate("ann", ["a", "b"])
    order = trace.cfg.define_reorder("order", ["a", "b", "c"])
    assert trace.decisions == []
    assert annotations.value == ("none", "none")
    assert order.value == (0, 1, 2)
    assert trace.decisions == [("ann", 0), ("order", 0)]


def test_a_split_gives_one_symbol_per_loop(trace: Trace) -> None:
    sizes = trace.cfg.define_split("tile", 64, 3)
    assert [str(size.expr) for size in sizes] == ["tile.0", "tile.1", "tile.2"]
    assert len(sizes) == 3
    assert int(sizes[-1]) == 4


def test_an_endless_loop_over_a_knob_ends_in_advice(trace: Trace) -> None:
    def never() -> None:
        n = trace.x
        while n != 3:
            n = (n + 2) % 8

    with pytest.raises(TracingError, match="loop over a knob does not end"):
        never()


def test_the_same_code_gets_plain_numbers_from_a_configuration() -> None:
    values = {"x": 8, "tile": [8, 4, 2], "order": (1, 0)}
    cfg = Knobs(ConcreteValues(KnobTable("t"), values), Target.of("llvm"))
    assert cfg.define_knob("x", [2, 4, 8]) == 8
    assert cfg.define_split("tile", 64, 3).size == (8, 4, 2)
    assert cfg.define_reorder("order", ["a", "b"]).value == (1, 0)
    assert cfg.define_knob("unnamed", [5, 6]) == 5  # its default
    assert cfg["x"] == 8
    assert "y" not in cfg
    with pytest.raises(UsageError, match="no knob 'y' is defined yet"):
        _ = cfg["y"]


@pytest.mark.parametrize("condition", ["yes", 3, None])
def test_a_constraint_must_be_a_condition(trace: Trace, condition: object) -> None:
    with pytest.raises(UsageError, match=r"expected a condition on knobs"):
        trace.cfg.add_constraint(condition, "rule")


def test_a_constraint_may_not_depend_on_anything_but_knobs(trace: Trace) -> None:
    with pytest.raises(UsageError, match="which is not a knob"):
        trace.cfg.add_constraint(te.var("n") < 4, "rule")
