"""Runs CUDA C++ as plain C++, one thread of the machine per thread of a block, block after block.

So the text itself is held against NumPy, and not only what it was written from.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.codegen.cuda.cuda_source import CUDASource
from autotune.ir import dtypes
from autotune.ir.evaluate.interpreter import evaluate
from autotune.ir.evaluate.stmt_to_python import poison
from autotune.ir.expr import Buffer, Expr, SizeVar
from support.host_cuda import COMPILER, FOLDER

_LAUNCH = """
struct Any {{ void* p; template <typename T> operator T*() const {{ return (T*)p; }} }};
static void one_call(void** p) {{ {entry}({arguments}); }}
extern "C" void launch(unsigned* grid, unsigned* block, void** p) {{
  run_blocks(grid, block, {dynamic}, one_call, p);
}}
"""


def run_on_host(
    source: CUDASource, params: Sequence[Buffer], arrays: Sequence[Any], folder: Path
) -> None:
    """Run all kernels of a source on arrays, which are those of the function's parameters."""
    sizes = {
        dim: extent
        for buffer, array in zip(params, arrays, strict=True)
        for dim, extent in zip(buffer.shape, array.shape, strict=True)
        if isinstance(dim, SizeVar)
    }

    def number(expr: Expr) -> int:
        return int(evaluate(expr, sizes))

    memory = dict(zip(params, arrays, strict=True))
    for buffer in source.workspace:
        shape = [number(extent) for extent in buffer.shape]
        memory[buffer] = np.full(shape, poison(buffer.dtype), dtypes.numpy_dtype(buffer.dtype))
    for position, kernel in enumerate(source.kernels):
        own = kernel.kernel.function
        library = _compiled(source, position, folder)
        pointers = [memory[b].ctypes.data_as(ctypes.c_void_p) for b in own.params]
        pointers += [ctypes.c_void_p(sizes[size]) for size in own.sizes]
        grid, block = (
            (ctypes.c_uint * 3)(*map(number, extents))
            for extents in (kernel.kernel.grid, kernel.kernel.block)
        )
        library.launch(grid, block, (ctypes.c_void_p * max(1, len(pointers)))(*pointers))


def _compiled(source: CUDASource, position: int, folder: Path) -> Any:
    kernel = source.kernels[position]
    own = kernel.kernel.function
    text = source.text.replace(
        "extern __shared__ __align__(16) unsigned char shared[];",
        "unsigned char* shared = dynamic_shared;",
    )
    arguments = [f"Any{{p[{i}]}}" for i in range(len(own.params))]
    arguments += [f"(long long)p[{i + len(own.params)}]" for i in range(len(own.sizes))]
    launch = _LAUNCH.format(
        entry=kernel.entry,
        arguments=", ".join(arguments),
        dynamic=kernel.dynamic_shared_bytes,
    )
    whole = f'#include "blocks.h"\n{text}\n{launch}'
    name = hashlib.sha256(whole.encode()).hexdigest()[:16]
    path = folder / f"{name}.so"
    if not path.exists():
        (folder / f"{name}.cpp").write_text(whole)
        command = [COMPILER, "-O1", "-w", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC"]
        command += [f"-I{FOLDER}", f"{name}.cpp", "-o", path.name, "-lpthread"]
        subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(path))
