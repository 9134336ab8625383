"""The C header of a saved function: its prototype, and in words what each argument must be."""

from __future__ import annotations

import re
from collections.abc import Iterable

from autotune.codegen.c.c_names import KEYWORDS
from autotune.runtime.signature import ArrayParameter, Signature, extent_text

_C_TYPES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
#: Types that C does not have everywhere are passed as their bits.
_BITS = {"float16": "uint16_t", "bfloat16": "uint16_t"}

#: Words of C and C++, common macros, and what the prototype itself names.
_RESERVED = frozenset((*KEYWORDS.split(), "INFINITY", "restrict", "threads", "typeof"))

HEADER_SIGN = "compiled by autotune"  # The line that marks these headers.

_HEADER = """\
/* {name}, {sign} {version} for {target}; in {library}.
 *
 * Arguments, in this order (arrays are contiguous, row by row, and aligned to their elements; an
 * output shares no memory with any other array):
{arguments}
 *
 * Returns 0, or 1 if scratch memory could not be allocated; the outputs then hold anything.
 * The code needs {needs}.
{openmp} */
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

int32_t {entry}(
    {prototype});
{use_openmp}
#ifdef __cplusplus
}}
#endif

#endif
"""

_OPENMP = """\
 *
 * Its parallel loops run on the calling thread until they are given an OpenMP runtime. In a program
 * compiled with -fopenmp, once, before the first call:
 *
 *   #include <omp.h>
 *   void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
 *   {use_openmp}(GOMP_parallel, omp_get_num_threads, omp_get_thread_num);
"""


def c_name(name: str) -> str:
    """Return a name with only characters that C identifiers may have."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def header(
    signature: Signature,
    entry: str,
    use_openmp: str | None,
    *,
    library: str,
    target: str,
    needs: Iterable[str],
    version: str,
) -> str:
    """Return the text of the header.

    `signature`: the function's parameters.
    `entry`, `use_openmp`: its symbol, and the symbol of the function that takes the OpenMP runtime;
    None if it has no parallel loops.
    `library`: name of the library's file.
    `target`, `version`: the target of the code, and the version of autotune that compiled it.
    `needs`: features of the processor that it needs.
    """
    names = _unique([*(p.name for p in signature.parameters), *signature.sizes])
    arrays, sizes = names[: len(signature.parameters)], names[len(signature.parameters) :]
    prototype = [
        f"{'' if p.is_output else 'const '}{_C_TYPES.get(p.dtype) or _BITS[p.dtype]} *{name}"
        for p, name in zip(signature.parameters, arrays, strict=True)
    ]
    prototype += [f"int64_t {name}" for name in sizes] + ["int32_t threads"]
    rows = [(n, _array_text(p)) for p, n in zip(signature.parameters, arrays, strict=True)]
    rows += [
        (name, f"size {size} of the shapes above")
        for name, size in zip(sizes, signature.sizes, strict=True)
    ]
    most = "most threads that a parallel loop uses" if use_openmp else "not used: no parallel loops"
    rows.append(("threads", most))
    width = max(len(name) for name, _ in rows)
    declared = (
        f"void {use_openmp}(\n    void (*parallel)(void (*)(void *), void *, unsigned, unsigned),\n"
        "    int (*num_threads)(void), int (*thread_num)(void));\n"
    )
    return _HEADER.format(
        name=_in_comment(signature.name),
        sign=HEADER_SIGN,
        version=version,
        target=_in_comment(target),
        library=_in_comment(library),
        arguments="\n".join(f" *   {n.ljust(width)}  {_in_comment(text)}" for n, text in rows),
        needs=_wrapped(needs),
        openmp=_OPENMP.format(use_openmp=use_openmp) if use_openmp else "",
        guard=f"AUTOTUNE_{entry.upper()}_H",
        entry=entry,
        prototype=",\n    ".join(prototype),
        use_openmp=declared if use_openmp else "",
    )


def _array_text(param: ArrayParameter) -> str:
    role = "output" if param.is_output else "input"
    bits = " (as bits)" if param.dtype in _BITS else ""
    shape = ", ".join(extent_text(extent) for extent in param.shape)
    return f"{role}, {param.dtype}{bits} [{shape}]"


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        plain = c_name(name)
        while plain in _RESERVED or plain in found:
            plain += "_"
        found.append(plain)
    return found


def _wrapped(needs: Iterable[str]) -> str:
    """Features as text, in lines of the comment."""
    lines, words = [""], ", ".join(needs).split() or ["no more than any x86-64 processor has"]
    for word in words:
        if len(lines[-1]) + len(word) > 84:
            lines.append("")
        lines[-1] += f"{word} "
    return "\n *   ".join(line.strip() for line in lines)


def _in_comment(text: str) -> str:
    """Return a text that ends no comment and no line."""
    return " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *")
