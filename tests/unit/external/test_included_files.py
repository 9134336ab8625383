"""Kernels in C of several files: what is included, how it is found, and that changes count."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.c_compiler import needs_cc

import autotune
from autotune import te
from autotune.builder import BuiltFunction
from autotune.errors import CompileError, UsageError
from autotune.measure.build_bench import BuildBench
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Knobs, template
from autotune.trace.fingerprint import function_lines

X = np.arange(10, dtype=np.float32)


pytestmark = pytest.mark.usefixtures("own_cache")


def arrays(n: int) -> dict[str, Any]:
    return {"inputs": [te.placeholder((n,), name="X")], "outputs": [te.placeholder((n,), name="Y")]}


def in_folder(folder: Path, text: str, **more: Any) -> float:
    """Return the first element that a kernel of a file `f.c` computes, beside other files."""
    (folder / "f.c").write_text(text, encoding="utf-8")
    kernel = autotune.CKernel("f", "f.c", **arrays(10), **{"flags": [], **more})
    y = np.zeros(10, np.float32)
    BuiltFunction(kernel.lowered("f", str(folder)), Target.of("llvm"))(X, y)
    return float(y[0])


FIRST = "void f(float *x, float *y) { y[0] = VALUE; }\n"


@needs_cc
def test_a_file_and_what_it_includes_become_the_text(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "more.h").write_text("#pragma once\n#define MORE 5\n")
    (tmp_path / "one.h").write_text('#pragma once\n#include "inner/more.h"\n#define ONE 1\n')
    (tmp_path / "add.inc").write_text("y[i] += ONE;\n")
    lines = [
        '#include "one.h"', '#include "inner/more.h"', "#include <stddef.h>",
        "void f(const float *x, float *y) {", "  for (size_t i = 0; i < 10; ++i) {",
        "    y[i] = MORE * x[i];", '    #include "add.inc"', '    #include "add.inc"', "  }", "}",
    ]  # fmt: skip
    (tmp_path / "f.c").write_text("\n".join(lines))
    kernel = autotune.CKernel("f", "f.c", **arrays(10), flags=[])
    f = BuiltFunction(kernel.lowered("f", str(tmp_path)), Target.of("llvm"))
    y = np.zeros(10, np.float32)
    f(X, y)
    np.testing.assert_array_equal(y, 5 * X + 2)
    assert not re.search('^ *# *include "', f.source, re.MULTILINE)
    (tmp_path / "f.c").write_text("\n".join([*lines[:-1], "wrong", "}"]))
    with pytest.raises(CompileError, match=r"^cc: f\.c:1[01]:"):
        BuiltFunction(kernel.lowered("f", str(tmp_path)), Target.of("llvm"))
    by_path = autotune.CKernel("f", tmp_path / "f.c", **arrays(10), flags=[])
    assert by_path.lowered("f").body.text == kernel.lowered("f", str(tmp_path)).body.text


@pytest.mark.parametrize(
    "before", ["", "#ifndef N\n#define N 4\n#endif\n", "#ifndef N\n#define N 4\n#else\n"]
)
def test_files_that_include_each_other_are_refused(before: str, tmp_path: Path) -> None:
    after = "#endif\n" if before.endswith("#else\n") else ""
    (tmp_path / "a.h").write_text(f'{before}#include "a.h"\n{after}')
    with pytest.raises(UsageError, match="include each other without an end"):
        autotune.CKernel("f", '#include "a.h"\n', **arrays(4)).lowered("f", str(tmp_path))


@needs_cc
def test_a_header_included_once_counts_in_whichever_branch_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "one.h").write_text("#pragma once\n#define VALUE 7\nstatic int only_one;\n")
    line = '#include "one.h"\n'
    text = f"#if B > 4\n{line}#else\n{line}#endif\n{line}{FIRST}"
    for number in (2, 8):
        assert in_folder(tmp_path, text, defines={"B": number}) == 7


@needs_cc
def test_guarded_headers_may_include_each_other(tmp_path: Path) -> None:
    guard = "/* about\n it */\n#ifndef {0}_H\n#define {0}_H\n"
    (tmp_path / "a.h").write_text(f'{guard.format("A")}#include "b.h"\n#define VALUE B\n#endif\n')
    (tmp_path / "b.h").write_text(f'{guard.format("B")}#include "a.h"\n#define B 9\n#endif\n')
    assert in_folder(tmp_path, f'#include "a.h"\n#include "b.h"\n{FIRST}') == 9


def test_headers_that_all_include_those_before_make_no_text_that_grows_without_bounds(
    tmp_path: Path,
) -> None:
    for number in range(30):
        before = "".join(f'#include "{other}.h"\n' for other in range(number))
        (tmp_path / f"{number}.h").write_text(f"#pragma once\n{before}")
    kernel = autotune.CKernel("f", '#include "29.h"\n', **arrays(4))
    assert len(str(kernel.lowered("f", str(tmp_path)).body.text)) < 40_000


@needs_cc
def test_what_looks_like_an_include_in_comments_and_strings_is_none(tmp_path: Path) -> None:
    (tmp_path / "c.h").write_text("/* a comment ends here */ #error\n")
    (tmp_path / "one.h").write_text("// #pragma once\n/*\n#pragma once\n*/\n+ 1\n")
    text = (
        '/*\n#include "c.h"\n*/\n// \\\n#include "c.h"\nconst char *text = "/* \\" //";\n'
        'void f(float *x, float *y) { y[0] = 1\n#include "one.h" /* twice,\n'
        '#include "c.h"\n*/\n#include "one.h"\n; }\n'
    )
    assert in_folder(tmp_path, text) == 3


@needs_cc
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "v.h").write_text("\ufeff#define VALUE 6\n", encoding="utf-8")
    assert in_folder(tmp_path, f'\ufeff#include "v.h"\n{FIRST}') == 6


@needs_cc
@pytest.mark.parametrize("flags", [["-I{}"], ["-I", "{}"], ["-Iown"], ["-include", "own/v.h"]])
def test_a_header_that_changes_is_compiled_anew_however_it_is_found(
    flags: list[str], tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir()
    given = [flag.format(tmp_path / "own") for flag in flags]
    text = FIRST if "-include" in flags else f'#include "v.h"\n{FIRST}'
    for value in (3, 5):
        (tmp_path / "own" / "v.h").write_text(f"#define VALUE {value}\n")
        assert in_folder(tmp_path, text, flags=given) == value


@needs_cc
def test_a_header_that_changes_makes_another_candidate(tmp_path: Path) -> None:
    @template("first", reference=lambda x: x)
    def first(cfg: Knobs, n: int) -> autotune.CKernel:
        text = f'#include "v.h"\n{FIRST}'
        return autotune.CKernel("f", text, **arrays(n), flags=[f"-I{tmp_path}"])

    bench = BuildBench(Task(first, {"n": 10}))
    hashes = []
    for value in (3, 5, 3):
        (tmp_path / "v.h").write_text(f"#define VALUE {value}\n")
        hashes.append(bench.build({}).code_hash)
    assert hashes[0] == hashes[2] != hashes[1]


@needs_cc
def test_a_library_that_changes_is_linked_anew(tmp_path: Path) -> None:
    text = "int value(void); void f(float *x, float *y) { y[0] = value(); }\n"
    for value in (3, 5):
        (tmp_path / "v.c").write_text(f"int value(void) {{ return {value}; }}\n")
        subprocess.run(["cc", "-c", "-fPIC", "v.c"], cwd=tmp_path, check=True)
        assert in_folder(tmp_path, text, flags=["v.o"]) == value


@needs_cc
@pytest.mark.parametrize(
    "flags",
    [
        ["-Iown"],
        ["-I", "own"],
        ["-isystem", "own"],
        ["-include", "own/outer.h"],
        ["-Iown", "-includeouter.h"],
    ],
)
def test_records_see_headers_that_options_name_and_what_these_include(
    flags: list[str], tmp_path: Path
) -> None:
    (tmp_path / "own" / "deep").mkdir(parents=True)
    (tmp_path / "own" / "outer.h").write_text('#include "deep/inner.h"\n')
    (tmp_path / "own" / "not_included.h").write_text("1\n")
    inner = tmp_path / "own" / "deep" / "inner.h"
    include = "" if "outer.h" in flags[-1] else '#include "outer.h"\n'

    def seen(value: int) -> str:
        inner.write_text(f"#define VALUE {value}\n")
        kernel = autotune.CKernel("f", f"{include}{FIRST}", **arrays(10), flags=flags)
        return "\n".join(function_lines(kernel.lowered("f", str(tmp_path))))

    first = seen(1)
    assert seen(22) != first
    assert seen(1) == first
    (tmp_path / "own" / "not_included.h").write_text("2\n")
    assert seen(1) == first


@needs_cc
def test_a_kernel_without_such_headers_is_what_earlier_records_call_it(tmp_path: Path) -> None:
    kernel = autotune.CKernel("f", f"#include <math.h>\n{FIRST}", **arrays(10), flags=["-Iown"])
    lines = function_lines(kernel.lowered("f", str(tmp_path)))
    assert not any(line.startswith("including") for line in lines)
