"""Kernels compiled for the CPU from their CUDA source, threads as loops where none waits.

Schedules' kernels that wait run block after block; texts that do, blocks side by side.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from autotune.runtime.cuda.nvrtc import kernel_infos

_HEADERS = Path(__file__).parents[2] / "host_headers"
_COMPILER = shutil.which("g++") or shutil.which("clang++")

_ANY = """
struct Any {
  const void* at;
  template <typename T> operator T() const {
    T value;
    memcpy(&value, at, sizeof value);
    return value;
  }
};
"""

_IN_ORDER = """
extern "C" void launch(unsigned* grid, unsigned* block, unsigned shared, void** p) {{
  gridDim = {{grid[0], grid[1], grid[2]}};
  blockDim = {{block[0], block[1], block[2]}};
  for (unsigned z = 0; z < grid[2]; ++z)
  for (unsigned y = 0; y < grid[1]; ++y)
  for (unsigned x = 0; x < grid[0]; ++x) {{
    blockIdx = {{x, y, z}};
    for (unsigned k = 0; k < block[2]; ++k)
    for (unsigned j = 0; j < block[1]; ++j)
    for (unsigned i = 0; i < block[0]; ++i) {{
      threadIdx = {{i, j, k}};
      {symbol}({arguments});
    }}
  }}
}}
"""

_SIDE_BY_SIDE = """
static void one_call(void** p) {{ {symbol}({arguments}); }}
extern "C" void launch(unsigned* grid, unsigned* block, unsigned shared, void** p) {{
  run_blocks(grid, block, shared, one_call, p);
}}
"""


_BY_LOT = """
static void one_thread(void* given) {{ void** p = (void**)given; {symbol}({arguments}); }}
extern "C" void launch(unsigned* grid, unsigned* block, unsigned shared, void** p) {{
  if (fibers::run({{grid[0], grid[1], grid[2]}}, {{block[0], block[1], block[2]}}, 0, 4,
                  one_thread, p))
    abort();
}}
"""


class HostKernel:
    """One kernel of a source, compiled for the CPU and loaded."""

    def __init__(self, source: str, symbol: str, code: bytes) -> None:
        self._sizes = kernel_infos(code)[symbol]["parameter_bytes"]
        waits = "__syncthreads" in source or "__shfl" in source
        is_text = "namespace op" in source
        header = ("fibers.h" if waits else "threads.h") if is_text else "blocks.h"
        arguments = ", ".join(f"Any{{p[{i}]}}" for i in range(len(self._sizes)))
        launch = (_BY_LOT if is_text else _SIDE_BY_SIDE) if waits else _IN_ORDER
        text = source.replace(
            "extern __shared__ __align__(16) unsigned char shared[];",
            "unsigned char* shared = dynamic_shared;",
        ).replace("using Word = volatile uint64;", "using Word = Watched;")
        whole = (
            f'#include <new>\n#include <stdlib.h>\n#include <string.h>\n#include "{header}"\n'
            f"{text}\n{_ANY}"
            f"{launch.format(symbol=_plain(symbol), arguments=arguments)}"
        )
        self._launch = ctypes.CDLL(str(_compiled(whole))).launch

    def arguments(self, table: int) -> tuple[bytes, ...]:
        """Return the bytes of the arguments that a table points to."""
        at = (ctypes.c_void_p * max(1, len(self._sizes))).from_address(table)
        pairs = zip(at, self._sizes, strict=False)
        return tuple(ctypes.string_at(address, size) for address, size in pairs)

    def run(self, grid: tuple, block: tuple, shared: int, table: int) -> None:
        """Run all blocks."""
        extents = [(ctypes.c_uint * 3)(*each) for each in (grid, block)]
        self._launch(*extents, ctypes.c_uint(shared), ctypes.c_void_p(table))


def _plain(symbol: str) -> str:
    """Return the name of a function in C++ by its symbol; of one in no namespace."""
    mangled = re.match(r"_Z(\d+)", symbol)
    return symbol[mangled.end() :][: int(mangled[1])] if mangled else symbol


def _compiled(text: str) -> Path:
    folder = Path(os.environ["FAKE_GPU_FOLDER"])
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        own = path.with_suffix(f".{os.getpid()}")
        command = [_COMPILER, "-x", "c++", "-", "-O1", "-w", "-std=c++17", "-ffp-contract=off"]
        command += ["-shared", "-fPIC", f"-I{_HEADERS}", "-o", str(own), "-lpthread"]
        subprocess.run(command, input=text.encode(), check=True)
        own.replace(path)
    return path
