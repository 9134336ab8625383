"""A function with C's linkage around one of C++ that takes references to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import check_type, shown
from autotune.compat.kernel_tuner.sources import text_of
from autotune.errors import UsageError

_TYPES = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float32": "float", "float64": "double",
}  # fmt: skip


def cpp(
    function_name: str,
    kernel_source: Any,
    args: Sequence[Any],
    convert_to_array: Sequence[bool] | None = None,
) -> str:
    """Return a text in C++ with a function NAME_wrapper that calls a function.

    Parameters
    ----------
    function_name : str
        The function; it may be a template whose parameters follow from its arguments.
    kernel_source : str or path
        Its text or file.
    args : sequence of array or NumPy's number
        What it takes.
    convert_to_array : sequence of bool, optional
        Which arrays it takes as references to arrays of their shape; one element is a reference.

    Raises
    ------
    UsageError
        If an argument has no type of C, or the flags do not fit the arguments.
    """
    check_type("args", args, (list, tuple), "a list of arrays and numbers of NumPy")
    flags = [False] * len(args) if convert_to_array is None else list(convert_to_array)
    if len(flags) != len(args):
        raise UsageError("convert_to_array must have a flag for each of args")
    taken, passed = [], []
    for n, (arg, as_array) in enumerate(zip(args, flags, strict=True)):
        kind, is_array = _TYPES.get(str(getattr(arg, "dtype", ""))), isinstance(arg, np.ndarray)
        if kind is None:
            raise UsageError(f"args: no type of C is known for argument {n}, {shown(arg)}")
        if as_array and not is_array:
            raise UsageError(f"convert_to_array: argument {n} is no array")
        taken.append(f"{kind} {'*' * is_array}arg{n}")
        sizes = "".join(f"[{size}]" for size in np.shape(arg))
        reference = f"*reinterpret_cast<{kind} (*){sizes}>(arg{n})"
        passed.append(f"arg{n}" if not as_array else reference if arg.size > 1 else f"*arg{n}")
    return (
        f'{text_of(kernel_source)}\nextern "C" float {function_name}_wrapper({", ".join(taken)}) '
        f"{{\n  {function_name}({', '.join(passed)});\n  return 0.0f;\n}}\n"
    )
