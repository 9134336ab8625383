"""Loops of contractions visit the valid index sets, with tight bounds and no guard in vain."""

from __future__ import annotations

import collections
import random
from typing import Any

import numpy as np
import pytest
from support.tile_contractions import random_case
from support.tile_programs import PROGRAMS

from autotune.errors import TileError
from autotune.tile import bind, parse
from autotune.tile.binding.bound_program import Contract, Program
from autotune.tile.index_sets.index_conditions import AtLeast, Divides
from autotune.tile.to_te.contraction_loops import Loops, loops


def contracts(program: Program) -> list[Contract]:
    return [step for step in program.steps if isinstance(step, Contract)]


def program_of(code: str, *shapes: tuple[int, ...]) -> Program:
    function = parse(code)
    names = (i.name.text for i in function.inputs)
    return bind(function, dict(zip(names, shapes, strict=True)))


def loops_of(code: str, *shapes: tuple[int, ...]) -> Loops:
    return loops(contracts(program_of(code, *shapes))[-1])


def visited(found: Loops, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return every point of the loops, guards not regarded: one array of values per name."""
    ends = [(0, size - 1) for size in shape] + [(r.low, r.high) for r in found.reduced]
    axes = np.meshgrid(*(np.arange(low, high + 1) for low, high in ends), indexing="ij")
    names = (*found.output, *(r.name for r in found.reduced))
    values = {name: axis.ravel() for name, axis in zip(names, axes, strict=True)}
    values.setdefault("", np.zeros(axes[0].size if axes else 1, np.int64))
    for q in found.quotients:
        number, d = q.form.at(values)
        assert d == 1
        values[q.name] = number // q.divisor
    return values


def allowed(conditions: Any, values: dict[str, Any]) -> Any:
    kept = np.ones(len(values[""]), bool)
    for condition in conditions:
        kept &= condition.holds(values)
    return kept


def places(forms: Any, values: dict[str, Any], kept: Any) -> list[Any]:
    found = []
    for form in forms:
        number, d = form.at(values)
        number = np.broadcast_to(number, kept.shape)[kept]
        assert (number % d == 0).all()
        found.append(number // d)
    return found


def check_loops(contract: Contract) -> Loops:
    """Hold the loops of a contraction against its index sets."""
    found, shape = loops(contract), contract.type.shape
    blocks = list(contract.domain.points())
    if found.empty:
        assert not blocks
        return found
    points = {
        name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]
    }
    every = np.ones(len(next(iter(points.values()))), bool)
    read = [form for r in contract.reads for form in r.indices]
    expected = collections.Counter(
        zip(*places([*contract.output, *read], points, every), every.tolist(), strict=True)
    )
    values = visited(found, shape)
    conditions = [*found.solved, *found.guards]
    kept = allowed(conditions, values)
    own = [values[name][kept] for name in found.output]
    reads = places([form for forms in found.reads for form in forms], values, kept)
    ones = [True] * int(kept.sum())
    assert collections.Counter(zip(*own, *reads, ones, strict=True)) == expected
    for guard in found.guards:
        others = [c for c in conditions if c is not guard]
        assert allowed(others, values).sum() > kept.sum(), f"{guard} is implied"
    for r in found.reduced:
        if not r.name.startswith("r") and values[r.name][kept].size:
            assert (values[r.name][kept].min(), values[r.name][kept].max()) == (r.low, r.high)
    if found.written is not None:
        elements = {
            name: axis.ravel()
            for name, axis in zip(found.output, np.indices(shape), strict=True)
        }
        elements[""] = np.zeros(int(np.prod(shape)), np.int64)
        says = allowed(found.written, elements)
        assert says.sum() == len({place[: len(shape)] for place in expected})
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_of_programs_visit_their_index_sets(name: str) -> None:
    program = PROGRAMS[name]
    for shapes in program.cases:
        for contract in contracts(program_of(program.code, *shapes)):
            check_loops(contract)


def compare(seeds: range) -> collections.Counter[str]:
    """Check loops of random contractions; return how many had what."""
    seen: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        case = random_case(random.Random(seed))
        try:
            program = program_of(case.code, *case.shapes)
        except TileError:
            continue
        found = check_loops(contracts(program)[0])
        seen["all"] += 1
        for what in ("reduced", "quotients", "solved", "guards", "empty"):
            seen[what] += bool(getattr(found, what))
        seen["unknown"] += found.written is None
    return seen


def test_loops_of_random_contractions_visit_their_index_sets() -> None:
    seen = compare(range(5000, 5150))
    assert seen["all"] > 100
    assert min(seen.values()) > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_loops_of_many_random_contractions_visit_their_index_sets() -> None:
    assert compare(range(20000, 25000))["all"] > 3000


def test_a_matrix_product_is_three_plain_loops() -> None:
    found = loops_of(PROGRAMS["matmul"].code, (4, 6), (6, 8))
    assert found.output == ("i", "j")
    assert [(r.name, r.low, r.high) for r in found.reduced] == [("k", 0, 5)]
    assert [[str(form) for form in forms] for forms in found.reads] == [["i", "k"], ["k", "j"]]
    assert (found.guards, found.solved, found.written) == ((), (), ())


def test_groups_are_quotients_and_not_searched_for() -> None:
    program = PROGRAMS["dilated and grouped convolution"]
    found = loops_of(program.code, *program.cases[0])
    assert [(q.name, str(q.form), q.divisor) for q in found.quotients] == [("q0", "o3", 3)]
    assert [r.name for r in found.reduced] == ["i", "j", "ci"]
    assert found.guards == ()


def test_only_the_edges_of_a_padded_window_are_guarded() -> None:
    program = PROGRAMS["padded and strided convolution"]
    found = loops_of(program.code, *program.cases[0])
    # 6 rows: the last window ends inside; 5 columns: it does not.
    assert [str(g.form) for g in found.guards] == [
        "2 * x + i - 1", "2 * y + j - 1", "-2 * y - j + 5"
    ]  # fmt: skip


def test_an_index_that_ranges_over_everything_is_replaced_by_what_is_read() -> None:
    found = loops_of("function (I[N]) -> (O) { O[i: N / 2] = >(I[2 * i + j]); }", (7,))
    assert [(r.low, r.high) for r in found.reduced] == [(0, 6)]
    assert found.guards == ()


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ("O[i: N] = +(I[i]);", ()),
        ("O[i: N + 1] = +(I[i]);", ("-i + 4 >= 0",)),
        ("O[2 * i: N] = +(I[i]);", ("o0 % 2",)),
        ("O[i, i: N, N] = +(I[i]);", ("o1 - i % 0",)),
        ("O[i, 0: N, 1] = +(I[i]);", ()),
        ("O[i: N] = +(I[i + 9]);", ("-1 >= 0",)),
        ("O[i: N] = +(I[2 * i + j]), j < 2;", ("-i + 2 >= 0",)),
    ],
)
def test_which_elements_are_written(output: str, written: tuple[str, ...]) -> None:
    found = loops_of(f"function (I[N]) -> (O) {{ {output} }}", (5,)).written
    assert found is not None
    texts = []
    for condition in found:
        assert isinstance(condition, (AtLeast, Divides))
        sign = ">= 0" if isinstance(condition, AtLeast) else f"% {condition.modulus}"
        texts.append(f"{condition.form} {sign}")
    assert tuple(texts) == written
