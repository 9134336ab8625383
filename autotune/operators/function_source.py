"""The text of a function that stands in no file: what a worker process runs to have it, too.

A function of a notebook, of an interactive session, or inside of another function is written out,
and with it what it uses: imports of modules and of what is defined in them, other such functions,
numbers and texts. Nothing is pickled.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import symtable
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from autotune.errors import UsageError
from autotune.template import Template


def self_contained(template: Template) -> str:
    """Return the text of a module in which a template has the name of its function.

    Raises
    ------
    UsageError
        If the text of a function is not known, or it uses an object that no text can give.
    """
    writer = _Writer()
    writer.add_function(template.function)
    extras = (template.reference, template.flops, template.accumulator, template.intermediate,
              template.inputs)  # fmt: skip
    if any(extra is not None for extra in extras) and not writer.is_decorated(template.function):
        raise UsageError(
            f"template {template.name!r} stands in no file: write @template(...) above its "
            "function, so that worker processes get its reference, too"
        )
    future = template.function.__code__.co_flags & __future__.annotations.compiler_flag
    head = ["from __future__ import annotations"] if future else []
    return "\n".join([*head, *writer.lines, ""])


class _Writer:
    """Collects the lines of a module: each name after those that its definition uses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, int] = {}  # What is defined, and the identity of its value.
        self._decorated: set[Callable[..., Any]] = set()

    def is_decorated(self, function: Callable[..., Any]) -> bool:
        """Whether the text of an added function begins with a decorator."""
        return function in self._decorated

    def add_function(self, function: Callable[..., Any]) -> None:
        """Add a function and what it uses."""
        name = function.__name__
        if not self._is_new(name, function):
            return
        text = _text_of(function)
        (tree,) = ast.parse(text).body
        if not isinstance(tree, ast.FunctionDef):
            raise UsageError(f"function {name!r} is a lambda: define it with def")
        if tree.decorator_list:
            self._decorated.add(function)
        known = _variables(function)
        for own in sorted(_used(text) & known.keys() - {name}):
            self._add(own, known[own], name)
        self.lines.append(text.rstrip())

    def _add(self, name: str, value: Any, user: str) -> None:
        """Add the definition of a name that a function uses."""
        function = value.function if isinstance(value, Template) else value
        home = _home(function)
        if isinstance(value, ModuleType):
            self._define(name, value, f"import {value.__name__} as {name}")
        elif home is not None:
            self._define(name, value, f"from {home} import {function.__qualname__} as {name}")
        elif isinstance(function, FunctionType):
            self.add_function(function)
            if function.__name__ != name:
                self._define(name, value, f"{name} = {function.__name__}")
        else:
            self._define(name, value, f"{name} = {_literal(name, value, user)}")

    def _define(self, name: str, value: object, line: str) -> None:
        if self._is_new(name, value):
            self.lines.append(line)

    def _is_new(self, name: str, value: object) -> bool:
        """Whether a name is not defined yet."""
        known = self._names.get(name)
        if known not in (None, id(value)):
            raise UsageError(
                f"two functions use different objects of the name {name!r}: worker processes can "
                "be given one; rename the other"
            )
        self._names[name] = id(value)
        return known is None


def _text_of(function: Callable[..., Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise UsageError(
            f"Python knows no text of function {function.__name__!r}: write it in a file or a cell "
            "of a notebook, so that worker processes can run it, too"
        ) from None


def _used(text: str) -> set[str]:
    """Return the names that a text uses and does not define."""
    whole = symtable.symtable(text, "function", "exec")
    found, tables = set(), [whole]
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        symbols = (s for s in table.get_symbols() if s.is_referenced())
        found |= {s.get_name() for s in symbols if table is whole or s.is_global()}
    return found


def _variables(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what the names outside of a function mean to it."""
    assert isinstance(function, FunctionType)
    inside = inspect.getclosurevars(function).nonlocals
    return {**function.__globals__, **inside}


def _home(value: object) -> str | None:
    """Return the module that a function or class can be imported from; None if there is none."""
    name, inside = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    module = sys.modules.get(name or "")
    if name in (None, "__main__") or module is None or not inside.isidentifier():
        return None
    is_file = getattr(module, "__spec__", None) is not None
    return name if is_file and hasattr(module, inside) else None


def _literal(name: str, value: object, user: str) -> str:
    """Return a value as Python writes it."""
    plain = value.item() if isinstance(value, np.generic) else value
    text = repr(plain)
    try:
        same = ast.literal_eval(text) == plain
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        same = False
    if same is not True:
        raise UsageError(
            f"function {user!r} uses {name!r}, of the type {type(value).__name__}, which worker "
            "processes cannot be given: make it inside of the function, or write both in a file"
        )
    return text
