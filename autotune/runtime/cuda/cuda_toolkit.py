"""NVIDIA's runtime compiler and its headers: found by cuda-pathfinder, called by cuda-bindings.

This is the only file that imports the two. Nothing here needs a driver or a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import TargetError

REMEDY = "pip install 'kernel-autotune[cuda13]' or [cuda12], or set CUDA_PATH to a CUDA toolkit"


@dataclass(frozen=True)
class Toolkit:
    """The runtime compiler that this process has loaded, and the headers that belong to it."""

    #: Path of libnvrtc.
    library: str
    #: Folder of cuda_fp16.h and the like, None if there is none.
    include: Path | None


@functools.cache
def load_toolkit() -> tuple[Toolkit, Any]:
    """Load the runtime compiler; return where it is, and ``cuda.bindings.nvrtc``, which calls it.

    The toolkit that CUDA_PATH or CUDA_HOME names goes first, then what cuda-pathfinder finds.

    Raises TargetError if there is no compiler, or none that can be loaded.
    """
    try:
        from cuda import pathfinder
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise _unusable(f"cannot be called without cuda-bindings ({error})") from error
    root = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME")
    refused = _load_from(Path(root)) if root else None
    try:
        # cuda-bindings and cuda-pathfinder take the compiler that is loaded already, if one is.
        library = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
    except RuntimeError as error:
        if isinstance(error, pathfinder.DynamicLibNotFoundError) and refused is None:
            raise _unusable("is not installed") from error
        raise _unusable(f"cannot be loaded ({refused or ' '.join(str(error).split())})") from error
    if root and Path(root) in Path(library).parents:
        include = Path(root, "include")
    else:
        include = Path(pathfinder.find_nvidia_header_directory("cudart") or "/usr/include")
    return Toolkit(library, include if (include / "cuda_fp16.h").is_file() else None), nvrtc


def _load_from(root: Path) -> str | None:
    """Load the compiler of an installed toolkit; return why it cannot be loaded, if it is there."""
    refused = None
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
        for path in sorted((root / folder).glob("libnvrtc.so.1[23]"), reverse=True):
            try:
                ctypes.CDLL(str(path))
                return None
            except OSError as error:
                refused = refused or " ".join(str(error).split())
    return refused


def _unusable(problem: str) -> TargetError:
    return TargetError(f"NVIDIA's runtime compiler NVRTC {problem}: {REMEDY}")
