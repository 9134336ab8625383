"""Restrictions of Kernel Tuner's calls: what is legal, in a list and in a space."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.kernel_tuner_problems import CHOICES, problem

from autotune.compat.kernel_tuner.problem import key_of
from autotune.compat.kernel_tuner.restrictions import (
    RestrictedTemplate,
    is_legal,
    restrictions_of,
    unknown,
)
from autotune.errors import UsageError
from autotune.task.task import Task

RESTRICTIONS = [
    ("a * b <= 8", lambda p: p["a"] * p["b"] <= 8),
    ("a % b == 0 and kind == 'x'", lambda p: p["a"] % p["b"] == 0 and p["kind"] == "x"),
    ("a / b == 1.5", lambda p: p["a"] / p["b"] == 1.5),
    ("not (a > 2 or on)", lambda p: not (p["a"] > 2 or p["on"])),
    ("1 < a <= b ** 2", lambda p: 1 < p["a"] <= p["b"] ** 2),
    ("a in (1, 4, 6) or b == 2", lambda p: p["a"] in (1, 4, 6) or p["b"] == 2),
    ("a not in [1, 2]", lambda p: p["a"] not in [1, 2]),
    ("max(a, b) == 4", lambda p: max(p["a"], p["b"]) == 4),
    ("on", lambda p: p["on"]),
    ("a - b", lambda p: p["a"] != p["b"]),
    ("a == 2 if on else b == 2", lambda p: (p["a"] if p["on"] else p["b"]) == 2),
]


def rows() -> list[dict[str, Any]]:
    return [dict(zip(CHOICES, row, strict=True)) for row in itertools.product(*CHOICES.values())]


def legal_in_space(
    given: Any, monkeypatch: pytest.MonkeyPatch, choices: dict[str, list[Any]] = CHOICES
) -> list[dict[str, Any]]:
    own = problem(parameters=choices)
    monkeypatch.setattr("autotune.compat.kernel_tuner.problem._read", lambda _: own)
    template = RestrictedTemplate.of(own, restrictions_of(given, list(choices)))
    task = Task(template, {"problem": "none"})
    space = task.space
    configs = (dict(space.config(i).values) for i in range(len(space)) if not task.refusal(i))
    return list(configs)


@pytest.mark.parametrize(("text", "meant"), RESTRICTIONS, ids=[text for text, _ in RESTRICTIONS])
@pytest.mark.filterwarnings("ignore:.*cannot be traced")
def test_a_restriction_as_text_or_function_leaves_what_it_says(
    text: str, meant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [row for row in rows() if meant(row)]
    assert 0 < len(expected) < len(rows())
    own = restrictions_of([text], list(CHOICES))
    assert [row for row in rows() if is_legal(own, row)] == expected
    by_key = sorted(map(key_of, expected))
    assert sorted(map(key_of, legal_in_space([text], monkeypatch))) == by_key
    assert sorted(map(key_of, legal_in_space(meant, monkeypatch))) == by_key


def test_functions_may_name_the_parameters_that_they_take() -> None:
    own = restrictions_of([lambda a, b: a > b, (lambda b: b > 1, ["b"])], list(CHOICES))
    legal = {(row["a"], row["b"]) for row in rows() if is_legal(own, row)}
    assert legal == {(a, b) for a in CHOICES["a"] for b in CHOICES["b"] if a > b > 1}


def test_what_is_divided_by_zero_is_not_legal() -> None:
    own = restrictions_of(["4 / (a - 1) > 1"], list(CHOICES))
    assert {row["a"] for row in rows() if is_legal(own, row)} == {2, 3, 4}


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("b == 0 or a % b == 0", [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1)]),
        ("b != 0 and a % b == 0", [(2, 1), (2, 2), (3, 1)]),
        ("not (b == 0 or a % b != 0)", [(2, 1), (2, 2), (3, 1)]),
        ("0 < b <= a % b + 1", [(2, 1), (3, 1), (3, 2)]),
        ("b < 1 or 4 / b > 2", [(2, 0), (2, 1), (3, 0), (3, 1)]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*cannot be traced")
def test_what_comes_after_a_part_that_decides_may_be_divided_by_zero(
    text: str, legal: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    choices: dict[str, list[Any]] = {"a": [2, 3], "b": [0, 1, 2]}
    own = restrictions_of([text], list(choices))
    pairs = itertools.product(*choices.values())
    assert [(a, b) for a, b in pairs if is_legal(own, {"a": a, "b": b})] == legal
    found = legal_in_space([text], monkeypatch, choices)
    assert sorted((row["a"], row["b"]) for row in found) == legal


def test_a_text_among_numbers_is_not_compared_if_a_part_before_decides() -> None:
    own = restrictions_of(["a == 'auto' or a > 2"], ["a"])
    assert [a for a in ("auto", 1, 3) if is_legal(own, {"a": a})] == ["auto", 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(lambda a: True, 3)], "restriction 1: 3 are no names of parameters"),
        ([(lambda a: True, ["z"])], r"restriction 1: \['z'\] are no names of parameters"),
        (["a.b == 1"], "Attribute is not allowed"),
        (["c == 1"], "there is no parameter 'c'"),
        (["__import__('os')"], "only min, max, abs can be called"),
        ([3], "restrictions are texts, functions"),
    ],
)
def test_other_restrictions_are_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        restrictions_of(given, list(CHOICES))


def test_what_is_known_is_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [row for n, row in enumerate(rows()) if n % 7 and row["a"] != 3]
    monkeypatch.setattr("autotune.compat.kernel_tuner.problem._read", lambda _: problem())
    template = RestrictedTemplate.of(problem(), [unknown(CHOICES, known)])
    task = Task(template, {"problem": "none"})
    left = {
        key_of(task.space.config(i).values) for i in range(len(task.space)) if not task.refusal(i)
    }
    assert left == {*map(key_of, rows())} - {*map(key_of, known)}
    assert not task.untraceable
