"""Types and constants as C++ spells them."""

from __future__ import annotations

import math

import numpy as np

from autotune.ir import dtypes

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
        return f"nan{suffix}(\"\")"
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
