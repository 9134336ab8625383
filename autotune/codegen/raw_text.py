"""The text of an external kernel as its compiler gets it: knobs are macros before the text."""

from __future__ import annotations

from autotune.errors import UsageError
from autotune.ir.expr import Const, Expr
from autotune.ir.stmt import Raw


def raw_text(raw: Raw) -> str:
    """Return a text after its macros; errors of the compiler have the text's line numbers."""
    values = map(constant_value, raw.values)
    macros = "".join(f"#define {n} {v}\n" for n, v in zip(raw.defines, values, strict=True))
    (before, line), lines = raw.given, raw.text.split("\n")
    return "\n".join([macros, *lines[:before], f'#line {line} "text"', *lines[before:]])


def constant_value(expr: Expr) -> int:
    """Return the value of an expression; UsageError if it depends on sizes of a call."""
    if not isinstance(expr, Const):
        raise UsageError(f"`{expr}` depends on more than knobs and the template's arguments")
    return int(expr.value)
