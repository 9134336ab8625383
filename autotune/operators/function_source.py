"""The text of a function: what a worker process runs to have it, too.

A function of a script, of a notebook, or inside of another function is written out, and with it
what it uses: imports of modules and of what is defined in them, other functions, numbers and texts,
as they are now. Nothing is pickled.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from autotune.errors import UsageError
from autotune.system.function_text import text_of, used_names, variables_of, written_function
from autotune.template import Template

_LEFT_OUT = "_left_out_of_text"

Decorator = TypeVar("Decorator", bound=Callable[..., Any])


def left_out_of_text(decorator: Decorator) -> Decorator:
    """Mark a decorator that texts of functions leave out: workers do not need what it does."""
    setattr(decorator, _LEFT_OUT, True)
    return decorator


def self_contained(template: Template) -> str:
    """Return the text of a module in which a template has the name of its function.

    Raises
    ------
    UsageError
        If the text of a function is not known, or it uses an object that no text can give.
    """
    writer = _Writer()
    assert isinstance(template.function, FunctionType)
    writer.add_function(template.function)
    extras = (template.reference, template.flops, template.accumulator, template.intermediate,
              template.inputs, template.accept)  # fmt: skip
    if any(extra is not None for extra in extras) and not writer.is_decorated(template.function):
        raise UsageError(
            f"template {template.name!r} is made by a call: write @template(...) above its "
            "function, so that worker processes get its reference, too"
        )
    future = template.function.__code__.co_flags & __future__.annotations.compiler_flag
    head = ["from __future__ import annotations"] if future else []
    return "\n".join([*head, *writer.lines, ""])


def text_with_what_it_uses(function: FunctionType) -> str:
    """Return the text of a module in which a function has its name.

    Raises
    ------
    UsageError
        As `self_contained`.
    """
    writer = _Writer()
    writer.add_function(function)
    return "\n".join([*writer.lines, ""])


class _Writer:
    """Collects the lines of a module: each name after those that its definition uses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[str, int] = {}  # What is defined, and the identity of its value.
        self._decorated: set[Callable[..., Any]] = set()
        self._undecorated: set[Callable[..., Any]] = set()  # Whose decorator is left out.

    def is_decorated(self, function: Callable[..., Any]) -> bool:
        """Whether the text of an added function begins with a decorator."""
        return function in self._decorated

    def add_function(self, function: FunctionType) -> None:
        """Add a function and what it uses."""
        name = function.__name__
        if not self._is_new(name, function):
            return
        text = _text_of(function)
        tree = _definition(text, name)
        known = variables_of(function)
        left_out = [node for node in tree.decorator_list if _is_left_out(node, known)]
        if len(left_out) < len(tree.decorator_list):
            self._decorated.add(function)
        if left_out:
            self._undecorated.add(function)
            text = _without(text, tree, left_out)
        above, inside = used_names(text)
        for own in sorted((above | inside) - {name}):
            if own in known:
                self._add(own, known[own], name)
            elif own in above and not hasattr(builtins, own):
                raise UsageError(
                    f"function {name!r} uses {own!r} in a decorator or as a default: worker "
                    "processes do not know this variable of the function around it; use it inside "
                    "of the function, or make it global"
                )
        self.lines.append(text.rstrip())

    def _add(self, name: str, value: Any, user: str) -> None:
        """Add the definition of a name that a function uses."""
        function = value.function if isinstance(value, Template) else value
        inside = written_function(function)
        home = _home(function)
        if isinstance(value, ModuleType):
            self._define(name, value, f"import {value.__name__} as {name}")
        elif home is not None:
            self._define(name, value, f"from {home} import {function.__qualname__} as {name}")
        elif inside is not None:
            self.add_function(inside)
            if inside is not function and inside in self._undecorated:
                raise UsageError(
                    f"{name!r} tunes itself when it is called, and cannot be used inside of a "
                    "function that is tuned: use what it decorates"
                )
            if inside is not function and inside not in self._decorated:
                raise UsageError(
                    f"{name!r} is made of a function by a call, which worker processes cannot be "
                    "given: write what makes it as a decorator above the function"
                )
            if inside.__name__ != name:
                self._define(name, value, f"{name} = {inside.__name__}")
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
    """Return the text of a function, see `text_of`; UsageError if it is not known."""
    text = text_of(function)
    if text is None:
        raise UsageError(
            f"the source of function {function.__name__!r} is not known: write it in a file or a "
            "cell of a notebook, so that worker processes can run it, too"
        )
    return text


def _definition(text: str, name: str) -> ast.FunctionDef:
    """Return the definition in the text of a function."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        body = []  # It is in the middle of a line, or its file has changed.
    if body and isinstance(body[0], ast.If):
        body = body[0].body
    tree = body[0] if len(body) == 1 else None
    if not isinstance(tree, ast.FunctionDef) or tree.name != name:
        raise UsageError(
            f"the text of function {name!r} is no definition: it is a lambda, or its file has "
            "changed since it was loaded; define it with def, or load it again"
        )
    return tree


def _without(text: str, tree: ast.FunctionDef, left_out: Sequence[ast.expr]) -> str:
    """Return the text of a function without some of its decorators."""
    lines = text.splitlines(keepends=True)
    begins = [node.lineno - 1 for node in tree.decorator_list]
    for n, begin in enumerate(begins):
        while not lines[begin].lstrip().startswith("@"):  # it stands in brackets
            begin -= 1
        begins[n] = begin
    ends = [*begins[1:], tree.lineno - 1]
    for node, begin, end in reversed(list(zip(tree.decorator_list, begins, ends, strict=True))):
        if node in left_out:
            del lines[begin:end]
    return "".join(lines)


def _is_left_out(decorator: ast.expr, known: Mapping[str, Any]) -> bool:
    """Whether a decorator is marked by `left_out_of_text`."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names, node = [node.attr, *names], node.value
    found = known.get(node.id) if isinstance(node, ast.Name) else None
    for name in names:
        found = getattr(found, name, None)
    if isinstance(found, functools.partial):  # a decorator with its options, under a name
        found = found.func
    return getattr(found, _LEFT_OUT, False) is True


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
    try:
        return _written(value)
    except (TypeError, RecursionError):
        raise UsageError(
            f"function {user!r} uses {name!r}, of the type {type(value).__name__}, which worker "
            "processes cannot be given: make it inside of the function"
        ) from None


_COLLECTIONS = (tuple, list, set, frozenset)


def _written(value: object) -> str:
    """Return plain data as Python writes it; TypeError if it is something else."""
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) is float and not math.isfinite(plain):
        return f"float({str(plain)!r})"
    if isinstance(plain, (tuple, list, set, frozenset)) and type(plain) in _COLLECTIONS:
        return f"{type(plain).__name__}([{', '.join(map(_written, plain))}])"
    if isinstance(plain, dict) and type(plain) is dict:
        return f"{{{', '.join(f'{_written(k)}: {_written(v)}' for k, v in plain.items())}}}"
    if plain is None or type(plain) in (bool, int, float, complex, str, bytes):
        return repr(plain)
    raise TypeError(type(value).__name__)
