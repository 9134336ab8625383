"""Loads saved functions: checks the file, then calls its machine code; no compiler is needed.

A file is a shared library for Linux with a note of owner "autotune": 32 bytes of SHA-256 of the
file (those bytes being zero), then a description as JSON.
"""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import json
import os
import weakref
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

from autotune.codegen.elf.elf_notes import find_note
from autotune.errors import LoadError
from autotune.runtime.cpu.compiled_kernel import Kernel
from autotune.runtime.cpu.openmp import SYMBOLS, find_openmp
from autotune.runtime.cpu.processor_features import missing_features
from autotune.runtime.signature import Signature
from autotune.system.available_cpus import thread_count
from autotune.system.host import architecture
from autotune.target import Target

FORMAT: Final = 1  # Version of the description; a file of a later one is refused.

OWNER: Final = "autotune"
DIGEST_BYTES: Final = 32


class LoadedFunction(Kernel):
    """A saved function, called with its arrays in order as the built one was.

    Attributes
    ----------
    signature : Signature
        What it takes.
    threads : int
        Threads that its parallel loops ask for.
    target : Target
        What it was compiled for.
    workload, config : mapping or None
        Template and arguments, and the knobs' values, where it was built from a template.
    cost_s : float or None
        Seconds per call where it was measured, if it was.
    """

    def __init__(self, library: ctypes.CDLL, description: Mapping[str, Any]) -> None:
        self._library = library
        signature = Signature.from_json(description["signature"])
        self.target = Target.parse(description["target"])
        self.workload: Mapping[str, Any] | None = description["workload"]
        self.config: Mapping[str, Any] | None = description["config"]
        self.cost_s: float | None = description["cost_s"]
        threads = 1
        if description["use_openmp"] is not None:
            openmp = find_openmp()
            if openmp is not None:
                use_openmp = getattr(library, description["use_openmp"])
                use_openmp(*(ctypes.c_void_p(openmp.addresses[name]) for name in SYMBOLS))
                threads = thread_count(self.target.threads)
        names = (description["entry"], description.get("bound_entry"))
        address, bound = (_address(library, name) for name in names)
        super().__init__(signature, address, threads, bound)

    def __repr__(self) -> str:
        return f"<loaded {self.signature.name} for {self.target}>"


def _address(library: ctypes.CDLL, name: str | None) -> int:
    """Return where a function of a library is; 0 if it has no name."""
    return 0 if name is None else ctypes.cast(library[name], ctypes.c_void_p).value or 0


def load(path: str | os.PathLike[str]) -> LoadedFunction:
    """Return a function that `BuiltFunction.save` wrote, ready to be called.

    It takes neither LLVM nor anything else that built it: NumPy is enough. The file is read once:
    it may be replaced or deleted while the function is in use. It holds machine code, so load
    only files that you trust.

    Parameters
    ----------
    path : path
        The library that was saved.

    Raises
    ------
    LoadError
        If the file cannot be read, is damaged or something else, was written by a later version,
        or needs a processor with more features.

    Examples
    --------
    >>> f = autotune.load("matmul.so")
    >>> f(a, b, c)
    """
    if not isinstance(path, str | os.PathLike):
        raise LoadError(f"load: expected the path of a library, got {path!r}")
    name = os.fspath(path)
    if os.path.exists(name) and not os.path.isfile(name):
        raise LoadError(f"cannot load {name}: it is not a file")
    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise LoadError(f"cannot load {name}: {why}") from error
    description = _description(name, data)
    _check_machine(name, description)
    try:
        library = mapped(data, "autotune")
        unload_with(library)
        return LoadedFunction(library, description)
    except ImportError as error:
        raise LoadError(f"cannot load {name}: a type of its arrays is missing: {error}") from error
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise LoadError(f"cannot load {name}: the system refuses its code: {reason}") from error


def seal(data: bytes) -> bytes:
    """Return a library whose note begins with zeros with its digest there instead."""
    start, _ = find_note(data, OWNER) or (0, 0)
    end = start + DIGEST_BYTES
    return data[:start] + _digest(data, start) + data[end:]


def _digest(data: bytes, start: int) -> bytes:
    digest = hashlib.sha256(data[:start])
    digest.update(bytes(DIGEST_BYTES))
    digest.update(data[start + DIGEST_BYTES :])
    return digest.digest()


def _description(name: str, data: bytes) -> Mapping[str, Any]:
    """Return the description in a file's note, once nothing is wrong with the file."""
    found = find_note(data, OWNER)
    if found is None:
        raise LoadError(
            f"cannot load {name}: it is not a saved function, or was cut off; "
            "expected a file written by save()"
        )
    start, end = found
    if data[start : start + DIGEST_BYTES] != _digest(data, start):
        raise LoadError(
            f"cannot load {name}: it is damaged, cut off or was changed since it was saved; "
            "save or copy it again"
        )
    description: Mapping[str, Any] = json.loads(data[start + DIGEST_BYTES : end])
    if description["format"] > FORMAT:
        raise LoadError(
            f"cannot load {name}: autotune {description['autotune']} wrote it in format "
            f"{description['format']}, this one reads up to {FORMAT}; update autotune here"
        )
    return description


def _check_machine(name: str, description: Mapping[str, Any]) -> None:
    if description["machine"] != architecture():
        raise LoadError(
            f"cannot load {name}: it is for {description['machine']}, "
            f"this machine is {architecture()}"
        )
    missing = missing_features(description["needs"])
    if missing:
        raise LoadError(
            f"cannot load {name}: it was built for {description['cpu']}, and this processor lacks "
            f"{', '.join(missing)}; build it for an older one, such as target "
            "'llvm -mcpu=x86-64-v3'"
        )


_loads = count(1)


def mapped(data: bytes, name: str) -> ctypes.CDLL:
    """Load a library that is no file, so that exactly these bytes run and none are left behind.

    A file would not do: the system takes one that has replaced another for the one that it loaded
    before, and one that is overwritten in place pulls the rug from under running code.

    `name`: what lists of the process's memory call it.

    Raises OSError if the system's loader refuses it.
    """
    number = os.memfd_create(name)
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        # Loaders know libraries by their paths: this one was never used.
        steps = f"{next(_loads):b}".replace("0", "/").replace("1", "./")
        return ctypes.CDLL(f"/proc/self/fd/{steps}{number}")


def unload_with(library: ctypes.CDLL) -> None:
    """Unload a library when it is no longer used."""
    weakref.finalize(library, _ctypes.dlclose, library._handle).atexit = False
