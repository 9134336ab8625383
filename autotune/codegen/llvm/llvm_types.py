"""IR types and constants in LLVM assembly (opaque pointers, LLVM 20 and later).

Register and memory types differ: a bool is one bit in a register and a byte in memory, a half float
is a float32 in a register and 16 bits in memory. LLVM's own half types are not used for arithmetic,
because their code differs between processors.
"""

from __future__ import annotations

import struct
from functools import cache

from autotune.ir import dtypes

_FLOATS = {"float32": ("float", "f32"), "float64": ("double", "f64")}


def register_type(dtype: str) -> str:
    """IR type whose values registers hold for values of `dtype`: float32 for the half types."""
    return "float32" if dtypes.is_half(dtypes.check(dtype)) else dtype


@cache
def llvm_type(dtype: str, lanes: int = 1) -> str:
    """Type of a value in a register."""
    held = register_type(dtype)
    return vector_of(_FLOATS[held][0] if held in _FLOATS else f"i{dtypes.bits(held)}", lanes)


@cache
def memory_type(dtype: str, lanes: int = 1) -> str:
    """Type of a value in memory."""
    if dtype in _FLOATS:
        return llvm_type(dtype, lanes)
    return vector_of(f"i{8 * dtypes.itemsize(dtype)}", lanes)


def vector_of(scalar: str, lanes: int) -> str:
    """LLVM type of `lanes` values of the LLVM type `scalar`."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def suffix(dtype: str, lanes: int = 1) -> str:
    """Overload suffix of intrinsics on registers, such as v16f32."""
    held = register_type(dtype)
    return _suffix(_FLOATS[held][1] if held in _FLOATS else f"i{dtypes.bits(held)}", lanes)


def memory_suffix(dtype: str, lanes: int = 1) -> str:
    """Overload suffix of intrinsics that access memory, such as v16i8 for bool."""
    if dtype in _FLOATS:
        return suffix(dtype, lanes)
    return _suffix(f"i{8 * dtypes.itemsize(dtype)}", lanes)


def _suffix(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"v{lanes}{scalar}"


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
    return text if lanes == 1 else f"splat ({llvm_type(dtype)} {text})"


def symbol(name: str) -> str:
    """Turn the beginning of `name` into an LLVM identifier; LLVM itself cuts long ones."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "_" for c in name[:200])
    return plain if plain and not plain[0].isdigit() else f"_{plain}"
