"""Whatever text Tile is given, it ends in a program or in an error that points into the text."""

from __future__ import annotations

import pytest
from support.tile_fuzz import fuzz


@pytest.mark.parametrize("count", [600, pytest.param(2000, marks=pytest.mark.slow)])
def test_random_texts_end_in_a_program_or_in_a_tile_error(count: int) -> None:
    outcomes = fuzz(count, seed=1)
    assert set(outcomes) == {"not parsed", "not checked", "not bound", "accepted"}
    assert min(outcomes.values()) > count // 100


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_random_texts_end_in_a_program_or_in_a_tile_error() -> None:
    assert sum(fuzz(1_000_000, seed=0).values()) == 1_000_000
