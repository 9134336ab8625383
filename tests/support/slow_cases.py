"""Leaves cases of a test to the slow tests: those that show once more what the others show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def slow(case: Any) -> Any:
    """Return a case, or the values of several parameters, as one of the slow tests."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


def slow_if(is_slow: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Return cases of which some are slow tests."""
    return [slow(case) if is_slow(case) else case for case in cases]


def slow_names(names: Collection[str], cases: Iterable[str]) -> list[Any]:
    """Return the names of cases, of which some are slow tests."""
    assert {*names} <= {*cases}, "a name is not among the cases"
    return slow_if(names.__contains__, cases)


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases of which all but each `step`-th one, from the first on, are slow tests."""
    return [slow(case) if number % step else case for number, case in enumerate(cases)]
