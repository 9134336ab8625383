"""The device header: the text that every kernel of this package begins with.

Its parts are files beside this one: types and conversions, element-wise operators, vectors.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Literal

IndexType = Literal["int32", "int64"]

_PARTS = ("types.cuh", "operators.cuh", "vectors.cuh")


@functools.cache
def device_text(name: str) -> str:
    """Return the text of a file of device code."""
    return files("autotune.codegen.cuda").joinpath("device", name).read_text(encoding="utf-8")


@functools.cache
def device_header(index: IndexType = "int64") -> str:
    """Return the header, in which ``index_t`` is the type of indices.

    `index`: {"int32", "int64"}: it must hold every index of a kernel plus the number of threads of
    the grid.
    """
    types, *others = map(device_text, _PARTS)
    return "\n".join([types, f"using index_t = {index};\n", *others])
