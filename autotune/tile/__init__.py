"""The Tile language: parse, check, bind, evaluate, differentiate and compile functions of tensors.

In: Tile code as text. Out: a callable, a gradient, or tensor expressions with a schedule. Read
`syntax/syntax_tree.py` first; docs/tile.md describes the language.
"""

from __future__ import annotations

from autotune.tile.binding.bind_function import bind
from autotune.tile.binding.bound_program import Program
from autotune.tile.binding.given_shapes import shapes_of
from autotune.tile.check.check_function import check
from autotune.tile.compiled_tile import CompiledTile, compile
from autotune.tile.evaluation.reference_evaluator import evaluate
from autotune.tile.gradient.reverse_mode import gradient
from autotune.tile.syntax.parser import parse
from autotune.tile.syntax.syntax_tree import Function
from autotune.tile.syntax.unparser import to_code
