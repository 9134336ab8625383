"""Names, meaning and version of the feature columns, and the layouts of the itervar extractor.

Store `FEATURE_VERSION` together with features: it changes with any name or meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from features.curve import CURVE_NAMES, describe_curve
from features.knob_columns import describe_knob
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


FEATURE_LAYOUTS = (*LAYOUTS, "curve", "knob")  # All layouts, by name.

# Units of itervar fields; other fields are plain numbers.
_UNITS = {
    **dict.fromkeys(("length", "topdown"), "iterations"),
    **dict.fromkeys(("bottomup", "reuse"), "accesses"),
    **dict.fromkeys(("add", "mul", "div"), "operations"),
    **dict.fromkeys(("stride", "mod", "count"), "elements"),
}


def explain(name: str) -> tuple[str, str]:
    """Return the meaning and the unit of a feature column, named with its layout and version.

    FeatureError if there is no such layout, version or column.
    """
    prefix, _, bare = name.partition(":")
    layout = prefix.rpartition(".")[0]
    if name != versioned(layout, bare) or layout not in FEATURE_LAYOUTS:
        known = ", ".join(versioned(layout, "NAME") for layout in FEATURE_LAYOUTS)
        raise FeatureError(f"{name!r} is not a feature column: expected one of {known}")
    if layout == "curve":
        return describe_curve(bare)
    if layout == "knob":
        return describe_knob(bare)
    return describe(bare), _UNITS.get(bare.rpartition("/")[2], "1")


def patterns(layout: str) -> list[tuple[str, str, str]]:
    """Return name, meaning and unit of the columns of a layout, with capitals for variable parts.

    FeatureError if there is no such layout.
    """
    if layout == "curve":
        return [(versioned(layout, name), *describe_curve(name)) for name in CURVE_NAMES]
    if layout == "knob":
        bare = ("KNOB", "KNOB/log2", "KNOB=TEXT", "KNOB/position")
        return [(versioned(layout, name), *describe_knob(name)) for name in bare]
    if layout not in LAYOUTS:
        known = ", ".join(FEATURE_LAYOUTS)
        raise FeatureError(f"unknown layout {layout!r}: expected one of {known}")
    attributes = [f"attr/{field}" for field in (*ATTR_FIELDS, *LAYOUTS[layout].one_hot)]
    rest = [f"arith/{field}" for field in ARITH_FIELDS]
    rest += [f"ACCESS/{field}" for field in TOUCH_FIELDS]
    names = [versioned(layout, f"ROW/LOOP/{field}") for field in attributes + rest]
    return [(name, *explain(name)) for name in names]
