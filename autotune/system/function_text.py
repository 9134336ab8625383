"""The source text of a function, and the names and values that it uses; nothing is pickled."""

from __future__ import annotations

import inspect
import symtable
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

# Where compilers of functions keep what was written: Python's convention, Numba's, Triton's.
_INSIDE = ("__wrapped__", "py_func", "fn")


def written_function(value: object) -> FunctionType | None:
    """Return the undecorated function behind an object; None if there is no Python function."""
    for _ in range(16):
        if isinstance(value, FunctionType):
            return value
        if isinstance(value, (ModuleType, type)):
            return None
        value = next((v for name in _INSIDE if (v := getattr(value, name, None)) is not None), None)
    return None


def text_of(function: Callable[..., Any]) -> str | None:
    """Return the text of a function; None if it is not known.

    An indented text is put under ``if True:``, so that it can be compiled.
    """
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    return f"if True:\n{text}" if text[:1].isspace() else text


def used_names(text: str) -> tuple[set[str], set[str]]:
    """Return the names that a text uses above the bodies of functions, and inside of them."""
    whole = symtable.symtable(text, "function", "exec")
    above = {s.get_name() for s in whole.get_symbols() if s.is_referenced()}
    inside, tables = set[str](), [*whole.get_children()]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        symbols = (s for s in table.get_symbols() if s.is_referenced() and s.is_global())
        inside |= {s.get_name() for s in symbols}
    return above, inside


def variables_of(function: FunctionType) -> dict[str, Any]:
    """Return what the names outside of a function mean to it."""
    inside = inspect.getclosurevars(function).nonlocals
    return {**function.__globals__, **inside}
