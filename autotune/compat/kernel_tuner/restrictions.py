"""Restrictions of a space, in every form that Kernel Tuner accepts.

In: texts, functions, or pairs of a function and the names of its parameters. Out: `Restriction`s.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from autotune.compat.kernel_tuner.arguments import shown
from autotune.compat.kernel_tuner.expressions import negated, parsed, plain, truth, value_of
from autotune.compat.kernel_tuner.problem import Problem, kernel
from autotune.errors import AutotuneError, InstantiationError, UsageError
from autotune.external.c_kernel import CKernel
from autotune.rtc import RawKernel
from autotune.system.user_modules import what_failed
from autotune.template import Knobs, Template
from autotune.trace.symbolic_values import SymbolicInt

Condition = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Restriction:
    """What values of parameters must be for a configuration to be tried."""

    text: str
    holds: Condition
    #: What messages call it.
    name: str


def restrictions_of(given: Any, names: Sequence[str]) -> list[Restriction]:
    """Return the restrictions that an argument of this name gives.

    `names`: of the parameters.

    Raises UsageError if one is neither a text nor a function, or the text is no condition.
    """
    listed = [] if given is None else given if isinstance(given, (list, tuple)) else [given]
    return [_restriction(one, n, names) for n, one in enumerate(listed, 1)]


def _restriction(given: Any, number: int, names: Sequence[str]) -> Restriction:
    name = f"restriction {number}"
    if isinstance(given, str):
        return _of_text(given, name, names)
    if isinstance(given, tuple) and len(given) >= 2 and callable(given[0]):
        return _of_function(given[0], name, _chosen(given[1], name, names))
    if not callable(given) or type(given).__module__.startswith("constraint"):
        raise UsageError(
            f"restrictions are texts, functions of a dict, or functions with the names of their "
            f"parameters, not {shown(given)}"
        )
    try:
        own = list(inspect.signature(given).parameters)
    except (TypeError, ValueError):  # some that are written in C do not tell them
        return Restriction(name, given, name)
    is_by_name = all(each in names for each in own)
    return _of_function(given, name, own) if is_by_name else Restriction(name, given, name)


def _of_function(function: Callable[..., Any], name: str, chosen: Sequence[str]) -> Restriction:
    """Return the restriction of a function that takes parameters by their names."""
    return Restriction(name, lambda p: function(**{n: p[n] for n in chosen}), name)


def _chosen(given: Any, name: str, names: Sequence[str]) -> list[str]:
    """Return the names given with a function; UsageError if one is not a parameter."""
    if not isinstance(given, (list, tuple)) or not all(each in names for each in given):
        raise UsageError(f"{name}: {shown(given)} are no names of parameters")
    return list(given)


def _of_text(text: str, name: str, names: Sequence[str]) -> Restriction:
    root = parsed(text, "restrictions", names)
    return Restriction(text, functools.partial(value_of, root), f"{name}, {text!r},")


def unknown(parameters: Mapping[str, list[Any]], known: Iterable[Mapping[str, Any]]) -> Restriction:
    """Return what keeps the configurations away that are known.

    `parameters`: the choices of each.
    """
    rows = frozenset(tuple(row[name] for name in parameters) for row in known)

    def holds(values: Mapping[str, Any]) -> Any:
        own = tuple(values[name] for name in parameters)
        if not any(isinstance(value, SymbolicInt) for value in own):
            return own not in rows
        return negated(_are_among(own, list(parameters.values()), rows))

    text = "its result is not known yet"
    return Restriction(text, holds, text)


def _are_among(
    values: Sequence[Any], choices: Sequence[list[Any]], rows: frozenset[tuple[Any, ...]]
) -> Any:
    """Return whether values, some of them symbols, are a row: short where rows are regular."""
    if not values:
        return bool(rows)
    rests: dict[Any, set[tuple[Any, ...]]] = {}
    for first, *rest in rows:
        rests.setdefault(first, set()).add(tuple(rest))
    firsts: dict[frozenset[tuple[Any, ...]], set[Any]] = {}
    for first, several in rests.items():
        firsts.setdefault(frozenset(several), set()).add(first)
    return _any([
        _is_among(values[0], choices[0], own) & _are_among(values[1:], choices[1:], rest)
        for rest, own in firsts.items()
    ])  # fmt: skip


def _is_among(value: Any, choices: list[Any], own: Collection[Any]) -> Any:
    """Return whether a value is one of some choices: of a symbol, by the runs that they form."""
    if not isinstance(value, SymbolicInt):
        return value in own
    runs = [
        list(run) for is_own, run in itertools.groupby(sorted(choices), own.__contains__) if is_own
    ]
    return _any([(value >= run[0]) & (value <= run[-1]) for run in runs])


def _any(found: list[Any]) -> Any:
    """Return whether one of several conditions holds, by halves, so that none is deep."""
    while len(found) > 1:
        pairs = itertools.zip_longest(found[::2], found[1::2], fillvalue=False)
        found = [a | b for a, b in pairs]
    return found[0] if found else False


@dataclass(frozen=True)
class RestrictedTemplate(Template):
    """The template of a problem in the process that searches, which alone knows restrictions.

    Functions of the user need not be sent to workers then.
    """

    restrictions: tuple[Restriction, ...] = field(default=())

    @classmethod
    def of(cls, problem: Problem, restrictions: Sequence[Restriction]) -> RestrictedTemplate:
        """Return the template of a problem with restrictions."""
        own = {each.name: getattr(kernel, each.name) for each in fields(kernel)}
        return cls(**{**own, "name": problem.name}, restrictions=tuple(restrictions))

    def described(self, cfg: Knobs, *args: Any, **kwargs: Any) -> CKernel | RawKernel:
        """Return the kernel, once its knobs are restricted."""
        made: CKernel | RawKernel = super().described(cfg, *args, **kwargs)
        values = {name: cfg[name] for name in cfg}
        for restriction in self.restrictions:
            try:
                condition = restriction.holds(values)
            except (AutotuneError, ZeroDivisionError):
                raise
            except Exception as error:
                if is_legal(self.restrictions, {name: plain(v) for name, v in values.items()}):
                    raise  # symbols alone make it fail
                raise InstantiationError("another restriction refuses it") from error
            cfg.add_constraint(truth(condition), restriction.text)
        return made


def is_legal(restrictions: Sequence[Restriction], values: Mapping[str, Any]) -> bool:
    """Whether plain values keep all restrictions; what is divided by 0 does not.

    Raises UsageError if a restriction fails otherwise, unless one before it refuses the values.
    """
    for one in restrictions:
        try:
            if not one.holds(values):
                return False
        except ZeroDivisionError:
            return False
        except Exception as error:
            what = what_failed(error)
            raise UsageError(f"{one.name} fails for {dict(values)}: {what}") from error
    return True
