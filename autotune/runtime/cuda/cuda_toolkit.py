"""Where NVIDIA's runtime compiler and its headers are: in PyPI's wheels or in an installed toolkit.

Nothing here needs a driver or a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import TargetError

REMEDY = "pip install 'kernel-autotune[cuda13]' or [cuda12], or set CUDA_PATH to a CUDA toolkit"

_MAJORS = (13, 12)
"""Major versions of CUDA whose libraries are looked for, the newest first."""


@dataclass(frozen=True)
class Toolkit:
    """A runtime compiler that can be loaded, and the headers that belong to it.

    Attributes
    ----------
    library : str
        Path of libnvrtc, or its name where the system's loader finds it.
    include : Path or None
        Folder of cuda_fp16.h and the like, None if there is none.
    """

    library: str
    include: Path | None


def candidates() -> Iterator[Toolkit]:
    """Yield what to try, best first: CUDA_PATH, PyPI's wheels, the usual folder, the loader's."""
    chosen = os.environ.get("CUDA_PATH") or os.environ.get("CUDA_HOME")
    if chosen:
        yield from _installed(Path(chosen))
    for site in _wheels():
        yield from _toolkit(site / "cu13" / "lib", site / "cu13" / "include")
        yield from _toolkit(site / "cuda_nvrtc" / "lib", site / "cuda_runtime" / "include")
    yield from _installed(Path("/usr/local/cuda"))
    for major in _MAJORS:
        yield Toolkit(f"libnvrtc.so.{major}", _headers(Path("/usr/include")))


def _wheels() -> list[Path]:
    """Folders that the packages of NVIDIA share."""
    spec = importlib.util.find_spec("nvidia")
    return [] if spec is None else [Path(f) for f in spec.submodule_search_locations or ()]


def _installed(root: Path) -> Iterator[Toolkit]:
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
        yield from _toolkit(root / folder, root / "include")


def _toolkit(libraries: Path, include: Path) -> Iterator[Toolkit]:
    for major in _MAJORS:
        path = libraries / f"libnvrtc.so.{major}"
        if path.is_file():
            yield Toolkit(str(path), _headers(include))


def _headers(folder: Path) -> Path | None:
    return folder if (folder / "cuda_fp16.h").is_file() else None


@functools.cache
def load_toolkit() -> tuple[Toolkit, ctypes.CDLL]:
    """Load the first runtime compiler that can be loaded.

    Raises
    ------
    TargetError
        If there is none.
    """
    refused = []
    for toolkit in candidates():
        try:
            return toolkit, ctypes.CDLL(toolkit.library)
        except OSError as error:
            if os.path.isabs(toolkit.library):
                refused.append(" ".join(str(error).split()))
    problem = f"cannot be loaded ({refused[0]})" if refused else "is not installed"
    raise TargetError(f"NVIDIA's runtime compiler NVRTC {problem}: {REMEDY}")
