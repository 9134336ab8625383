"""The Tile language: parse, check, bind, evaluate, differentiate and compile functions of tensors.

docs/tile.md describes the language.
"""

from __future__ import annotations

from autotune.tile.bind import bind
from autotune.tile.check import check
from autotune.tile.compiled import CompiledTile, compile
from autotune.tile.gradient import gradient
from autotune.tile.header import shapes_of
from autotune.tile.meaning import evaluate
from autotune.tile.parse import parse
from autotune.tile.printer import to_code
from autotune.tile.program import Program
from autotune.tile.syntax import Function

__all__ = [
    "CompiledTile",
    "Function",
    "Program",
    "bind",
    "check",
    "compile",
    "evaluate",
    "gradient",
    "parse",
    "shapes_of",
    "to_code",
]
