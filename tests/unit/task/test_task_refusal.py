"""What a task refuses that its space does not know: of templates that cannot be traced."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from autotune import te
from autotune.builder import build_task
from autotune.task.task import Task
from autotune.template import Knobs, template
from autotune.trace import explore as exploring
from search_spaces import SpaceError


@template("texts", target="llvm", reference=lambda a: a + 1)
def texts(cfg: Knobs, least: int = 2) -> tuple[Any, list[Any]]:
    """B = A + 1, with a stage named by a knob, which defeats tracing."""
    a = cfg.define_knob("a", [1, 2, 3, 4])
    b = cfg.define_knob("b", [1, 2])
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] + 1, name=f"B{a}")
    s = te.create_schedule(B.op)
    cfg.add_constraint(a * b >= least, "large enough")
    if a == 3:
        raise ValueError("not three")
    s[B].split(B.op.axis[0], factor=a * b)
    return s, [A, B]


def task(**args: Any) -> Task:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Task(texts, args)
        _ = found.space
    return found


def test_a_configuration_that_the_template_refuses_is_known_before_it_is_built() -> None:
    own = task()
    found = [own.refusal(index) for index in range(len(own.space))]
    assert own.untraceable
    assert [bool(message) for message in found] == [1, 0, 0, 0, 1, 1, 0, 0]
    assert found[0] == "large enough"
    assert found[4].startswith("template: ValueError: not three (")


def test_the_default_is_the_nearest_configuration_that_is_not_refused() -> None:
    own = task(least=5)
    assert own.space.config(own.default_index).values == {"a": 4, "b": 2}


@pytest.mark.parametrize("least", [1, 2, 5])
def test_the_values_of_the_default_are_those_of_its_index(least: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = Task(texts, {"least": least})
        values = own.default_values
    assert {"a": 1, "b": 1, **values} == own.space.config(own.default_index).values


def test_the_default_of_a_legal_template_is_built_without_exploring_its_space() -> None:
    own = Task.from_reference("matmul", {"m": 8, "n": 16, "k": 4})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built = build_task(own)
    assert "space" not in vars(own)
    assert built.config is not None
    assert built.config.index == own.default_index
    assert str(built.function) == str(own.prepared_of(built.config.values).main)


def test_a_space_in_which_nothing_is_legal_names_the_rules_with_what_they_reject() -> None:
    with pytest.raises(SpaceError, match=r"none of the 8 .* large enough rejects 8"):
        _ = task(least=100).default_index
    with pytest.raises(SpaceError, match=r"none of the 8 .* large enough rejects 8"):
        _ = task(least=100).default_values


@template("late", target="llvm", reference=lambda a: a + 1)
def late(cfg: Knobs) -> tuple[Any, list[Any]]:
    """B = A + 1, with a knob that one configuration in a million defines."""
    a, b = (cfg.define_knob(name, list(range(1, 1001))) for name in "ab")
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    if a + b == 2000:
        s[B].split(B.op.axis[0], factor=cfg.define_knob("seldom", [5, 4]))
    return s, [A, B]


def test_a_knob_that_shows_too_late_keeps_its_default_and_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exploring, "MAX_CLASSIFIED", 1000)
    monkeypatch.setattr(exploring, "SAMPLE", 100)
    own = Task(late, {})
    last = len(own.space) - 1
    assert [own.refusal(index) for index in (0, last, last)] == ["", "", ""]
    (record,) = caplog.records
    assert "knob 'seldom' is defined only in configurations" in record.getMessage()
    assert "keeps its default, 5" in record.getMessage()
    assert "(i.outer, 0, 5)" in str(own.function(last))
