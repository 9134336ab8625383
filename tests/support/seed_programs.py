"""Programs of published pages, read where these are; they are not in the repository.

The folder of the pages is beside the one that `AUTOTUNE_SHARED_DATA` names. Of a program only lines
that import are changed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.foreign_logs import DATA

#: What stands in place of a line, or a part of a text, that imports.
IMPORTS = {
    "from __future__ import absolute_import, print_function": "",
    "from tvm import te": "from autotune.compat.tvm import te",
    "import tvm": "from autotune.compat import tvm",
    "import mxnet as mx": "from autotune.compat import mxnet as mx",
    # NumPy 2 prints numbers, which the page puts into a text of Python, with `np.` before them.
    "import d2ltvm": "import numpy as np; from autotune.compat import d2l as d2ltvm",
    "%matplotlib inline": "",
}


def seed_text(name: str) -> str:
    """Return a page; the test is skipped where there is none."""
    folder = os.environ.get(DATA)
    if not folder:
        pytest.skip(f"{DATA} names no folder that has published pages beside it")
    path = Path(folder).parent / "seeds" / name
    if not path.is_file():
        pytest.skip(f"there is no {path}")
    return path.read_text()


def with_own_imports(program: str, imports: Mapping[str, str] = IMPORTS) -> str:
    """Return a program with other imports, also in texts of Python that it contains."""
    for line, own in imports.items():
        program = re.sub(rf"(^|'){re.escape(line)}(?=\\n|$)", rf"\1{own}", program, flags=re.M)
    return program


def rst_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Return the language and the text of each block of code, in order."""
    pattern = r"^( *)\.\. code-block:: (\w+)\n\n((?:(?:\1 .*)?\n)+)"
    for block in re.finditer(pattern, text, re.MULTILINE):
        yield block[2], textwrap.dedent(block[3]).strip("\n")


def fenced_blocks(text: str, language: str = "") -> list[str]:
    """Return the texts of blocks of code, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def with_indents(program: str) -> str:
    """Return a program whose lines have lost their indents with indents.

    A line after one with a colon at its end belongs to it, and so do those that follow; `else` ends
    what came since its `if`, and `return` ends the function.
    """
    made: list[str] = []
    open_words: list[str] = []
    goes_on = False
    for line in program.splitlines():
        word = re.match(r"\w*", line)[0]
        if word == "else":
            del open_words[len(open_words) - 1 - open_words[::-1].index("if") :]
        if word == "return":
            del open_words[open_words.index("def") + 1 :]
        if word == "def":
            open_words.clear()
        made.append("    " * (len(open_words) + goes_on) + line)
        goes_on = line.endswith("\\")
        if line.endswith(":"):
            open_words.append(word)
        if word == "return":
            open_words.clear()
    return "\n".join(made)


def run_cell(program: str, space: dict[str, Any]) -> tuple[object, str]:
    """Run a cell of a notebook; return the value of its last line, if any, and what it printed."""
    tree = ast.parse(program)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "<page>", "exec"), space)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), space)
    return value, printed.getvalue()


def without_indents(text: str) -> Sequence[str]:
    """Return the lines of a listing, for pages that have lost their indents."""
    return [line.strip() for line in text.strip().splitlines()]
