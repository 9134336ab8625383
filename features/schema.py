"""Names and version of the feature columns, and the layouts the itervar extractor can produce.

Store `FEATURE_VERSION` together with features: it changes with any name or meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from features.loop_nest import ANNOTATIONS, VIRTUAL_THREAD, FeatureError

FEATURE_VERSION = 1

ATTR_FIELDS = ("length", "nest_level", "topdown", "bottomup")
ARITH_FIELDS = ("add", "mul", "div")
TOUCH_FIELDS = ("stride", "mod", "count", "reuse", "thread_count", "thread_reuse")

ATTR, ARITH = "_attr_", "_arith_"

_MEANING = {
    "length": "iterations of the loop (-1: not known before the call)",
    "nest_level": "depth of the loop, 1 for the outermost",
    "topdown": "product of the lengths from the outermost loop to this one",
    "bottomup": "largest count times reuse among the accesses below the loop, at least -1",
    "add": "float additions and subtractions directly under the loop",
    "mul": "float multiplications directly under the loop",
    "div": "float divisions and remainders directly under the loop",
    "stride": "elements between two iterations of the loop, 0 if the index does not use it",
    "mod": "modulus the loop's variable stands under in the index, -1 if none",
    "count": "elements touched below and by the loop",
    "reuse": "touches per element touched",
    "thread_count": "count over the count of one thread (thread, block and parallel loops), else 0",
    "thread_reuse": "reuse over the reuse of one thread (thread, block and parallel loops), else 0",
}


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """One arrangement of the itervar features."""

    #: Name for users.
    name: str
    #: Order of the annotations in the one-hot code.
    one_hot: tuple[str, ...]
    #: Whether `mod` is reported; -1 everywhere if not.
    keeps_mod: bool
    #: Whether a symbolic length enters products as the factor -1. If not, a product with an unknown
    #: factor is unknown: -1.
    multiplies_symbolic: bool
    #: Whether the loops that set a reduction's accumulators are rows.
    initial_stores: bool

    def hot(self, annotation: str) -> int:
        """Return the position of an annotation in the one-hot code."""
        if annotation == VIRTUAL_THREAD and VIRTUAL_THREAD not in self.one_hot:
            annotation = "SERIAL"
        return self.one_hot.index(annotation)


ITERVAR = FeatureLayout(
    "itervar", ANNOTATIONS, keeps_mod=True, multiplies_symbolic=False, initial_stores=True
)
AUTOTVM08 = FeatureLayout(
    "autotvm08",
    (*ANNOTATIONS[:6], "UNROLL", "VECTORIZE", "PARALLEL", "SERIAL", VIRTUAL_THREAD),
    keeps_mod=False,
    multiplies_symbolic=True,
    initial_stores=False,
)
LAYOUTS = {layout.name: layout for layout in (ITERVAR, AUTOTVM08)}


def layout_named(name: str) -> FeatureLayout:
    """Return the itervar layout of that name; raises FeatureError naming the known ones."""
    try:
        return LAYOUTS[name]
    except KeyError:
        known = ", ".join(LAYOUTS)
        raise FeatureError(f"unknown itervar layout {name!r}: expected one of {known}") from None


def fields_of(key: str, width: int) -> tuple[str, ...]:
    """Return the names of the values that follow `key` in a row's pair of `width` values."""
    if key == ARITH:
        return ARITH_FIELDS
    if key != ATTR:
        return TOUCH_FIELDS
    for layout in LAYOUTS.values():
        if width == len(ATTR_FIELDS) + len(layout.one_hot):
            return (*ATTR_FIELDS, *layout.one_hot)
    raise FeatureError(f"an {ATTR} entry of {width} values belongs to no known itervar layout")


def column_name(row: int, loop: str, key: str, field: str) -> str:
    """Name a column: ``row/loop/attr|arith|access/field``, as in ``0/x/C_1/stride``.

    The row number keeps loops of the same name apart.
    """
    group = {ATTR: "attr", ARITH: "arith"}.get(key, key)
    return f"{row}/{loop}/{group}/{field}"


def versioned(layout: str, name: str) -> str:
    """Prefix a column name with its layout and `FEATURE_VERSION`: ``itervar.v1:NAME``."""
    return f"{layout}.v{FEATURE_VERSION}:{name}"


def describe(name: str) -> str:
    """Explain an itervar column in one line; takes the bare or the versioned name."""
    bare = name.split(":", 1)[-1]
    try:
        row, rest = bare.split("/", 1)
        loop, group, field = rest.rsplit("/", 2)
    except ValueError:
        raise FeatureError(
            f"{name!r} is not an itervar column: expected row/loop/group/field"
        ) from None
    if field in _MEANING:
        meaning = _MEANING[field]
    elif field == VIRTUAL_THREAD or field in ANNOTATIONS:
        meaning = f"1 if the loop is annotated {field}, else 0"
    else:
        raise FeatureError(f"{name!r} is not an itervar column: no field {field!r}")
    where = f"loop {loop} (row {row})"
    if field in TOUCH_FIELDS:
        where += f", access {group}"
    return f"{where}: {meaning}"
