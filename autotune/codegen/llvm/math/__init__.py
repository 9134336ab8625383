"""Mathematical functions as LLVM functions over whole vectors.

In: the name of a function, a type and a number of lanes. Out: its definition as text. Read
`exponential.py` first. LLVM turns a vector exp into one library call per lane; these stay in
vector registers. docs/intrinsics.md states the accuracy of each, and
tests/backend/test_llvm_math.py tests it. NaN, infinities, overflow, underflow and subnormal numbers
behave as the C library's.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.codegen.llvm.llvm_types import suffix
from autotune.codegen.llvm.math import erf, exponential, logarithm, power, trigonometry
from autotune.codegen.llvm.math.math_writer import FORMATS, MathWriter
from autotune.ir.intrinsics import INTRINSICS

_FUNCTIONS: dict[str, tuple[Callable[..., str], int]] = {
    "exp": (exponential.exp, 1),
    "exp_up_to_0": (exponential.exp_up_to_0, 1),
    "exp2": (exponential.exp2, 1),
    "sigmoid": (exponential.sigmoid, 1),
    "tanh": (exponential.tanh, 1),
    "log": (logarithm.log, 1),
    "log2": (logarithm.log2, 1),
    "erf": (erf.erf, 1),
    "sin": (trigonometry.sin, 1),
    "cos": (trigonometry.cos, 1),
    "pow": (power.power, 2),
}

#: Intrinsics whose functions this package writes, for float32 and float64.
VECTOR_FUNCTIONS = tuple(name for name in _FUNCTIONS if name in INTRINSICS)


def function_name(name: str, dtype: str, lanes: int) -> str:
    """Symbol of the function that computes `name` on `lanes` values of `dtype`."""
    return f"at.{name}.{suffix(dtype, lanes)}"


def definitions(name: str, dtype: str, lanes: int, has_avx512: bool = False) -> dict[str, str]:
    """Return the LLVM text of `function_name(name, dtype, lanes)` and its callees, by symbol.

    `has_avx512`: instructions of AVX-512 may be used.
    """
    write, arity = _FUNCTIONS[name]
    writer = MathWriter(FORMATS[dtype], lanes, has_avx512=has_avx512)
    symbol = function_name(name, dtype, lanes)
    result = write(writer, *("%x", "%y")[:arity])
    return {**writer.needed, symbol: writer.function(symbol, arity, result, "alwaysinline")}
