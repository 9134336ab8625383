"""How IR types and constants are spelled in LLVM assembly (opaque pointers, LLVM 20 and later)."""

from __future__ import annotations

import struct

from autotune.ir import dtypes

_NAMES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64", "bool": "i1"}
_SHORT = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "i1"}


def llvm_type(dtype: str, lanes: int = 1) -> str:
    """Type of a value in a register: bool is one bit."""
    return vector_of(_NAMES[dtypes.check(dtype)], lanes)


def memory_type(dtype: str, lanes: int = 1) -> str:
    """Type of a value in memory: bool is a byte."""
    return vector_of("i8" if dtype == dtypes.BOOL else _NAMES[dtypes.check(dtype)], lanes)


def vector_of(scalar: str, lanes: int) -> str:
    """LLVM type of `lanes` values of the LLVM type `scalar`."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def suffix(dtype: str, lanes: int = 1) -> str:
    """Overload suffix of intrinsics, such as v16f32."""
    return _SHORT[dtype] if lanes == 1 else f"v{lanes}{_SHORT[dtype]}"


def float_text(value: float) -> str:
    """Exact spelling of a float constant (for `float` the value must be a float32)."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def const_text(value: int | float | bool, dtype: str, lanes: int = 1) -> str:
    """Operand text of a constant, the same in all lanes."""
    if dtypes.is_float(dtype):
        text = float_text(float(value))
    elif dtype == dtypes.BOOL:
        text = "true" if value else "false"
    else:
        text = str(int(value))
    return text if lanes == 1 else f"splat ({_NAMES[dtype]} {text})"


def symbol(name: str) -> str:
    """Turn `name` into characters that LLVM identifiers may have."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"
