"""CUDA source to machine code by NVRTC, NVIDIA's runtime compiler: no driver, no GPU needed.

What a kernel takes of the device is read off the compiler's log and the machine code.
"""

from __future__ import annotations

import functools
import json
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Any

from autotune.errors import CompileError, TargetError
from autotune.runtime.cuda.cuda_toolkit import load_toolkit
from autotune.runtime.object_cache import ObjectCache, cache_key
from autotune.runtime.refused_sources import keep_source

# Shared memory that a kernel may declare with a size; more must be asked for at the launch.
LARGEST_STATIC_SHARED_BYTES = 48 * 1024

# Of what `Cubin.to_bytes` returns; it changes with it, so that caches hold nothing unreadable.
_FORMAT = "cubin 2"

_ELF = b"\x7fELF"

_STANDARD_FLAGS = ("--std=c++17", "--ptxas-options=-v")


@dataclass(frozen=True)
class Usage:
    """The resources and parameters of one kernel."""

    #: Of each thread.
    registers: int
    #: Written to and read from memory because registers did not suffice, per thread.
    spill_store_bytes: int
    spill_load_bytes: int
    #: Of each thread: arrays that are not in registers, and spills.
    stack_bytes: int
    #: Of each block, declared with a size in the kernel.
    shared_bytes: int
    #: Sizes of the kernel's parameters, in order.
    parameter_bytes: tuple[int, ...] = ()
    #: Most threads of a block by ``__launch_bounds__``; None without it.
    max_threads: int | None = None


@dataclass(frozen=True)
class Cubin:
    """Machine code of one architecture."""

    #: Such as "sm_90".
    arch: str
    #: The ELF image that a driver loads.
    code: bytes = field(repr=False)
    #: What the compiler said, warnings included.
    log: str = field(repr=False)
    #: What each kernel takes, by its symbol.
    kernels: Mapping[str, Usage]
    #: Symbols of the names that were asked for.
    symbols: Mapping[str, str]

    def usage(self, name: str) -> Usage:
        """Return the resources of the kernel with this name or symbol."""
        return self.kernels[self.symbols.get(name, name)]

    def to_bytes(self) -> bytes:
        """Return all of it: a line of JSON, then the code."""
        kernels = {name: asdict(usage) for name, usage in self.kernels.items()}
        head = {"arch": self.arch, "log": self.log, "kernels": kernels, "symbols": {**self.symbols}}
        return json.dumps(head).encode() + b"\n" + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Cubin:
        """Rebuild from the result of `to_bytes`."""
        line, _, code = data.partition(b"\n")
        head = json.loads(line)
        kernels = {
            name: Usage(**{**usage, "parameter_bytes": tuple(usage["parameter_bytes"])})
            for name, usage in head["kernels"].items()
        }
        return cls(head["arch"], code, head["log"], kernels, head["symbols"])


def compile_cubin(
    source: str,
    arch: str,
    flags: Sequence[str] = (),
    names: Sequence[str] = (),
    cache: ObjectCache | None = None,
) -> Cubin:
    """Compile CUDA C++ to machine code.

    `source`: the whole text; it may include cuda_fp16.h, cuda_bf16.h and type_traits.
    `arch`: architecture, such as "sm_90" or "sm_90a".
    `flags`: further options of NVRTC, such as "--use_fast_math"; C++17 is chosen unless they say
    otherwise.
    `names`: C++ names whose symbols are wanted, such as "scale<float>"; what they name is compiled
    even if nothing else uses it. Kernels declared ``extern "C"`` need none.
    `cache`: where compiled code is kept.

    Raises CompileError if the compiler refuses the source; the message names the file that it is
    saved in. Raises TargetError if there is no compiler, or it does not know the architecture.
    """
    check_arch(arch)
    words = [f"--gpu-architecture={arch}", *_standard(flags), *flags]
    headers = [text.decode() for text in _headers().values()]
    key = cache_key(_FORMAT, source, *headers, compiler_identity(), *words, "names", *names)
    found = cache.get(key, _is_cubin) if cache is not None else None
    if found is not None:
        return Cubin.from_bytes(found)
    status, log, code, symbols = _compile(source, words, names)
    kernels = parse_usage(log)
    problem = _problem(status, log, kernels)
    if problem is not None:
        path = keep_source(source, log)
        saved = f"is in {path}" if path is not None else "could not be saved"
        raise CompileError(
            f"NVRTC {_text(version())} refuses the kernel for {arch}: {problem}; "
            f"the full source {saved}",
            log,
            source,
            path,
        )
    infos = kernel_infos(code)
    kernels = {name: replace(usage, **infos[name]) for name, usage in kernels.items()}
    cubin = Cubin(arch, code, log, kernels, symbols)
    if cache is not None:
        cache.put(key, cubin.to_bytes())
    return cubin


def _is_cubin(data: bytes) -> bool:
    """Whether some bytes are a result of `Cubin.to_bytes`."""
    try:
        return Cubin.from_bytes(data).code.startswith(_ELF)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def _standard(flags: Sequence[str]) -> list[str]:
    """Return the options that every kernel is compiled with, except those that `flags` replace."""
    chosen = {flag.partition("=")[0] for flag in flags}
    words = [flag for flag in _STANDARD_FLAGS if flag.partition("=")[0] not in chosen]
    include = load_toolkit()[0].include
    return words if include is None else [*words, f"--include-path={include}"]


# -- what the log tells ------------------------------------------------------------------------

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse_usage(log: str) -> dict[str, Usage]:
    """Return the resources of each kernel, by its symbol, from a log of --ptxas-options=-v."""
    parts = _ENTRY.split(log)
    return {name: _usage(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _usage(text: str) -> Usage:
    stack = _STACK.search(text)
    stack_bytes, stores, loads = map(int, stack.groups()) if stack else (0, 0, 0)
    return Usage(_number(_REGISTERS, text), stores, loads, stack_bytes, _number(_SHARED, text))


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0


_ERROR = re.compile(r"^.*\b(?:error|fatal)\b.*$", re.MULTILINE)


def _problem(status: int, log: str, kernels: Mapping[str, Usage]) -> str | None:
    """Return the first thing that is wrong, None if nothing is."""
    for name, usage in kernels.items():
        # With -v the compiler does not say this itself: some versions fail without a word,
        # others make code that no device takes.
        if usage.shared_bytes > LARGEST_STATIC_SHARED_BYTES:
            return (
                f"{name} declares {usage.shared_bytes} bytes of shared memory, at most "
                f"{LARGEST_STATIC_SHARED_BYTES} can be declared: use extern __shared__"
            )
    if status == 0:
        return None
    found = _ERROR.search(log)
    first = " ".join(found[0].split()) if found else f"error {status} without a message"
    if "could not open source file" in first and load_toolkit()[0].include is None:
        first += " (the headers come with PyPI's nvidia-cuda-runtime)"
    return first


# -- the library -------------------------------------------------------------------------------


@functools.cache
def version() -> tuple[int, int]:
    """Return the version of NVRTC.

    Raises TargetError if it is not installed.
    """
    major, minor = _call("nvrtcVersion")
    return major, minor


@functools.cache
def compiler_identity() -> str:
    """Return an identification of the compiler's build, for keys of caches."""
    toolkit, _ = load_toolkit()
    files = [toolkit.library]
    if toolkit.include is not None:
        files.append(str(toolkit.include / "cuda_fp16.h"))
    states = [(state.st_size, state.st_mtime_ns) for state in map(os.stat, files)]
    return f"nvrtc {_text(version())} {states}"


@functools.cache
def architectures() -> tuple[str, ...]:
    """Return the names of the architectures that NVRTC compiles for, without their variants."""
    (numbers,) = _call("nvrtcGetSupportedArchs")
    return tuple(f"sm_{number}" for number in numbers)


def check_arch(arch: str) -> None:
    """Raise TargetError if NVRTC is not installed, or does not know an architecture."""
    known = architectures()
    if re.sub(r"[af]$", "", arch) not in known:
        raise TargetError(
            f"NVRTC {_text(version())} does not know the architecture {arch!r}: expected one of "
            f"{', '.join(known)}, which end in a or f for the features of that one alone"
        )


def _call(function: str, *args: object) -> list[Any]:
    """Call a function of NVRTC; return its results without the status."""
    values: list[Any]
    status, *values = getattr(load_toolkit()[1], function)(*args)
    if status:
        raise TargetError(f"NVRTC does not work: {function} fails with error {int(status)}")
    return values


def _compile(
    source: str, words: Sequence[str], names: Sequence[str]
) -> tuple[int, str, bytes, dict[str, str]]:
    """Return the compiler's status and log, and machine code and symbols, none if it failed."""
    headers = _headers()
    made = list(headers.values()), list(headers)
    (program,) = _call("nvrtcCreateProgram", source.encode(), b"kernel.cu", len(headers), *made)
    try:
        for name in names:
            _call("nvrtcAddNameExpression", program, name.encode())
        options = [word.encode() for word in words]
        (status,) = load_toolkit()[1].nvrtcCompileProgram(program, len(options), options)
        log = _bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if status:
            return int(status), log, b"", {}
        symbols = {n: _call("nvrtcGetLoweredName", program, n.encode())[0].decode() for n in names}
        return 0, log, _bytes("CUBIN", program), symbols
    finally:
        _call("nvrtcDestroyProgram", program)


@functools.cache
def _headers() -> dict[bytes, bytes]:
    """Return the texts of headers that sources may include, and NVRTC does not bring, by name."""
    return {b"type_traits": files("autotune.runtime.cuda").joinpath("type_traits.h").read_bytes()}


def _bytes(what: str, program: Any) -> bytes:
    (size,) = _call(f"nvrtcGet{what}Size", program)
    buffer = bytearray(size)
    _call(f"nvrtcGet{what}", program, buffer)
    return bytes(buffer)


def _text(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))


_PREFIX = ".nv.info."
_SIZED = 4  # Format of an attribute whose data follow; others have at most two bytes, in the head.
_PARAMETER, _MAX_THREADS = 0x17, 0x05

_HEAD = struct.Struct("<BBH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


def kernel_infos(code: bytes) -> dict[str, dict[str, Any]]:
    """Return the facts about the kernels of a cubin, by their symbols: some fields of `Usage`.

    A cubin is an ELF file; of each kernel it has a section ``.nv.info.SYMBOL`` of attributes, which
    NVIDIA's own tools read (``cuobjdump -elf``) and whose format has been the same since sm_70.
    """
    return {
        name.removeprefix(_PREFIX): _info(data)
        for name, data in _sections(code)
        if name.startswith(_PREFIX)
    }


def _sections(code: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the sections of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    heads = [_SECTION.unpack_from(code, table + size * number) for number in range(count)]
    first = heads[names][4]
    for name, _, _, _, start, length, *_ in heads:
        end = code.index(b"\0", first + name)
        yield code[first + name : end].decode(), code[start : start + length]


def _info(data: bytes) -> dict[str, Any]:
    sizes: dict[int, int] = {}
    max_threads = None
    for attribute, content in _attributes(data):
        if attribute == _PARAMETER:
            _, ordinal, _, word = struct.unpack("<IHHI", content)
            sizes[ordinal] = word >> 18
        elif attribute == _MAX_THREADS:
            x, y, z = struct.unpack("<III", content)
            max_threads = x * y * z
    parameter_bytes = tuple(sizes[ordinal] for ordinal in sorted(sizes))
    return {"parameter_bytes": parameter_bytes, "max_threads": max_threads}


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        form, attribute, value = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        length = value if form == _SIZED else 0
        yield attribute, data[position : position + length]
        position += length
