"""Whatever text Tile is given, it ends in a program or in an error that points into the text."""

from __future__ import annotations

import pytest
from support.tile_fuzz import fuzz


def test_random_texts_end_in_a_program_or_in_a_tile_error() -> None:
    outcomes = fuzz(600, seed=1)
    assert set(outcomes) == {"not parsed", "not checked", "not bound", "accepted"}
    assert min(outcomes.values()) > 5


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_random_texts_end_in_a_program_or_in_a_tile_error() -> None:
    assert sum(fuzz(1_000_000, seed=0).values()) == 1_000_000
