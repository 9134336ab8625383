"""Names, types and constants in C sources.

Names are short, made from those of axes and tensors, and unique in their scope.
"""

from __future__ import annotations

import math
import re

import numpy as np

from autotune.ir import dtypes

#: Words of C++, and common macros.
KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t class compl const constexpr const_cast continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq EOF NAN NULL
"""
_SIDES = ("outer", "inner")


def readable(name: str) -> str:
    """Return a C identifier for the name of an axis or a tensor.

    Splits end in `o` or `i` for outer and inner, fused axes are joined: ``x.y.fused.outer.inner``
    is ``x_y_oi``, ``A.shared`` is ``A_shared``.
    """
    words = _words(name)
    sides = ""
    while len(words) > 1 and words[-1] in _SIDES:
        side = words.pop()[0]
        sides = sides if sides.startswith(side) else side + sides
    return _identifier([*words, sides] if sides else words)


def whole(name: str) -> str:
    """Return a C identifier for the original axis of a split axis."""
    words = _words(name)
    while len(words) > 1 and words[-1] in _SIDES:
        words.pop()
    return _identifier(words)


def _words(name: str) -> list[str]:
    """Return the significant parts of a name; the fused axes of a copy are `ax`."""
    words = [word for word in name.split(".") if word not in ("fused", "init", "")]
    copied = [word for word in words if re.fullmatch(r"ax\d+", word)]
    return ["ax", *words[len(copied) :]] if len(copied) > 1 else words


def _identifier(words: list[str]) -> str:
    plain = re.sub(r"\W", "_", "_".join(words), flags=re.ASCII)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


class CNameSupply:
    """Names in scope, by nested blocks.

    `reserved`: names that are never used, in addition to C++'s keywords.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._blocks: list[set[str]] = [{*KEYWORDS.split(), *reserved}]

    def open(self) -> None:
        """Begin a block, whose names are free again after it."""
        self._blocks.append(set())

    def close(self) -> None:
        """End a block."""
        self._blocks.pop()

    def fresh(self, name: str) -> str:
        """Return a name for something of this name in the innermost block."""
        wanted = readable(name)
        unused, count = wanted, 0
        while any(unused in block for block in self._blocks):
            count += 1
            unused = f"{wanted}_{count}"
        self._blocks[-1].add(unused)
        return unused


#: C++ types; the half types are CUDA's.
C_TYPES = {
    "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double",
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "bool": "bool",
}  # fmt: skip


def float_text(value: float, dtype: str) -> str:
    """Return the shortest text of a float constant that reads back as itself.

    Half types are written as the float32 of the same value, infinities as INFINITY.
    """
    suffix = "" if dtype == "float64" else "f"
    if math.isnan(value):
        return f'nan{suffix}("")'
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    digits = str(np.float64(value) if dtype == "float64" else np.float32(value))
    if "e" not in digits and "." not in digits:
        digits += ".0"
    return digits + suffix


def integer_text(value: int, dtype: str) -> str:
    """Return the text of an integer constant."""
    if dtypes.is_unsigned(dtype) and dtypes.bits(dtype) >= 32:
        return f"{value}{'u' if dtype == 'uint32' else 'ull'}"
    if dtypes.min_value("int32") < value <= dtypes.max_value("int32"):
        return str(value)
    if value == dtypes.min_value("int32"):
        return f"({value + 1} - 1)"
    return f"{value}ll" if value > dtypes.min_value("int64") else f"({value + 1}ll - 1)"
