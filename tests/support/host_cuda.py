"""Compiles device code as C++ for the CPU, so that what it computes is tested without a GPU.

Stand-ins for CUDA's headers, and threads as loops, are in the folder `host_headers`.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "host_headers"

COMPILER = shutil.which("g++") or shutil.which("clang++")

needs_host_compiler = pytest.mark.skipif(
    COMPILER is None, reason="no C++ compiler (g++ or clang++) is on this machine"
)


def compile_host(source: str, folder: Path, optimize: int = 0) -> ctypes.CDLL:
    """Compile device code, with functions that are declared extern "C" to call it by."""
    text = folder / "device.cpp"
    text.write_text(f'#include "threads.h"\n{source}')
    library = folder / "device.so"
    words = ["-std=c++17", f"-O{optimize}", "-fno-strict-aliasing", "-shared", "-fPIC", "-w"]
    words.append(f"-I{FOLDER}")
    done = subprocess.run(
        [COMPILER, *words, str(text), "-o", str(library)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))
