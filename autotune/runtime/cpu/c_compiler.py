"""Compiles kernels in C and C++ by a compiler of the system, and makes them callable."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from autotune.codegen.raw_text import raw_text
from autotune.errors import CodegenError, CompileError, TargetError
from autotune.ir.stmt import PrimFunc, Raw
from autotune.runtime.argument_checks import ArgumentChecker, Array
from autotune.runtime.cpu.openmp import bounded_spin, launches
from autotune.runtime.object_cache import cache_key, default_cache
from autotune.runtime.refused_sources import keep_source
from autotune.runtime.signature import Signature
from autotune.system.available_cpus import thread_count
from autotune.system.host import cpu_flags, processor_name
from autotune.system.scratch import scratch_folder
from autotune.target import Target

# A variable that holds the function's address: it finds the function whatever its symbol is called.
_ENTRY = "autotune_entry"
_ENTRIES = {
    "c": f"void (*const {_ENTRY})(void) = (void (*)(void)) {{name}};",
    "c++": f'extern "C" {{{{ extern void (*const {_ENTRY})(); }}}}\n'
    f"void (*const {_ENTRY})() = reinterpret_cast<void (*)()>(&{{name}});",
}

# What a compiler or linker calls an error.
_ERROR = re.compile(r"error:|undefined reference|undefined symbol|cannot find", re.IGNORECASE)


@dataclass(frozen=True)
class CSource:
    """A kernel in C or C++, with all that its machine code depends on: plain data."""

    #: What it takes.
    signature: Signature
    #: The whole text.
    text: str
    #: "c" or "c++".
    language: str
    #: The compiler, and options for it.
    command: tuple[str, ...]

    @classmethod
    def of(cls, function: PrimFunc) -> CSource:
        """Return the text of a function whose body is one in C or C++."""
        raw = function.body
        assert isinstance(raw, Raw)
        entry = _ENTRIES[raw.language].format(name=raw.name)
        text = f'#line 1 "macros"\n{raw_text(raw)}\n#line 1 "autotune"\n{entry}\n'
        return cls(Signature.of(function), text, raw.language, raw.command)


@dataclass(frozen=True)
class SharedObject:
    """A shared object with all facts needed to load and call it: plain data."""

    #: What was compiled.
    source: CSource
    #: What it was compiled for.
    target: Target
    #: Content of the file.
    code: bytes

    resources = None

    @property
    def signature(self) -> Signature:
        """What it takes."""
        return self.source.signature


def compile_shared(source: CSource, target: Target) -> SharedObject:
    """Compile a kernel for another process to load.

    Raises TargetError if there is no such compiler. Raises CompileError, with the first error, if
    it refuses the text.
    """
    compiler, *flags = source.command
    path = shutil.which(compiler)
    if path is None:
        raise TargetError(f"there is no compiler {compiler!r} on this machine's path")
    cache = default_cache()
    # "native" stands for this processor.
    machine = (processor_name(), *sorted(cpu_flags()))
    key = cache_key(source.text, source.language, version_of(path), *flags, *machine)
    code = cache.get(key)
    if code is None:
        code = _compiled(path, source, flags)
        cache.put(key, code)
    return SharedObject(source, target, code)


def _compiled(compiler: str, source: CSource, flags: Sequence[str]) -> bytes:
    with scratch_folder() as folder:
        file = folder / "kernel.so"
        kind = ["-x", source.language, "-", "-x", "none"]
        done = subprocess.run(
            [compiler, "-shared", "-fPIC", "-pipe", "-o", str(file), *kind, *flags],
            input=source.text.encode(),
            capture_output=True,
            cwd=folder,  # what else it writes
            env={**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)},
            check=False,
        )
        log = done.stderr.decode(errors="replace")
        if done.returncode:
            kept = keep_source(source.text, log, f".{source.language.replace('+', 'p')}")
            whole = "" if kept is None else f" (whole text and log: {kept})"
            message = f"{source.command[0]}: {_first_error(log)}{whole}"
            raise CompileError(message, log, source.text, kept)
        try:
            return file.read_bytes()
        except OSError as error:  # an option such as -fsyntax-only
            raise CodegenError(f"{source.command[0]} wrote no shared object") from error


def _first_error(log: str) -> str:
    """Return the line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next(filter(_ERROR.search, lines), lines[-1] if lines else "it failed without a word")


@functools.cache
def version_of(compiler: str) -> str:
    """Return what a compiler calls itself, and its version."""
    done = subprocess.run(
        [compiler, "--version"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    return done.stdout.decode(errors="replace").partition("\n")[0].strip()


class LoadedObject:
    """A shared object in this process, called with its arrays in order; see `DeviceFunction`.

    `binary`: compiled for this machine, here or in another process.

    Raises CodegenError if the system's loader refuses it.
    """

    def __init__(self, binary: SharedObject) -> None:
        self.signature = binary.signature
        self.source = binary.source.text
        self.threads = thread_count(binary.target.threads)
        self._checker = ArgumentChecker(binary.signature)
        self._library = _loaded(binary.code)
        address = ctypes.c_void_p.in_dll(self._library, _ENTRY).value
        types = [ctypes.c_void_p] * len(binary.signature.parameters)
        self._call = ctypes.CFUNCTYPE(None, *types)(address or 0)
        # OpenMP's, if the kernel uses that.
        self._set_threads = getattr(self._library, "omp_set_num_threads", None)

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of the CPU, inputs then outputs; outputs are written in place.

        Raises ArgumentError if an array does not have the dtype, shape, layout or access that is
        needed, or an output overlaps another argument.
        """
        self._run(self._checker.values(self._checker.arrays(arrays)))

    def bind(self, *arrays: Any) -> Callable[[], None]:
        """Check the arrays once and return a call without arguments, for calls in a row.

        The arrays must not be resized while the result is in use.
        """
        held: Sequence[Array] = self._checker.arrays(arrays)
        # Converted once.
        addresses = [ctypes.c_void_p(address) for address in self._checker.values(held)]

        def call(_held: object = (arrays, held)) -> None:
            self._run(addresses)

        return call

    def _run(self, addresses: Sequence[Any]) -> None:
        if self._set_threads is None:
            self._call(*addresses)
            return
        with launches.lock:
            self._set_threads(launches.threads(self.threads))
            self._call(*addresses)


def _loaded(code: bytes) -> ctypes.CDLL:
    """Load a shared object that is no file, so that none is left behind."""
    number = os.memfd_create("kernel", os.MFD_CLOEXEC)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(code)
        with bounded_spin():
            return ctypes.CDLL(_new_path(number))
    except OSError as error:
        raise CodegenError(f"the compiled code cannot be loaded: {error}") from error
    finally:
        os.close(number)


_loads = count(1)


def _new_path(number: int) -> str:
    """Return the path of an open file that was never used: a loader knows libraries by paths."""
    steps = f"{next(_loads):b}".replace("0", "/").replace("1", "./")
    return f"/proc/self/fd/{steps}{number}"
