"""The functions of expressions: numbers of arguments and result types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class ElementWise:
    """A function applied to each element."""

    #: Number of arguments.
    arguments: int
    #: "number": of any number, in its type; "fraction": integers become floats first; "bits": of
    #: integers and conditions, in their type.
    of: Literal["number", "fraction", "bits"]


ELEMENT_WISE: Final = {
    **dict.fromkeys(("abs", "ceil", "floor", "round", "relu"), ElementWise(1, "number")),
    **dict.fromkeys(("max", "min"), ElementWise(2, "number")),
    **dict.fromkeys(
        ("sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
         "sigmoid"),
        ElementWise(1, "fraction"),
    ),
    "pow": ElementWise(2, "fraction"),
    "builtin_binary_crossentropy": ElementWise(3, "fraction"),
    "~": ElementWise(1, "bits"),
}  # fmt: skip

#: Functions and operators whose result is a dimension if all operands are.
OF_DIMENSIONS: Final = ("max", "min", "~")

#: Widths in bits of casts; conditions always have one.
CASTS: Final[dict[str, tuple[int, ...]]] = {
    "as_float": (16, 32, 64),
    "as_int": (8, 16, 32, 64),
    "as_uint": (8, 16, 32, 64),
    "as_bool": (1, 8),
}

#: Functions of whole tensors, by how many arguments they take: exactly, or (None) at least.
WHOLE: Final[dict[str, tuple[int, int | None]]] = {
    "index": (2, 2),
    "reshape": (0, None),
    "shape": (1, 1),
    "gather": (2, 2),
    "scatter": (3, 3),
    "builtin_softmax": (3, 3),
    "builtin_logsoftmax": (3, 3),
    "prng_step": (1, None),
    "prng_value": (1, 1),
    "prng_state": (1, 1),
}

#: Prefix of the names of assertions on dimensions.
ASSERTION: Final = "assert_"

KNOWN: Final = (*(name for name in ELEMENT_WISE if name.isidentifier()), *CASTS, *WHOLE)

#: Replacements for functions of other Tile compilers.
INSTEAD: Final = {
    "broadcast": "of sizes that are equal or 1 it is max(A, B)",
    "mod": "of sizes it is A - A / B * B",
    "recip": "write 1 / x",
    "cond": "write C ? T : E",
    "neg": "write -x",
    "ident": "write the tensor's name alone",
    "quantize": "write as_int(round(x * Scale), 8)",
    "tuple": "list several outputs in the header",
    "element": "list several outputs in the header",
    "simple_reduce": "sum in a contraction, as in O[i: N] = +(X[i, j]);",
    "reverse_grad": "write x, and subtract its gradient instead of adding it",
    **dict.fromkeys(
        ("bit_and", "bit_or", "bit_xor", "bit_not", "bit_left", "bit_right"),
        "write x & y, x | y, x ^ y, ~x, x << n, x >> n",
    ),
}
