"""Explains every feature column of every layout."""

from __future__ import annotations

from features.curve import CURVE_NAMES, describe_curve
from features.knob_columns import describe_knob
from features.loop_nest import FeatureError
from features.schema import (
    ARITH_FIELDS,
    ATTR_FIELDS,
    LAYOUTS,
    TOUCH_FIELDS,
    describe,
    versioned,
)

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
    """Return name, meaning and unit of the columns of a layout, with capitals for what varies.

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
