"""Helpers for code with directives: a marked region of a program in C++ becomes a timed function.

A region begins with ``#pragma tuner start NAME a(float*:SIZE) n(int:SIZE)``, which lists what it
uses, and ends with ``#pragma tuner stop``. Regions that begin with ``#pragma tuner initialize`` and
``#pragma tuner deinitialize`` stand before and after each function's body, and are not timed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotune.errors import UsageError

_MARK = re.compile(r"^\s*#\s*pragma\s+tuner\s+(start|initialize|deinitialize|stop)\b(.*)$")
_PARAMETER = re.compile(r"(\w+)\(([^():]*)(?::([^()]*))?\)")
_DEFINE = re.compile(r"#\s*define\s+(\w+)\s+(\S+)")
_PARALLEL = re.compile(r"#\s*pragma\s+acc\s+parallel\b")
_DATA_CLAUSE = re.compile(r"\b(copy|copyin|copyout|create|no_create|present|deviceptr|attach)\(")

#: NumPy's types by those of C, without the words that leave them as they are.
_DTYPES = {
    "float": "float32", "double": "float64", "bool": "bool", "char": "int8", "short": "int16",
    "": "int32", "long": "int64", "size_t": "uint64", "ptrdiff_t": "int64",
    **{f"{u}int{bits}_t": f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_QUALIFIERS = {"int", "signed", "unsigned", "const", "volatile", "restrict", "__restrict__"}

#: Integers in new arrays are less than this.
_LARGEST_INTEGER = 1024

Data = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class OpenACC:
    """Directives of OpenACC."""

    enter: str = "#pragma acc enter data copyin({name}[:{size}])"
    leave: str = "#pragma acc exit data copyout({name}[:{size}])"


@dataclass(frozen=True)
class OpenMP:
    """Directives of OpenMP."""

    enter: str = "#pragma omp target enter data map(to: {name}[:{size}])"
    leave: str = "#pragma omp target exit data map(from: {name}[:{size}])"


@dataclass(frozen=True)
class Cxx:
    """The language C++."""


@dataclass(frozen=True)
class Fortran:
    """The language Fortran, which is not supported: UsageError."""

    def __post_init__(self) -> None:
        raise UsageError("regions in Fortran cannot be tuned, only those in C and C++")


@dataclass(frozen=True)
class Code:
    """The directives and the language of a program."""

    directive: OpenACC | OpenMP = field(default_factory=OpenACC)
    language: Cxx = field(default_factory=Cxx)


@dataclass(frozen=True)
class _Region:
    """A marked region: what it is, its name or "", what it uses, and its lines."""

    kind: str
    name: str
    uses: str
    body: str


def _regions(code: str) -> list[_Region]:
    """Return the marked regions of a program, in order; UsageError if one does not end."""
    found: list[_Region] = []
    begin: tuple[str, str] | None = None
    lines: list[str] = []
    for line in code.replace("\\\n", "").split("\n"):
        mark = _MARK.match(line)
        if mark is None:
            lines.append(line)
        elif mark[1] != "stop":
            begin, lines = (mark[1], mark[2].strip()), []
        elif begin is not None:
            name, _, uses = begin[1].partition(" ")
            found.append(_Region(begin[0], name, uses, "\n".join(lines)))
            begin = None
    if begin is not None:
        raise UsageError(f"'#pragma tuner {begin[0]} {begin[1]}' has no '#pragma tuner stop'")
    return found


def _kernels(code: str, kernel_name: str | None) -> list[_Region]:
    wanted = (region for region in _regions(code) if region.kind == "start")
    return [region for region in wanted if kernel_name in (None, region.name)]


def extract_preprocessor(code: str) -> list[str]:
    """Return the lines that define macros or include files."""
    lines = code.replace("\\\n", "").split("\n")
    return [line for line in lines if re.match(r"\s*#\s*(define|include)\b", line)]


def extract_directive_code(
    code: str, langs: Code | None = None, kernel_name: str | None = None
) -> dict[str, str]:
    """Return the statements of each region, or of one, by name."""
    return {region.name: region.body for region in _kernels(code, kernel_name)}


def extract_directive_data(
    code: str, langs: Code | None = None, kernel_name: str | None = None
) -> dict[str, dict[str, list[Any]]]:
    """Return what each region uses: for each name its type and the text of its size."""
    return {
        region.name: {
            name: [kind.strip(), size or 0] for name, kind, size in _PARAMETER.findall(region.uses)
        }
        for region in _kernels(code, kernel_name)
    }


def extract_directive_signature(
    code: str, langs: Code | None = None, kernel_name: str | None = None
) -> dict[str, str]:
    """Return the head of the function of each region, which returns milliseconds, by name."""
    found = {}
    for kernel, data in extract_directive_data(code, langs, kernel_name).items():
        kinds = (kind.replace("*", " * __restrict__") for kind, _ in data.values())
        taken = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, data, strict=True))
        found[kernel] = f"float {kernel}({taken})"
    return found


def extract_initialization_code(code: str, langs: Code | None = None) -> str:
    """Return the statements to run before each function's body."""
    return _joined(code, "initialize")


def extract_deinitialization_code(code: str, langs: Code | None = None) -> str:
    """Return the statements to run after each function's body."""
    return _joined(code, "deinitialize")


def _joined(code: str, kind: str) -> str:
    return "".join(f"{region.body}\n" for region in _regions(code) if region.kind == kind)


def wrap_timing(code: str, lang: Cxx | None = None) -> str:
    """Return statements that return the milliseconds that some statements take."""
    return f"{_timed(code)}\n{_RETURN}"


_RETURN = "return std::chrono::duration<float, std::milli>(autotune_end - autotune_begin).count();"


def _timed(code: str) -> str:
    now = "std::chrono::steady_clock::now();"
    return f"auto autotune_begin = {now}\n{code}\nauto autotune_end = {now}"


def wrap_data(
    code: str,
    langs: Code,
    data: Data,
    preprocessor: Iterable[str] | None = None,
    user_dimensions: Mapping[str, int] | None = None,
) -> str:
    """Return statements between directives that copy arrays to a device and back."""
    sizes = _array_sizes(data, preprocessor, user_dimensions)
    enter, leave = (
        [text.format(name=name, size=size) for name, size in sizes.items()]
        for text in (langs.directive.enter, langs.directive.leave)
    )
    return "\n".join([*enter, code, *leave])


def _array_sizes(
    data: Data,
    preprocessor: Iterable[str] | None,
    user_dimensions: Mapping[str, int] | None,
) -> dict[str, int]:
    return {
        name: parse_size(size, preprocessor, user_dimensions)
        for name, (kind, size) in data.items()
        if "*" in kind
    }


def parse_size(
    size: Any,
    preprocessor: Iterable[str] | None = None,
    dimensions: Mapping[str, int] | None = None,
) -> int:
    """Return a size: a number, a macro, a name among `dimensions`, or a product "N,M".

    Raises
    ------
    UsageError
        If a name has no number.
    """
    defined = filter(None, map(_DEFINE.search, preprocessor or ()))
    known: dict[str, Any] = {**{found[1]: found[2] for found in defined}, **(dimensions or {})}
    try:
        return math.prod(int(known.get(part, part)) for part in str(size).split(","))
    except ValueError:
        raise UsageError(
            f"the size {size!r} of a region is no number: define it as a macro, or give it in "
            "user_dimensions"
        ) from None


def generate_directive_function(
    preprocessor: Sequence[str],
    signature: str,
    body: str,
    langs: Code | None = None,
    data: Data | None = None,
    initialization: str = "",
    deinitialization: str = "",
    user_dimensions: Mapping[str, int] | None = None,
) -> str:
    """Return the text of a function that runs a region's statements and returns milliseconds.

    Copying `data` to a device and back is not timed.
    """
    langs, timed = langs or Code(), _timed(body)
    if data is not None:
        if isinstance(langs.directive, OpenACC):
            timed = _with_present(timed, _array_sizes(data, preprocessor, user_dimensions))
        timed = wrap_data(timed, langs, data, preprocessor, user_dimensions)
    sizes = [f"#define {name} {value}" for name, value in (user_dimensions or {}).items()]
    head = [*preprocessor, *sizes, "#include <chrono>", f'extern "C" {signature} {{']
    return "\n".join([*head, initialization, timed, deinitialization, _RETURN, "}", ""])


def _with_present(code: str, sizes: Mapping[str, int]) -> str:
    """Add ``present`` clauses for arrays to parallel regions, unless one has data clauses."""
    if any(_PARALLEL.search(line) and _DATA_CLAUSE.search(line) for line in code.split("\n")):
        return code
    present = "".join(f" present({name}[:{size}])" for name, size in sizes.items())
    lines = code.split("\n")
    return "\n".join(f"{line}{present}" if _PARALLEL.search(line) else line for line in lines)


def allocate_signature_memory(
    data: Data,
    preprocessor: Iterable[str] | None = None,
    user_dimensions: Mapping[str, int] | None = None,
) -> list[Any]:
    """Return arguments for a region: random arrays, and for numbers their sizes."""
    lines = list(preprocessor or ())
    return [
        _allocated(kind, parse_size(size, lines, user_dimensions)) for kind, size in data.values()
    ]


def _allocated(kind: str, size: int) -> Any:
    dtype = _dtype(kind)
    largest = 1 if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else np.inf
    if "*" not in kind:
        if size > largest:
            raise UsageError(f"a region has a number of type {kind!r}, which does not hold {size}")
        return dtype.type(size)
    rng = np.random.default_rng()
    if dtype.kind == "f":
        return rng.random(size, dtype=dtype)
    return rng.integers(min(_LARGEST_INTEGER, int(largest) + 1), size=size, dtype=dtype)


def _dtype(kind: str) -> np.dtype[Any]:
    """Return NumPy's type for one of C, or for what a pointer points to; UsageError without one."""
    words = set(kind.replace("*", " ", 1).split())
    found = _DTYPES.get(" ".join(words - _QUALIFIERS)) if words else None
    if found is not None and "unsigned" in words:
        found = f"u{found}" if found.startswith("int") else None
    if found is None:
        raise UsageError(
            f"a region has something of type {kind!r}: known are numbers such as 'unsigned int', "
            "'double' and 'size_t', and pointers to them"
        )
    return np.dtype(found)


def process_directives(
    langs: Code, source: str, user_dimensions: Mapping[str, int] | None = None
) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Return for each region of a program the text of its function, and arguments for it."""
    preprocessor = extract_preprocessor(source)
    data = extract_directive_data(source)
    signatures, bodies = extract_directive_signature(source), extract_directive_code(source)
    around = extract_initialization_code(source), extract_deinitialization_code(source)
    texts = {
        name: generate_directive_function(
            preprocessor, signatures[name], bodies[name], langs, own, *around, user_dimensions
        )
        for name, own in data.items()
    }
    arguments = {
        name: allocate_signature_memory(own, preprocessor, user_dimensions)
        for name, own in data.items()
    }
    return texts, arguments
