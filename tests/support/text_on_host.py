"""Runs kernels as text on the CPU: blocks run concurrently, and their threads in random order."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.ir import dtypes
from autotune.ir.stmt import PrimFunc
from autotune.runtime.cuda.gpu_program import GpuSource
from autotune.runtime.cuda.gpu_source import raw_source
from support.host_cuda import COMPILER, FOLDER

ENDS = {1: "all threads wait", 2: "threads go on for ever", 3: "an access was not aligned"}

_ANY = "struct Any { void* p; template <typename T> operator T*() const { return (T*)p; } };"

_LAUNCH = """
static void run_{symbol}(void* given) {{ void** p = (void**)given; {symbol}({arguments}); }}
extern "C" int launch_{symbol}(unsigned* grid, unsigned* block, unsigned seed, unsigned resident,
                               void** p) {{
  return fibers::run({{grid[0], grid[1], grid[2]}}, {{block[0], block[1], block[2]}}, seed,
                     resident, run_{symbol}, p);
}}
"""


class HostError(Exception):
    """A kernel came to no good end."""


class TextOnHost:
    """A configuration of a kernel as text, compiled for the CPU.

    Parameters
    ----------
    final : PrimFunc
        As of `Task.final`.
    folder : Path
        For what is compiled; what is there is used again.
    changes : mapping of str to str
        What is to stand in place of what in the text, to see whether that is noticed.
    """

    def __init__(
        self, final: PrimFunc, folder: Path, changes: Mapping[str, str] | None = None
    ) -> None:
        self.source: GpuSource = raw_source(final)
        self._library = ctypes.CDLL(str(_compiled(self.source, folder, changes or {})))

    def __call__(self, arrays: Sequence[Any], seed: int = 0, resident: int = 4) -> None:
        """Run all launches on arrays, `resident` blocks at a time; memory begins with anything.

        Raises
        ------
        HostError
            If the kernel does not end, or a GPU would stop at an address.
        """
        memory = [
            np.full(p.fixed, 0x5A, "uint8").repeat(dtypes.itemsize(p.dtype))
            for p in self.source.workspace
        ]
        held = [*arrays, *memory]
        pointers = (ctypes.c_void_p * len(held))(*(array.ctypes.data for array in held))
        for launch in self.source.launches:
            extents = [(ctypes.c_uint * 3)(*each) for each in (launch.grid, launch.block)]
            run = getattr(self._library, f"launch_{launch.symbol}")
            code = run(*extents, ctypes.c_uint(seed), ctypes.c_uint(resident), pointers)
            if code != 0:
                raise HostError(f"{launch.symbol}: {ENDS[code]}")


def _compiled(source: GpuSource, folder: Path, changes: Mapping[str, str]) -> Path:
    count = len(source.signature.parameters) + len(source.workspace)
    arguments = ", ".join(f"Any{{p[{i}]}}" for i in range(count))
    text = source.text
    for old, new in {**changes, "using Word = volatile uint64;": "using Word = Watched;"}.items():
        assert old in text or old not in changes, old
        text = text.replace(old, new)
    launches = [_LAUNCH.format(symbol=each.symbol, arguments=arguments) for each in source.launches]
    whole = "\n".join(['#include "fibers.h"', source.header, text, _ANY, *launches])
    path = folder / f"{hashlib.sha256(whole.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        command = [COMPILER, "-x", "c++", "-", "-O0", "-w", "-std=c++17", "-ffp-contract=off"]
        # Compiled and linked apart: what the sanitizer calls is in the text, not in a library.
        command += ["-c", "-fPIC", "-fsanitize=alignment", f"-I{FOLDER}", "-o", f"{path}.o"]
        subprocess.run(command, input=whole.encode(), check=True)
        subprocess.run([COMPILER, "-shared", f"{path}.o", "-o", str(path)], check=True)
    return path
