"""Ways of using knobs that tracing may not follow: traced rightly, or run one by one with a line.

Each body is a template's; `# here` marks the line that the warning has to name.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import inspect
import itertools
import json
import math
import numbers
import pickle
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import te
from autotune.lowering.finalise import analyse
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.target import Target
from autotune.trace.explore import explore
from autotune.trace.template_knobs import Knobs
from autotune.trace.tracer import Structures, TracingWarning
from autotune.trace.value_sources import ConcreteValues, KnobTable

Body = Callable[[Any, Any, Any], object]
KEPT: dict[str, Any] = {}
COUNTS = itertools.count()
COIN = random.Random()

# -- what is traced ---------------------------------------------------------------------------


def asks_isinstance(a: Any, stage: Any, i: Any) -> None:
    if isinstance(a, int) and isinstance(a, numbers.Integral) and not isinstance(a, (str, float)):
        stage.split(i, factor=a)


def asks_whether_a_condition_is_one(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=2 if isinstance(a > 2, bool) and a > 2 else 3)


def matches(a: Any, stage: Any, i: Any) -> None:
    match a:
        case 1 | 2:
            stage.split(i, factor=5)
        case int(size):
            stage.split(i, factor=size)


def copies(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=copy.deepcopy([copy.copy(a)])[0])


def takes_bits(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=a.bit_length() + a.numerator + (a << 1))


def indexes(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=[7, 6, 5, 4, 3][a] + len("x" * a) + len(range(a)))


def formats_as_number(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=len(f"{int(a)}") + int(hex(a), 16))


def makes_arrays(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=int(np.zeros(a).size) + np.prod(np.array([a, 2], dtype=object)))


def recurses(a: Any, stage: Any, i: Any) -> None:
    def halvings(x: Any) -> int:
        return 0 if x <= 1 else 1 + halvings(x // 2)

    stage.split(i, factor=halvings(a) + 1)


def sorts(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=sorted([a, 3, 2])[1] + sum([a, 1]) + max(a, 2) + (a in [1, 3]))


def takes_roots(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=1 + int(a**0.5) + math.isqrt(a) + math.gcd(a, 4) + math.floor(a))


def keeps_state(a: Any, stage: Any, i: Any) -> None:
    KEPT["calls"] = KEPT.get("calls", 0) + 1
    stage.split(i, factor=a)


def loops(a: Any, stage: Any, i: Any) -> None:
    while a > 1:
        i, _ = stage.split(i, factor=2)
        a = a // 2


# -- what defeats tracing ---------------------------------------------------------------------


def names_a_tensor(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=len(f"B_{a}"))  # here: text


def makes_a_text(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=1 + ["1", "2"].count(str(a)))  # here: text


def looks_up(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor={1: 4, 2: 6}.get(a, 3))  # here: hash


def caches(a: Any, stage: Any, i: Any) -> None:
    factor = functools.lru_cache(lambda x: x + 1)
    stage.split(i, factor=factor(a))  # here: hash


def freezes(a: Any, stage: Any, i: Any) -> None:
    @dataclasses.dataclass(frozen=True)
    class Tile:
        size: Any

    stage.split(i, factor=len({Tile(a), Tile(2)}))  # here: hash


def makes_a_float(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=round(float(a) * 1.5))  # here: float


def divides(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=math.ceil(a / 2))  # here: divided


def scales(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=int(a * 1.5))  # here: combined with the float


def takes_logarithms(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=1 + int(math.log2(a)))  # here: float


def asks_numpy(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=1 + int(np.log2(a)))  # here: TypeError


def takes_maxima_by_numpy(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=int(np.maximum(a, 2)))  # here: TypeError


def writes_json(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=len(json.dumps({"a": a})))  # here: TypeError


def pickles(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=pickle.loads(pickle.dumps(a)))  # here: pickled


def reads_literals(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=ast.literal_eval(f"{a:d}"))  # here: text


def prints(a: Any, stage: Any, i: Any) -> None:
    print("the knob is", a)  # here: text
    stage.split(i, factor=a)


def asks_type(a: Any, stage: Any, i: Any) -> None:
    if type(a) is int:  # here: another schedule
        stage.split(i, factor=a)


def chooses_by_type_in_one_line(a: Any, stage: Any, i: Any) -> None:
    size = a + 1
    stage.split(i, factor=size if type(a) is int else 2)  # here: another schedule


def reads_repr(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=1 + len(repr(a)))  # here: another schedule


def catches_what_is_refused(a: Any, stage: Any, i: Any) -> None:
    try:
        size = {1: 4, 2: 6, 3: 5, 4: 5}[a]  # here: hash
    except Exception:
        size = 4
    stage.split(i, factor=size)


def never_ends(a: Any, stage: Any, i: Any) -> None:
    rounds = 0
    while rounds < a * 500:  # here: more than 1000 decisions
        rounds += 1
    stage.split(i, factor=1 + rounds)


def keeps_a_symbol(a: Any, stage: Any, i: Any) -> None:
    first = KEPT.setdefault("knob", a)
    if first > 2:
        stage.split(i, factor=2)
    elif a > 3:
        stage.split(i, factor=3)


def throws_dice(a: Any, stage: Any, i: Any) -> None:
    sides = a + 4
    stage.split(i, factor=random.randrange(10**6) + sides)  # here: not do the same twice


def tosses_a_coin(a: Any, stage: Any, i: Any) -> None:
    loops = stage.split(i, factor=a)
    if COIN.random() < 0.5:  # here: not do the same twice
        stage.reorder(*reversed(loops))


def reads_the_clock(a: Any, stage: Any, i: Any) -> None:
    now = time.perf_counter_ns()  # here: not do the same twice
    stage.split(i, factor=1 + now % 10**6)


def counts_calls(a: Any, stage: Any, i: Any) -> None:
    stage.split(i, factor=next(COUNTS) + 1)  # here: not do the same twice


TRACED: list[Body] = [
    *(asks_isinstance, asks_whether_a_condition_is_one, matches, copies, takes_bits, indexes),
    *(formats_as_number, makes_arrays, recurses, sorts, takes_roots, keeps_state, loops),
]
DEFEATED: list[Body] = [
    *(names_a_tensor, makes_a_text, looks_up, caches, freezes, makes_a_float, divides, scales),
    *(takes_logarithms, asks_numpy, takes_maxima_by_numpy, writes_json, pickles, reads_literals),
    *(prints, asks_type, chooses_by_type_in_one_line, reads_repr, catches_what_is_refused),
    *(never_ends, throws_dice, tosses_a_coin, reads_the_clock, counts_calls),
]
UNSTEADY = (throws_dice, tosses_a_coin, reads_the_clock, counts_calls)


def template_of(body: Body) -> Callable[[Knobs], Any]:
    def run(cfg: Knobs) -> Any:
        a = cfg.define_knob("a", [1, 2, 3, 4])
        source = te.placeholder((24,), "float32", name="A")
        b = te.compute((24,), lambda i: source[i] + 1, name="B")
        s = te.create_schedule(b.op)
        body(a, s[b], s[b].op.axis[0])
        return s, [source, b]

    return run


def explored(body: Body) -> tuple[Structures, list[str]]:
    """Return the structures of a template, and the warnings that tracing it gave."""
    KEPT.clear()
    COIN.seed(1)
    structures = Structures("t", template_of(body), Target.of("llvm"), __file__)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        explore(structures)
        for a in (1, 2, 3, 4):
            structures.instantiate({"a": a})
    assert all(issubclass(warning.category, TracingWarning) for warning in caught)
    return structures, [str(warning.message) for warning in caught]


def assert_as_plain_numbers(structures: Structures, body: Body) -> None:
    for a in (1, 2, 3, 4):
        cfg = Knobs(ConcreteValues(KnobTable("t"), {"a": a}), structures.target)
        plain = analyse(lower_schedule(*template_of(body)(cfg)))
        assert str(structures.instantiate({"a": a})) == str(plain)


@pytest.mark.parametrize("body", TRACED, ids=lambda body: body.__name__)
def test_what_symbols_can_stand_for_is_traced_and_gives_what_numbers_give(body: Body) -> None:
    structures, told = explored(body)
    assert (structures.untraceable, told) == ("", [])
    assert_as_plain_numbers(structures, body)


@pytest.mark.parametrize("body", DEFEATED, ids=lambda body: body.__name__)
def test_what_defeats_tracing_is_told_once_with_its_line_and_the_reason(body: Body) -> None:
    lines, first = inspect.getsourcelines(body)
    ((number, words),) = [
        (first + n, line.split("# here: ")[1].strip())
        for n, line in enumerate(lines)
        if "# here: " in line
    ]
    structures, told = explored(body)
    (line,) = told
    assert line.endswith(f"[{__file__}:{number}]"), line
    assert words in line
    assert "\n" not in line
    assert line.startswith("template 't' cannot be traced")
    if body not in UNSTEADY:
        assert_as_plain_numbers(structures, body)


def test_a_symbol_that_a_template_keeps_for_its_next_run_refuses_that_run() -> None:
    KEPT.clear()
    structures = Structures("t", template_of(keeps_a_symbol), Target.of("llvm"), __file__)
    line = inspect.getsourcelines(keeps_a_symbol)[1] + 2
    with pytest.warns(TracingWarning, match="an earlier run has kept") as caught:
        explore(structures)
    assert [str(warning.message).endswith(f":{line}]") for warning in caught] == [True]
    assert "an earlier run has kept" in structures.refusal({"a": 4})
