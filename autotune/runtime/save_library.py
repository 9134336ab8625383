"""Writes a compiled function as a shared library and a C header, without a compiler or linker."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.codegen.elf.elf_notes import MAGIC, note
from autotune.codegen.elf.linker import link
from autotune.codegen.elf.object_reader import (
    ALLOC,
    ElfSymbol,
    RelocatableObject,
    Section,
    read_object,
)
from autotune.codegen.llvm import LLVMSource
from autotune.errors import CodegenError, SaveError
from autotune.runtime.argument_checks import Array
from autotune.runtime.cpu.aligned_arrays import ALIGNMENT
from autotune.runtime.cpu.c_header import HEADER_SIGN, c_name, header
from autotune.runtime.cpu.dispatch_rule import bound_entry
from autotune.runtime.cpu.llvm_compiler import (
    ChoiceFunction,
    CompiledFunction,
    cpu_and_features,
    object_code,
)
from autotune.runtime.cpu.parallel_launch import launch_source
from autotune.runtime.cpu.processor_features import known_cpus, needed_features
from autotune.runtime.load_library import DIGEST_BYTES, FORMAT, OWNER, seal
from autotune.system.host import architecture
from autotune.system.version import __version__
from autotune.target import Target
from records.storage.files import replacing

#: Where the functions may be that kernels call: memory, threads, mathematics, half precision.
#: The C library itself has the functions of threads since glibc 2.32.
_LIBRARIES = ("libc.so.6", "libpthread.so.0", "libm.so.6", "libgcc_s.so.1")

_CONSTANT = "constant{}"  # Symbol of a constant inside a library.


def save(
    kernel: CompiledFunction | ChoiceFunction,
    path: str | os.PathLike[str],
    workload: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    cost_s: float | None = None,
) -> Path:
    """Write `kernel` to `path`, and its C header beside it; return the header's path.

    The machine code is that of `kernel`, byte for byte. No file appears before both are written.

    `path`: the library; its folder must exist. What was saved there earlier is replaced, and
    nothing else is.
    `workload`, `config`, `cost_s`: where it comes from: JSON data that `load` hands on.

    Raises SaveError if a file cannot be written, or it is not known what processor the code needs.
    Raises CodegenError if the machine is not one that libraries can be made for.
    """
    library, header_path = _checked_paths(path)
    cpu, needs = _checked_features(kernel.target)
    entry = c_name(kernel.module.entry)
    use_openmp = f"{entry}_use_openmp" if kernel.module.uses_threads else None
    description = {
        "format": FORMAT,
        "autotune": __version__,
        "machine": architecture(),
        "cpu": cpu,
        "needs": needs,
        "target": str(kernel.target),
        "signature": kernel.signature.to_json(),
        "entry": entry,
        "bound_entry": bound_entry(entry) if isinstance(kernel, ChoiceFunction) else None,
        "use_openmp": use_openmp,
        "workload": workload,
        "config": config,
        "cost_s": cost_s,
    }
    text = header(
        kernel.signature,
        entry,
        use_openmp,
        library=library.name,
        target=str(kernel.target),
        needs=needs,
        version=__version__,
    )
    code = _linked(kernel, entry, use_openmp, json.dumps(description))
    _write({header_path: text.encode(), library: code})
    return header_path


def check_can_save(path: str | os.PathLike[str], target: Target) -> None:
    """Raise the errors of `save` for a path and a target, before anything is built."""
    _checked_paths(path)
    _checked_features(target)


def _linked(
    kernel: CompiledFunction | ChoiceFunction, entry: str, use_openmp: str | None, description: str
) -> bytes:
    """Return the library's bytes."""
    parts = list(map(read_object, kernel.object_files()))
    objects: list[bytes] = []
    symbol = kernel.module.entry
    if kernel.constants:
        symbol = f"{entry}_with_constants"
        source = LLVMSource(_entry_with_constants(kernel, symbol), symbol, False)
        parts.append(_constant_data(kernel.constants))
        objects.append(object_code(source, kernel.target, None, None))
    exports = {symbol: entry}
    if isinstance(kernel, ChoiceFunction):
        exports[bound_entry(symbol)] = bound_entry(entry)
    if use_openmp is not None:
        launch = launch_source(use_openmp)
        objects.append(object_code(launch, kernel.target, None, None))
        exports[use_openmp] = use_openmp
    carried = note(OWNER, bytes(DIGEST_BYTES) + description.encode())
    return seal(link([*parts, *map(read_object, objects)], exports, _library_of, carried))


def _entry_with_constants(kernel: CompiledFunction | ChoiceFunction, symbol: str) -> str:
    """Return LLVM assembly that calls a function with constants that are in the library."""
    arrays = [f"ptr %array{n}" for n in range(len(kernel.signature.parameters))]
    sizes = [f"i64 %size{n}" for n in range(len(kernel.signature.sizes))]
    names = [_CONSTANT.format(n) for n in range(len(kernel.constants))]
    declared = "\n".join(f"@{name} = external hidden constant i8" for name in names)
    types = ["ptr"] * (len(arrays) + len(names)) + ["i64"] * len(sizes) + ["i32"]
    passed = [*arrays, *(f"ptr @{name}" for name in names), *sizes, "i32 %threads"]
    return (
        f"{declared}\n\ndeclare hidden i32 @{kernel.module.entry}({', '.join(types)})\n\n"
        f"define i32 @{symbol}({', '.join([*arrays, *sizes, 'i32 %threads'])}) nounwind {{\n"
        f"  %status = call i32 @{kernel.module.entry}({', '.join(passed)})\n"
        "  ret i32 %status\n}\n"
    )


def _constant_data(constants: Sequence[Array]) -> RelocatableObject:
    """Return arrays as read-only data, each with a symbol and at a cache line."""
    sections, symbols = {}, []
    for number, array in enumerate(constants):
        sections[number] = Section(array.tobytes(), ALLOC, ALIGNMENT)
        name = _CONSTANT.format(number)
        symbols.append(ElfSymbol(name, number, 0, array.nbytes, is_global=True))
    return RelocatableObject(sections, tuple(symbols), ())


def _library_of(symbol: str) -> str:
    """Return the system's library that has a function."""
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, symbol):
            return name
    raise CodegenError(f"the compiled code cannot be linked: no symbol {symbol}")


def _checked_features(target: Target) -> tuple[str, list[str]]:
    """Return the processor of a target in words, and the features that its code needs."""
    cpu, features = cpu_and_features(target.mcpu)
    needs = needed_features(cpu, features)
    if needs is None:
        raise SaveError(
            f"cannot save code for -mcpu={cpu}: which features it needs is not known; "
            f"use -mcpu=native or one of {', '.join(known_cpus())}"
        )
    return f"-mcpu={target.mcpu}" + (f" ({cpu})" if features else ""), needs


def _checked_paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Return where the library and its header go, once nothing speaks against it."""
    library = Path(os.fspath(path))
    if library.suffix == ".h":
        raise SaveError(
            f"cannot save {library}: .h is for the C header; name the library, "
            f"such as {library.with_suffix('.so')}"
        )
    if os.path.isdir(library) or not library.name:
        raise SaveError(f"cannot save {library}: it is a folder; name a file in it")
    if not os.path.isdir(library.parent):
        raise SaveError(f"cannot save {library}: make the folder {library.parent} first")
    header_path = library.with_suffix(".h")
    for file, sign in ((library, MAGIC), (header_path, HEADER_SIGN.encode())):
        if os.path.exists(file) and not _is_ours(file, sign):
            raise SaveError(
                f"cannot save {file}: something else has this name; delete it, or choose another"
            )
    if not os.access(library.parent, os.W_OK | os.X_OK):
        raise SaveError(f"cannot save {library}: Permission denied; choose another folder")
    return library, header_path


def _is_ours(path: Path, sign: bytes) -> bool:
    """Whether a file is one that `save` may replace, with `sign` near its beginning."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return sign in file.read(4096)
    except OSError as error:
        raise SaveError(f"cannot save {path}: {error.strerror}") from error


def _write(files: Mapping[Path, bytes]) -> None:
    """Write files under other names; once all are complete, let them take their places."""
    try:
        with contextlib.ExitStack() as complete:
            for path, data in files.items():
                with complete.enter_context(replacing(path)).open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
    except OSError as error:
        raise SaveError(f"cannot save {path}: {error.strerror}") from error
