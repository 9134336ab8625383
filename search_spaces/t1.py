"""T1: the description of a tuning problem that auto-tuners share (TuningSchema, format T1).

Its parameters become knobs and its conditions constraints. Values and conditions are text of
Python there; they are parsed, and nothing is run. Read tolerantly, written as its schema says.
"""

from __future__ import annotations

import ast
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from search_spaces.constraints import Constraint
from search_spaces.expression import (
    Expression,
    check_expression,
    evaluate,
    names_of,
    parse_expression,
    shown,
)
from search_spaces.knob import MAX_VALUES, Knob, SpaceError
from search_spaces.knobs import ChoiceKnob
from search_spaces.space import Space

MAX_BYTES = 1 << 24  # Of a file; a larger one is no description of a problem.
_MAX_SAID = 300  # Characters of what is wrong with one.

_TYPES = {"int": int, "uint": int, "float": float, "bool": bool, "string": str}
_KERNEL = ("Language", "KernelName", "KernelFile", "GlobalSize", "LocalSize")
_SECTIONS = ("ConfigurationSpace", "KernelSpecification")
_WORDS = {"true": np.asarray(True), "false": np.asarray(False)}  # as JSON writes flags


@dataclass(frozen=True)
class TuningProblem:
    """What a T1 file describes.

    Parameters
    ----------
    space : Space
        Its parameters and conditions.
    kernel : mapping
        The section "KernelSpecification", as it is in the file.
    sections : mapping
        The sections beside these two, such as "General" and "Budget", as they are in the file.
    """

    space: Space
    kernel: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)


def read_t1(path: str | Path) -> TuningProblem:
    """Read a T1 file.

    Raises SpaceError if it cannot be read, or describes no space.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpaceError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise SpaceError(f"{path} has more than {MAX_BYTES >> 20} MiB: it is no T1 file")
    return parse_t1(data, str(path))


def parse_t1(data: bytes, name: str) -> TuningProblem:
    """Return what the content of a T1 file describes; `name` is for messages.

    Raises SpaceError if it describes no space.
    """
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SpaceError(f"{name} is no T1 file: it is not JSON") from error
    try:
        return _problem(document)
    except RecursionError as error:
        raise SpaceError(f"{name} is nested too deeply") from error
    except SpaceError as error:
        why = " ".join(str(error).split())  # names in it may have lines, and any length
        why = why if len(why) <= _MAX_SAID else f"{why[: _MAX_SAID - 3]}..."
        raise SpaceError(f"{name}: {why}") from error


def _problem(document: object) -> TuningProblem:
    root = _object(document, "a T1 file")
    space = _object(root.get("ConfigurationSpace"), "ConfigurationSpace")
    parameters = _list(space.get("TuningParameters"), "TuningParameters")
    if not parameters:
        raise SpaceError("TuningParameters is empty")
    knobs = [_knob(_object(parameter, "a parameter")) for parameter in parameters]
    conditions = _list(space.get("Conditions") or [], "Conditions")
    kernel = root.get("KernelSpecification")
    return TuningProblem(
        Space(knobs, _constraints(conditions, knobs)),
        kernel if isinstance(kernel, dict) else {},
        {name: section for name, section in root.items() if name not in _SECTIONS},
    )


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SpaceError(f"{what} must be an object, not {shown(str(value))}")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise SpaceError(f"{what} must be a list, not {shown(str(value))}")
    return value


def _knob(parameter: Mapping[str, Any]) -> ChoiceKnob:
    name, kind = parameter.get("Name"), parameter.get("Type")
    if not isinstance(name, str) or not name:
        raise SpaceError(f"a parameter's Name must be a text, not {shown(str(name))}")
    listed = parameter.get("Values")
    given = parse_values(listed) if isinstance(listed, str) else listed
    values = [_typed(value, kind) for value in _list(given, f"the Values of {name}")]
    default = _typed(parameter.get("Default"), kind)
    # It may be out of range, since other tools do not look at it.
    known = any(type(value) is type(default) and value == default for value in values)
    return ChoiceKnob(name, values, default if known else None)


def _typed(value: Any, kind: object) -> Any:
    """Return a value converted to its parameter's type; unchanged if that is not possible."""
    wanted = _TYPES.get(kind) if isinstance(kind, str) else None
    if wanted is None or isinstance(value, str) or not isinstance(value, bool | int | float):
        return value
    if wanted is str:
        return value
    try:
        typed = wanted(value)
    except (OverflowError, ValueError):  # an infinite number, or one that no float holds
        return value
    return typed if typed == value else value  # 2.5 is no int


def parse_values(text: str) -> list[Any]:
    """Return the values of a parameter, given as text of Python.

    Lists, `range`, lists that are added, and ``[EXPRESSION for NAME in LIST if CONDITION]``.

    Raises SpaceError if it is anything else, or there are too many.
    """
    if len(text) > MAX_BYTES:
        raise SpaceError("the text of the values is too long")
    try:
        root = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpaceError(f"{shown(text)} is no list of values") from error
    try:
        return _values(root, text)
    except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, SpaceError):
            raise
        raise SpaceError(f"{shown(text)} is no list of values") from error


def _values(node: ast.expr, text: str) -> list[Any]:
    if isinstance(node, ast.List | ast.Tuple):
        found = [_item(item, text) for item in node.elts]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        found = _values(node.left, text) + _values(node.right, text)
    elif isinstance(node, ast.ListComp) and len(node.generators) == 1:
        found = _comprehended(node, text)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "list" and len(node.args) == 1:
            return _values(node.args[0], text)
        if node.func.id != "range":
            raise SpaceError(f"{shown(text)} is no list of values: {node.func.id} is not known")
        numbers = range(*(_item(argument, text) for argument in node.args))
        if len(numbers) > MAX_VALUES:
            raise SpaceError(f"{shown(text)} has more than {MAX_VALUES} values")
        found = list(numbers)
    else:
        raise SpaceError(f"{shown(text)} is no list of values")
    if len(found) > MAX_VALUES:
        raise SpaceError(f"{shown(text)} has more than {MAX_VALUES} values")
    return found


def _item(node: ast.expr, text: str) -> Any:
    """Return one value, which may be computed of numbers."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
        return node.value
    return _computed(node, text, _WORDS).item()


def _computed(node: ast.expr, text: str, columns: Mapping[str, Any]) -> Any:
    """Return the values of an expression, an array."""
    check_expression(node, shown(text))
    found = evaluate(node, columns)
    if found.undefined.any():
        raise SpaceError(f"{shown(text)} divides by 0")
    return found.value


def _comprehended(node: ast.ListComp, text: str) -> list[Any]:
    (part,) = node.generators
    if not isinstance(part.target, ast.Name) or part.is_async:
        raise SpaceError(f"{shown(text)} is no list of values")
    values = np.array(_values(part.iter, text))
    for test in part.ifs:
        chosen = _computed(test, text, {**_WORDS, part.target.id: values})
        values = values[np.broadcast_to(chosen, values.shape).astype(np.bool_)]
    found = _computed(node.elt, text, {**_WORDS, part.target.id: values})
    listed: list[Any] = np.broadcast_to(found, values.shape).tolist()
    return listed


def _constraints(conditions: Sequence[Any], knobs: Sequence[ChoiceKnob]) -> list[Constraint]:
    """Return the conditions as constraints, each once."""
    tables = {knob.name: _table(knob) for knob in knobs if not knob.numeric}
    found: dict[str, Constraint] = {}
    for condition in conditions:
        given = condition if isinstance(condition, str) else _object(condition, "a condition")
        text = given if isinstance(given, str) else given.get("Expression")
        if not isinstance(text, str):
            raise SpaceError(f"a condition's Expression must be a text, not {shown(str(text))}")
        rule = Expression(text, tables)
        names = {knob.name for knob in knobs}
        for name in rule.names:
            if name not in names:
                raise SpaceError(f"the condition {shown(text)} has {name!r}, which is no parameter")
        found[text] = Constraint(text, rule, text, reads=rule.names)
    return list(found.values())


def _table(knob: Knob) -> Any:
    """Return the values of a knob by position; texts and numbers among each other as objects."""
    values = [knob.value(k) for k in range(len(knob))]
    kinds = {type(value) for value in values}
    return np.array(values, dtype=None if len(kinds) == 1 else object)


def document_of(problem: TuningProblem) -> dict[str, Any]:
    """Return a problem as a T1 file has it.

    Raises
    ------
    SpaceError
        If T1 cannot hold it: a knob with values that are lists, values of several types, a
        constraint that is code of Python and no text, or a kernel that lacks what T1 requires.
    """
    missing = [key for key in _KERNEL if key not in problem.kernel]
    if missing:
        raise SpaceError(f"the kernel of a T1 file needs {', '.join(missing)}")
    conditions = [_condition(constraint) for constraint in problem.space.constraints]
    return {
        **problem.sections,
        "ConfigurationSpace": {
            "TuningParameters": [_parameter(knob) for knob in problem.space.knobs],
            "Conditions": conditions,
        },
        "KernelSpecification": dict(problem.kernel),
    }


def _parameter(knob: Knob) -> dict[str, Any]:
    values = [knob.value(k) for k in range(len(knob))]
    kinds = {type(value) for value in values}
    names = {bool: "bool", int: "int", float: "float", str: "string"}
    if kinds == {int, float}:
        kinds, values = {float}, [float(value) for value in values]  # type: ignore[arg-type]
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if kind not in names:
        raise SpaceError(
            f"T1 cannot hold knob {shown(knob.name)}: its values are not of one plain type"
        )
    return {
        "Name": knob.name,
        "Type": names[kind],
        "Values": f"[{', '.join(map(repr, values))}]",
        "Default": values[knob.default],
    }


def _condition(constraint: Constraint) -> dict[str, Any]:
    text = getattr(constraint.predicate, "text", None)
    if not isinstance(text, str):
        raise SpaceError(
            f"T1 cannot hold the constraint {shown(constraint.name)}: it is code of Python; "
            "give it as an Expression"
        )
    return {"Expression": text, "Parameters": names_of(parse_expression(text))}


def write_t1(problem: TuningProblem, path: str | Path) -> None:
    """Write a T1 file, which appears when it is complete.

    Raises SpaceError if T1 cannot hold the problem (`document_of`), or the file cannot be written.
    """
    text, path = json.dumps(document_of(problem), indent=2), Path(path)
    partial = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        try:
            with partial.open("x", encoding="utf-8") as file:
                file.write(f"{text}\n")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise SpaceError(f"cannot write {path}: {error.strerror}") from error
