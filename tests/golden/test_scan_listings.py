"""Listings of scans: the files are those of the tutorial, character by character."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.scans import ColumnSums, TwoStages, TwoStates
from support.verify import verify

import autotune

PROGRAMS = {
    "scan_column_sums": lambda: ColumnSums().bind(),
    "scan_two_stages": TwoStages,
    "scan_two_states": TwoStates,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_listing_is_the_tutorial_s(name: str, golden: Callable[[str, str], None]) -> None:
    program = PROGRAMS[name]()
    listing = verify(autotune.lower(program.s, program.tensors, simple_mode=True))
    golden(f"listings/{name}.txt", str(listing))
