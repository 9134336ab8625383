"""The source text of a kernel, the contents of its constant memory, and its compiler.

In: the arguments of a call that give them. Out: their values, checked.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import check_type, shown
from autotune.compat.kernel_tuner.expressions import called
from autotune.compat.kernel_tuner.problem import with_parameters
from autotune.errors import UsageError
from autotune.external.call_form import BY_VALUE
from records.caller_warnings import warn

_ENDINGS = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cl", ".F90", ".f90")

#: Compilers for GPUs, and what takes their place on the processor where they are missing.
_STANDS_IN = {"nvc": "cc", "nvc++": "c++"}

#: Options of theirs, by how they begin, and those of GCC and Clang. Others of -M, -gpu and -target
#: are about GPUs alone.
_OPTIONS = {
    "-fast": ("-O3", "-march=native"), "-acc": ("-fopenacc",), "-mp": ("-fopenmp",),
    "-M": (), "-gpu": (), "-target": (),
}  # fmt: skip


#: What names of parameters have that are numbers of `#pragma unroll`.
UNROLL = "loop_unroll_factor"

#: Options of nvcc that are about the host, or about the architecture, which is that of the GPU; and
#: those of them whose value is the next one.
_FOR_NVCC = (
    "-O|--optimize|-arch|--gpu-arch|-code|-gencode|--generate-code|-Xcompiler|-ccbin|-x|-m64"
)
_WITH_VALUE = ("-Xcompiler", "-ccbin", "-x", "-gencode", "-arch", "-code", "-O")

_SKIPPED = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'  # Comments and strings.


def text_of(source: Any, params: Mapping[str, Any] | None = None) -> str:
    """Return the text of a kernel: given, in a file, the first of a list, or made for parameters.

    Raises UsageError if there is none.
    """
    if isinstance(source, (list, tuple)) and source:
        source = source[0]
    if callable(source):
        source = called("kernel_source", source, dict(params or {}))
    if _is_file(source):
        try:
            return Path(source).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"kernel_source: cannot read {os.fspath(source)}: {why}") from error
    if not isinstance(source, str):
        raise UsageError(f"kernel_source must be a text, a file or a function, got {shown(source)}")
    return source


def is_generated(source: Any) -> bool:
    """Whether a text is made for each configuration."""
    first = source[0] if isinstance(source, (list, tuple)) and source else source
    return callable(first)


def language_of(source: Any, compiler: str) -> str:
    """Return "c" for a file in C and a compiler of C; else "c++", which texts are taken for."""
    first = source[0] if isinstance(source, (list, tuple)) and source else source
    is_c = _is_file(first) and Path(first).suffix == ".c" and "++" not in compiler
    return "c" if is_c else "c++"


def checked_language(lang: Any, source: Any) -> str:
    """Return "CUDA" or "C" for the language of a kernel, which its text says if no argument does.

    Raises UsageError if it is in another.
    """
    if lang is not None and not isinstance(lang, str):
        raise UsageError(f'lang must be a text such as "C", got {lang!r}')
    if lang is None and is_generated(source):
        raise UsageError('lang must be given with a function that makes the text, as in lang="C"')
    text = "" if lang is not None else text_of(source).lower()
    found = "CUDA" if "__global__" in text else "OpenCL" if "__kernel" in text else lang or "C"
    if found.upper() in ("CUDA", "CUPY", "NVCUDA"):
        return "CUDA"
    if found.upper() not in ("C", "C++"):
        raise UsageError(
            f"kernels in {found} cannot be tuned by this call, only those in C, C++ and CUDA C++"
        )
    return "C"


def nvrtc_flags(options: Sequence[str] | None, folder: str) -> list[str]:
    """Return options of nvcc for NVRTC, with a warning of those that it has no meaning for.

    `folder`: where relative paths begin.
    """
    kept: list[str] = []
    dropped: list[str] = []
    values = iter(options or ())
    for flag in values:
        if flag in _WITH_VALUE:
            dropped += [flag, next(values, "")]
        elif re.match(_FOR_NVCC, flag):
            dropped.append(flag)
        elif flag in ("-I", "--include-path"):
            kept.append(f"-I{os.path.join(folder, next(values, ''))}")
        elif flag.startswith("-I"):
            kept.append(f"-I{os.path.join(folder, flag[2:])}")
        else:
            kept.append(flag)
    if dropped:
        warn(f"compiler_options: {' '.join(dropped)} say nothing to NVRTC, which compiles here")
    return kept


def compiler_of(compiler: str | None, options: Sequence[str] | None) -> tuple[str, list[str]]:
    """Return the compiler and its options, for the processor where one for GPUs is missing."""
    flags = list(options or ())
    if compiler is None or (compiler == "g++" and shutil.which("g++") is None):
        return "g++" if shutil.which("g++") else "c++", flags
    if compiler not in _STANDS_IN or shutil.which(compiler):
        return compiler, flags
    other = _STANDS_IN[compiler]
    warn(
        f"there is no compiler {compiler!r} on this machine's path: {other!r} takes its place, and "
        "directives for a GPU run on the processor"
    )
    translated = [_translated(flag) for flag in flags]
    return other, [flag for found in translated for flag in found]


def openmp_flags(text: str, flags: Sequence[str]) -> list[str]:
    """Return the option for a text with OpenMP that options do not mention."""
    uses = re.search(r"^\s*#\s*(pragma\s+omp\b|include\s*<omp\.h>)", text, re.MULTILINE)
    return ["-fopenmp"] if uses and not re.search("openmp|-mp|omp-simd", " ".join(flags)) else []


def _translated(flag: str) -> Sequence[str]:
    begins = (begin for begin in _OPTIONS if re.match(rf"{begin}(\W|$)", flag))
    begin = "-M" if flag.startswith("-M") else next(begins, None)
    return (flag,) if begin is None else _OPTIONS[begin]


def generated_text(
    source: Any,
    defines: Mapping[str, str | Callable[..., Any]] | None,
    given: Mapping[str, Any],
    params: Mapping[str, Any],
    is_cuda: bool = False,
) -> str:
    """Return the whole text of a configuration, with its macros.

    `defines`: the macros; None for those that are given, and the parameters.
    """
    macros: Mapping[str, Any] = {**given, **params} if defines is None else defines
    lines, text = [], text_of(source, params)
    for name, value in macros.items():
        if defines is not None:
            made = called(f"defines: {name}", value, dict(params)) if callable(value) else value
            value = with_parameters(made, params) if isinstance(made, str) else made
        whole = str(int(value) if isinstance(value, bool) else value).replace("\n", "\\\n")
        if is_cuda and UNROLL in name:
            # NVRTC knows no macros in this directive; 0 stands for one without a number.
            lines.append(f"constexpr int {name} = {whole};\n")
            if whole == "0":
                text = re.sub(rf"^\s*#pragma\s+unroll\s+{name}\b.*$", "", text, flags=re.M)
            continue
        lines.append(f"#define {name} {whole}\n")
    return f'{"".join(lines)}#line 1 "text"\n{text}'


def check_constants(cmem_args: Any) -> None:
    """Raise UsageError unless an argument says what is in constant memory, by its names."""
    check_type("cmem_args", cmem_args, (Mapping, NoneType), "a dict of arrays by their names")
    for name, value in (cmem_args or {}).items():
        check_type("cmem_args: a name", name, str, "a text")
        check_type(f"cmem_args: {name}", value, (np.ndarray, np.generic), "an array of NumPy")
        if value.dtype.name not in BY_VALUE:
            raise UsageError(f"cmem_args: {name} is of {value.dtype.name}, which has no literals")
        if not np.size(value) or not np.isfinite(value).all():
            raise UsageError(f"cmem_args: {name} must have elements, which are finite")


def with_constants(text: str, cmem_args: Mapping[str, Any] | None) -> str:
    """Return a text in CUDA C++ whose variables in constant memory begin with values.

    The values are part of the text then: compiled, recorded and sent to workers with it.

    `cmem_args`: the values by the names of the variables; None for none.

    Raises UsageError if the text does not declare one of them.
    """
    for name, value in (cmem_args or {}).items():
        declared = rf"__constant__\b[^;]*?\b{re.escape(name)}\b(?:\s*\[[^\]]*\])*(?=\s*[;,])"
        values = f" = {{{', '.join(map(_literal, np.ravel(value).tolist()))}}}"
        text, count = _initialised(text, declared, values)
        if not count:
            raise UsageError(
                f"cmem_args: the text does not declare '__constant__ ... {name}' without values"
            )
    return text


def _initialised(text: str, declared: str, values: str) -> tuple[str, int]:
    """Return a text with values after each declaration, and the number of them."""
    count = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal count
        if found["declared"] is None:
            return found[0]
        count += 1
        return f"{found[0]}{values}"

    pattern = rf"{_SKIPPED}|(?P<declared>{declared})"
    return re.sub(pattern, replaced, text, flags=re.DOTALL), count


def _literal(value: bool | int | float) -> str:
    if isinstance(value, float):
        return repr(value)
    if value == -(2**63):
        return f"({value + 1} - 1)"
    return f"{int(value)}{'ull' if value >= 2**63 else ''}"


def _is_file(source: Any) -> bool:
    if isinstance(source, os.PathLike):
        return True
    return isinstance(source, str) and "\n" not in source and source.endswith(_ENDINGS)
