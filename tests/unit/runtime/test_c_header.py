"""C headers of saved functions: what they say, and that C and C++ take them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.ir import dtypes
from autotune.runtime.cpu.c_header import c_name, header
from autotune.runtime.signature import ArrayParameter, Signature

#: Names that are no good for C, sizes in every form, every dtype.
SIGNATURE = Signature(
    "double",
    (
        ArrayParameter("int", "float64", ("n", 3), is_output=False),
        ArrayParameter("threads", "int64", (), is_output=False),
        ArrayParameter("A.b", "bool", (("+", ("//", "n", 4), 1), ("min", "m", 8)), is_output=False),
        ArrayParameter("A-b", "float32", (("*", "n", ("-", "m", 1)),), is_output=False),
        *(ArrayParameter(f"x_{dtype}", dtype, ("m",), is_output=False) for dtype in dtypes.ALL),
        ArrayParameter("7", "float64", ("n", "m"), is_output=True),
        ArrayParameter("n", "float64", ("n", "m"), is_output=True),
    ),
    ("n", "m"),
)


def text(parallel: bool = True) -> str:
    entry = "kernel_double"
    return header(
        SIGNATURE,
        entry,
        f"{entry}_use_openmp" if parallel else None,
        library="double */ .so",
        target="llvm -mcpu=x86-64-v4",
        needs=["avx512f", "avx2", "bmi2"],
        version="1.0",
    )


def test_the_header_says_what_the_arguments_are(golden: Callable[[str, str], None]) -> None:
    golden("headers/kernel.h", text())


def test_a_function_without_parallel_loops_takes_no_runtime() -> None:
    assert "openmp" not in text(parallel=False).lower()
    assert "threads   not used: no parallel loops" in " ".join(text(parallel=False).split("  "))


@pytest.mark.parametrize("name", ["NULL", "NAN", "INFINITY", "EOF"])
def test_arguments_are_not_called_like_macros(name: str) -> None:
    signature = Signature("f", (ArrayParameter(name, "float32", (3,), is_output=True),), ())
    made = header(signature, "f", None, library="f.so", target="llvm", needs=[], version="1.0")
    assert f"float *{name}_" in made


@pytest.mark.parametrize(
    ("name", "expected"), [("kernel_a.b", "kernel_a_b"), ("größe", "gr__e"), ("", "_"), ("1", "_1")]
)
def test_names_become_identifiers(name: str, expected: str) -> None:
    assert c_name(name) == expected


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
@pytest.mark.parametrize("standard", ["c99", "c17", "c++11"])
@pytest.mark.parametrize("parallel", [True, False])
def test_compilers_take_the_header(standard: str, parallel: bool, tmp_path: Path) -> None:
    (tmp_path / "double.h").write_text(text(parallel))
    source = ['#include "double.h"'] * 2 + ["extern int unused;", ""]
    (tmp_path / "main.c").write_text("\n".join(source))
    language = "c++" if "+" in standard else "c"
    words = ["cc", "-x", language, f"-std={standard}", "-Wall", "-Werror", "-pedantic"]
    done = subprocess.run(
        [*words, "-fsyntax-only", "main.c"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "cc1plus" in done.stderr:
        pytest.skip("the C compiler here knows no C++")
    assert done.returncode == 0, done.stderr
