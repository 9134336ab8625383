"""Warnings point at the line of the program that called, however deep the package is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autotune
from autotune import tile
from autotune.builder import build_task
from autotune.task.task import Task

ONES = np.ones(4, "float32")


def warned(call: Callable[[], object]) -> tuple[str, str]:
    """Return file and line that the one warning of a call points at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (warning,) = caught
    lines = Path(warning.filename).read_text().splitlines()
    return Path(warning.filename).name, lines[warning.lineno - 1].strip()


def compiled_tile() -> None:
    double = tile.compile("function (A[N]) -> (B) { B = A * 2; }", records=[])
    double(ONES)  # here the sizes are known


def built() -> None:
    autotune.build("matmul", {"m": 8, "n": 8, "k": 8})


def built_task() -> None:
    build_task(Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8}, "llvm"))


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (compiled_tile, "double(ONES)  # here the sizes are known"),
        (built, 'autotune.build("matmul", {"m": 8, "n": 8, "k": 8})'),
        (built_task, 'build_task(Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8}, "llvm"))'),
    ],
)
def test_a_warning_points_at_the_line_of_the_caller(call: Callable[[], None], line: str) -> None:
    assert warned(call) == (Path(__file__).name, line)
