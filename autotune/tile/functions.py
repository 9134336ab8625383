"""The functions of element-wise expressions: how many arguments, and what types they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class ElementWise:
    """A function applied to each element.

    Attributes
    ----------
    arguments
        How many it takes.
    of
        "number": of any number, in its type; "fraction": integers become floats first.
    """

    arguments: int
    of: Literal["number", "fraction"]


ELEMENT_WISE: Final = {
    **dict.fromkeys(("abs", "ceil", "floor", "round"), ElementWise(1, "number")),
    **dict.fromkeys(("max", "min"), ElementWise(2, "number")),
    **dict.fromkeys(
        ("sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
         "sigmoid"),
        ElementWise(1, "fraction"),
    ),
    "pow": ElementWise(2, "fraction"),
}  # fmt: skip

#: Widths in bits that casts take; `as_bool` takes none.
CASTS: Final[dict[str, tuple[int, ...]]] = {
    "as_float": (16, 32, 64),
    "as_int": (8, 16, 32, 64),
    "as_uint": (8, 16, 32, 64),
    "as_bool": (),
}

KNOWN: Final = (*ELEMENT_WISE, *CASTS, "index", "reshape")
