"""Compiles kernels in C and C++ by a compiler of the system, and makes them callable."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autotune.codegen.raw_text import raw_text
from autotune.errors import CodegenError, CompileError, TargetError, UsageError
from autotune.ir.stmt import CallForm, PrimFunc, Raw
from autotune.runtime.argument_checks import ArgumentChecker, Array
from autotune.runtime.cpu.openmp import bounded_spin, launches
from autotune.runtime.load_library import mapped, unload_with
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

# Refuses a function that times itself and returns something else than its time.
_WHY = '"a function that times itself must return float"'
_TIMED = {
    "c": f"_Static_assert(_Generic({{call}}, float: 1, default: 0), {_WHY});",
    "c++": "template <class... autotune_types>\n"
    "constexpr bool autotune_timed(float (*)(autotune_types...)) {{ return true; }}\n"
    "constexpr bool autotune_timed(...) {{ return false; }}\n"
    f"static_assert(autotune_timed(&{{name}}), {_WHY});",
}

# What compilers call a preprocessed text.
_PREPROCESSED = {"c": "cpp-output", "c++": "c++-cpp-output"}

# What a compiler or linker calls an error.
_ERROR = re.compile(r"error:|undefined reference|undefined symbol|cannot find", re.IGNORECASE)

# Options whose files are part of the text once it is preprocessed, and macros.
_OF_PREPROCESSOR = ("-D", "-U", "-I", "-include", "-imacros", "-iquote", "-isystem", "-idirafter")

# Options that may add files, or options, to a text.
_OF_FILES = ("-include", "-imacros", "-Wp,", "-Xpreprocessor", "-specs", "--", "@")


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
    #: Where relative paths in the options begin; the current folder if there is no such folder.
    folder: str = ""
    #: How it is called; None if it takes a pointer to each array.
    call: CallForm | None = None

    @classmethod
    def of(cls, function: PrimFunc) -> CSource:
        """Return the text of a function whose body is one in C or C++."""
        raw = function.body
        assert isinstance(raw, Raw)
        entry = _ENTRIES[raw.language].format(name=raw.name)
        if raw.call is not None and raw.call.times_itself:
            # In C, arguments of some values stand for all: the call is not evaluated.
            given = ("(void *) 1" if isinstance(a, int) else "1" for a in raw.call.arguments)
            call = f"{raw.name}({', '.join(given)})"
            entry = f"{entry}\n{_TIMED[raw.language].format(name=raw.name, call=call)}"
        text = f'#line 1 "macros"\n{raw_text(raw)}\n#line 1 "autotune"\n{entry}\n'
        own = Signature.of(function)
        return cls(own, text, raw.language, raw.command, raw.folder, raw.call)


@dataclass(frozen=True)
class PreprocessedSource:
    """A kernel in C or C++ with the text that is compiled: all headers are read.

    A text that includes nothing is compiled as it is, which saves a start of the compiler.
    """

    source: CSource
    #: The compiler's absolute path.
    compiler: str
    #: What it calls itself, with its version.
    version: str
    #: The preprocessed text; None if it cannot be preprocessed.
    text: bytes | None
    #: What a compiler calls this kind of text.
    kind: str

    @classmethod
    def of(cls, function: PrimFunc) -> PreprocessedSource:
        """Run the preprocessor on the text of a function, if need be.

        Raises TargetError if there is no such compiler, or it does not start.
        """
        source = CSource.of(function)
        path = _compiler_of(source)
        given, kind = source.text.encode(), source.language
        if not _may_include(source):
            return cls(source, path, version_of(path), given, kind)
        done = _run(path, ["-E", *_arguments(source, kind)], given, source.folder)
        text = None if done.returncode else done.stdout
        return cls(source, path, version_of(path), text, _PREPROCESSED[kind])

    @property
    def identity(self) -> tuple[str, ...]:
        """What machine code depends on beside text and options; empty if that is not known."""
        return () if self.text is None else (self.version, self.text.decode("latin-1"))


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


def compile_shared(given: PreprocessedSource, target: Target) -> SharedObject:
    """Compile a kernel for another process to load.

    Raises CompileError, with the first error, if the compiler refuses the text.
    """
    source, path, flags = given.source, given.compiler, given.source.command[1:]
    if given.text is None or _name_libraries(flags, source.folder):
        return SharedObject(source, target, _compiled(given))
    cache = default_cache()
    # "native" stands for this processor. A compiler may be a script that changes.
    machine = (processor_name(), *sorted(cpu_flags()), path, str(os.stat(path).st_mtime_ns))
    key = cache_key(source.text, source.language, *given.identity, *flags, *machine)
    code = cache.get(key)
    if code is None:
        code = _compiled(given)
        cache.put(key, code)
    return SharedObject(source, target, code)


def _compiler_of(source: CSource) -> str:
    """Return the compiler's absolute path."""
    path = shutil.which(source.command[0])
    if path is None:
        raise TargetError(f"there is no compiler {source.command[0]!r} on this machine's path")
    return os.path.abspath(path)


def _name_libraries(flags: Sequence[str], folder: str) -> bool:
    """Whether options name files, or folders of files, that no preprocessor reads."""
    return any(
        flag.startswith(("-L", "@")) or "/" in flag or os.path.isfile(os.path.join(folder, flag))
        for flag in flags
        if not flag.startswith(_OF_PREPROCESSOR)
    )


def _may_include(source: CSource) -> bool:
    """Whether files may become part of a text when it is preprocessed."""
    text = source.text.replace("\\\n", "")  # a line may go on in the next one
    words = ("include", "import", "embed")
    return any(word in text for word in words) or any(
        flag.startswith(_OF_FILES) for flag in source.command[1:]
    )


def _arguments(source: CSource, kind: str) -> list[str]:
    """Return the words after the compiler for a text of some kind."""
    return ["-pipe", "-x", kind, "-", "-x", "none", *source.command[1:]]


def _run(
    compiler: str, arguments: Sequence[str], text: bytes = b"", folder: str = "", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a compiler with a text in a folder; TargetError if it does not start."""
    try:
        return subprocess.run(
            [compiler, *arguments],
            input=text,
            capture_output=True,
            cwd=folder if os.path.isdir(folder) else None,
            env={**os.environ, "LC_ALL": "C", **variables},
            check=False,
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise TargetError(f"the compiler {compiler!r} cannot be started: {why}") from error


def _compiled(given: PreprocessedSource) -> bytes:
    """Return a shared object of the preprocessed text; of the text itself if that is refused.

    A compiler may warn of other things in a preprocessed text, which options make an error.
    """
    source = given.source
    if given.text is not None and given.kind != source.language:
        code, _ = _shared_object(given, given.text, given.kind)
        if code is not None:
            return code
    code, log = _shared_object(given, source.text.encode(), source.language)
    if code is not None:
        return code
    kept = keep_source(source.text, log, f".{source.language.replace('+', 'p')}")
    whole = "" if kept is None else f" (whole text and log: {kept})"
    raise CompileError(f"{source.command[0]}: {_first_error(log)}{whole}", log, source.text, kept)


def _shared_object(given: PreprocessedSource, text: bytes, kind: str) -> tuple[bytes | None, str]:
    """Return a shared object of a text of some kind, None if it is refused, and what was said."""
    source = given.source
    with scratch_folder() as folder:
        file = folder / "kernel.so"
        arguments = ["-shared", "-fPIC", "-o", str(file), *_arguments(source, kind)]
        done = _run(given.compiler, arguments, text, source.folder, TMPDIR=str(folder))
        log = done.stderr.decode(errors="replace")
        if done.returncode:
            return None, log
        try:
            return file.read_bytes(), log
        except OSError as error:  # an option such as -fsyntax-only
            raise CodegenError(f"{source.command[0]} wrote no shared object") from error


def _first_error(log: str) -> str:
    """Return the line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next(filter(_ERROR.search, lines), lines[-1] if lines else "it failed without a word")


@functools.cache
def version_of(compiler: str) -> str:
    """Return what a compiler calls itself, and its version; TargetError if it does not start."""
    return _run(compiler, ["--version"]).stdout.decode(errors="replace").partition("\n")[0].strip()


class LoadedObject:
    """A shared object in this process, called with its arrays in order; see `DeviceFunction`.

    `binary`: compiled for this machine, here or in another process.

    Its code is unloaded when it and all that `bind` returned are gone.

    Raises CodegenError if the system's loader refuses it.
    """

    def __init__(self, binary: SharedObject) -> None:
        self.signature = binary.signature
        self.source = binary.source.text
        self.threads = thread_count(binary.target.threads)
        self._checker = ArgumentChecker(binary.signature)
        self._library = _loaded(binary.code)
        address = ctypes.c_void_p.in_dll(self._library, _ENTRY).value
        arrays = len(binary.signature.parameters)
        self._form = binary.source.call or CallForm(tuple(range(arrays)))
        #: Whether calls return the milliseconds that the function says it took.
        self.times_itself = self._form.times_itself
        #: Positions of the inputs that it may overwrite.
        self.scratch = self._form.scratch
        self._is_plain = self._form.arguments == tuple(range(arrays))
        types = [
            ctypes.c_void_p if isinstance(a, int) else _number_type(a[0])
            for a in self._form.arguments
        ]
        returned = ctypes.c_float if self.times_itself else None
        self._call = ctypes.CFUNCTYPE(returned, *types)(address or 0)
        self._openmp = _OpenMPThreads.of(self._library)
        if self._openmp is None or not self._openmp.is_kept_by(self._library):
            unload_with(self._library)

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of the CPU, inputs then outputs; outputs are written in place.

        Raises ArgumentError if an array does not have the dtype, shape, layout or access that is
        needed, or an output overlaps another argument. Raises UsageError if it returns a time that
        is none.
        """
        if self._form.copied or self.scratch:
            self.bind(*arrays)()
        else:
            self._run(self._given(self._checker.values(self._checker.arrays(arrays))))

    def bind(
        self, *arrays: Any, scratch: Sequence[Array] | None = None
    ) -> Callable[[], float | None]:
        """Check the arrays once and return a call without arguments, for calls in a row.

        The arrays must not be resized while the result is in use. The call returns the milliseconds
        that the function has measured, if it times itself.

        `scratch`: copies of the inputs that it may overwrite; by default it makes some.
        """
        held: list[Array] = list(self._checker.arrays(arrays))
        copies = [held[n].copy() for n in self.scratch] if scratch is None else scratch
        for position, array in zip(self.scratch, copies, strict=True):
            held[position] = array
        addresses = self._checker.values(held)
        given = [ctypes.c_void_p(a) if type(a) is int else a for a in self._given(addresses)]
        copied = [(addresses[to], addresses[of], held[of].nbytes) for of, to in self._form.copied]

        def call(_held: object = (arrays, held)) -> float | None:
            for goal, source, size in copied:
                ctypes.memmove(goal, source, size)
            return self._run(given)

        return call

    def _given(self, addresses: Sequence[int]) -> Sequence[Any]:
        """Return the arguments of the function, given where its arrays are."""
        if self._is_plain:
            return addresses
        return [
            addresses[a] if isinstance(a, int) else _number_type(a[0])(a[1])
            for a in self._form.arguments
        ]

    def _run(self, given: Sequence[Any]) -> float | None:
        """Call the function; return the milliseconds that it has measured, if it times itself."""
        found: float | None = self._run_on_threads(given)
        if found is not None and not 0 < found < math.inf:
            raise UsageError(
                f"{self.signature.name}: the function returned {found:g} as its time: it must be "
                "milliseconds > 0"
            )
        return found

    def _run_on_threads(self, given: Sequence[Any]) -> Any:
        openmp = self._openmp
        if openmp is None:
            return self._call(*given)
        with launches.lock:
            before, wanted = openmp.get(), launches.threads(self.threads)
            if before != wanted:  # to set takes three times as long as to get
                openmp.set(wanted)
            try:
                return self._call(*given)
            finally:
                if openmp.get() != before:
                    openmp.set(before)


def _number_type(dtype: str) -> Any:
    """Return the type of a number by value."""
    return np.ctypeslib.as_ctypes_type(np.dtype(dtype))


@dataclass(frozen=True)
class _OpenMPThreads:
    """Reads and sets the number of threads of the OpenMP runtime that a library uses."""

    get: Callable[[], int]
    set: Callable[[int], None]

    # The first library of each runtime, by the address of a function, is never unloaded: it holds
    # the runtime, in which threads wait.
    _kept: ClassVar[dict[int, ctypes.CDLL]] = {}

    @classmethod
    def of(cls, library: ctypes.CDLL) -> _OpenMPThreads | None:
        """Return those of a library; None if it uses no OpenMP."""
        try:
            # An attribute would make a cycle, and the library outlive its last use.
            read, write = library["omp_get_max_threads"], library["omp_set_num_threads"]
        except AttributeError:
            return None
        write.argtypes, write.restype = (ctypes.c_int,), None
        cls._kept.setdefault(ctypes.cast(write, ctypes.c_void_p).value or 0, library)
        return cls(read, write)

    def is_kept_by(self, library: ctypes.CDLL) -> bool:
        """Whether this library holds the runtime."""
        return library in self._kept.values()


def _loaded(code: bytes) -> ctypes.CDLL:
    """Load a shared object, which may load an OpenMP runtime."""
    try:
        with bounded_spin():
            return mapped(code, "kernel")
    except OSError as error:
        raise CodegenError(f"the compiled code cannot be loaded: {error}") from error
