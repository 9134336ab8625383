"""Programs of published pages run as they are printed, but for their imports.

The pages are not in the repository; their folder is beside what `AUTOTUNE_SHARED_DATA` names.
Where there is no GPU, what is for one runs on the processor, or is compiled alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_machine import COMPILER, FakeMachine
from support.foreign_logs import DATA
from support.host_cuda import needs_host_compiler
from support.rtc_texts import parameters

from autotune import feature, rtc, te
from autotune.errors import CompileError

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


pytestmark = pytest.mark.filterwarnings("ignore:.*the processor takes the place of gpu")

#: Schedules, builds and runs by TVM's names; prints where the arrays are.
PROGRAM = """
import numpy as np
from autotune.compat import tvm
from autotune.compat.tvm import te
n = te.var("n")
X = te.placeholder((n,), name="X")
Y = te.compute((n,), lambda i: X[i] * 2, name="Y")
s = te.create_schedule(Y.op)
block, thread = s[Y].split(Y.op.axis[0], factor=32)
s[Y].bind(block, te.thread_axis("blockIdx.x"))
s[Y].bind(thread, te.thread_axis("threadIdx.x"))
f = tvm.build(s, [X, Y], "cuda")
x = np.random.uniform(size=1000).astype("float32")
a, b = tvm.nd.array(x, tvm.gpu(0)), tvm.nd.empty((1000,), ctx=tvm.gpu(0))
f(a, b)
tvm.testing.assert_allclose(b.asnumpy(), 2 * x)
seconds = f.time_evaluator(f.entry_name, tvm.gpu(0), number=2, repeat=3)(a, b).results
assert len(seconds) == 3 and min(seconds) > 0
print(type(a.data).__module__.split(".")[0])
"""


def run_program(variables: dict[str, str] | None = None) -> str:
    """Run the program above, where every warning is an error, and return what it prints."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_nvrtc
@needs_host_compiler
@pytest.mark.skipif(COMPILER is None, reason="no C compiler makes the driver")
def test_a_program_uses_the_gpu_of_the_machine(tmp_path: Path) -> None:
    variables = FakeMachine.make(tmp_path).environment()
    assert run_program(os.environ | variables) == "cupy"


@pytest.mark.gpu
def test_a_program_runs_on_a_gpu() -> None:
    assert run_program() == "cupy"


# -- scans ---------------------------------------------------------------------------------------


def test_the_page_of_scans_runs_and_prints_what_it_shows() -> None:
    space: dict[str, Any] = {}
    printed: list[str] = []
    shown: list[str] = []
    for language, block in rst_blocks(seed_text("tvm_scan_and_recurrent_kernel.rst")):
        if language == "none":
            shown.append(block)
        else:
            printed += filter(None, [run_cell(with_own_imports(block), space)[1].strip()])
    assert printed == shown
    assert len(shown) == 3


# -- broadcast addition --------------------------------------------------------------------------


def run_broadcast_add(sizes: str | None = None) -> dict[str, Any]:
    """Run the page, with other sizes if they are given, and compare its listings."""
    space: dict[str, Any] = {}
    value: object = None
    shown = 0
    for block in fenced_blocks(seed_text("d2l_tvm_broadcast_add_on_gpu.md")):
        if block.startswith("produce"):
            assert without_indents(str(value)) == without_indents(block)
            shown += 1
            continue
        program = with_own_imports(with_indents(block))
        if sizes is not None:
            program = re.sub(r"^sizes = .*$", f"sizes = {sizes}", program, flags=re.MULTILINE)
        value = run_cell(program, space)[0]
    assert shown == 2
    (axes,) = value.axes
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(lines) == ["MXNet", "continuous", "alternate"]
    for speeds in lines.values():
        assert len(speeds) == len(space["sizes"])
        assert min(speeds) > 0
    return space


def test_the_page_of_broadcast_addition_runs_with_small_sizes() -> None:
    pytest.importorskip("matplotlib")
    space = run_broadcast_add("2**np.arange(5, 9, 3)")
    for schedule in ("continuous_parallel", "alternate_parallel"):
        for n in (32, 256):
            s, args = space[schedule](n)
            a, b, c = space["d2ltvm"].get_bcast_data((n, 1), (n, n))
            space["tvm"].build(s, args, "cuda -on=cpu")(a, b, c)
            np.testing.assert_array_equal(c, a + b)


@pytest.mark.slow
def test_the_page_of_broadcast_addition_runs_with_its_own_sizes() -> None:
    pytest.importorskip("matplotlib")
    assert len(run_broadcast_add()["sizes"]) == 5


# -- features ------------------------------------------------------------------------------------


def product() -> dict[str, Any]:
    """Return a matrix product of 128 by the names that the page of features uses."""
    A, B = (te.placeholder((128, 128), name=name) for name in "AB")
    k = te.reduce_axis((0, 128), name="k")
    C = te.compute((128, 128), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    return {"feature": feature, "s": te.create_schedule(C.op), "A": A, "B": B, "C": C}


def test_the_page_of_features_runs_and_prints_the_numbers_that_it_shows() -> None:
    text = seed_text("autotvm_itervar_features.md")
    program, _, rest = text.partition("\nprint feature\n")[2].partition("\nThe output is\n")
    shown = rest.partition("\nfeature.flatten")[0]
    printed = run_cell(with_indents(program), product())[1]

    def numbers(table: str) -> list[str]:
        # The page heads its first two rows with each other's names.
        rows = [line for line in table.splitlines() if line and "_itervar_" not in line]
        return [re.sub(r"[^\w-]+", " ", row).strip() for row in rows]

    assert numbers(printed) == numbers(shown)
    assert len(numbers(shown)) == 3 + 3 * 2 + 5 + 5 + 4


def test_features_are_flattened_as_on_their_page() -> None:
    text = seed_text("autotvm_itervar_features.md")
    lines = re.findall(r"^(?:fea|flatten|names) = .*$", text, re.MULTILINE)
    space = product()
    run_cell("\n".join(lines), space)
    assert len(space["flatten"]) == len(space["names"]) > 100


# -- kernels as text -----------------------------------------------------------------------------


def texts() -> list[str]:
    """Return the two kernels of the page: of single elements, and of vectors."""
    page = seed_text("mxnet_rtc_cuda_kernels.md")
    found = re.findall(r'R"code\((.*?)\)code"', page, re.DOTALL)
    assert len(found) == 2
    return found


@needs_nvrtc
@pytest.mark.parametrize("request_name", ["kWriteTo", "kAddTo"])
def test_the_kernel_of_vectors_compiles_as_printed(request_name: str) -> None:
    kernel = rtc.VectorizedKernel.of(
        parameters("sigmoid", request_name), "unary_kernel", texts()[1],
        4, 1000, 1, [(0x1000, "float16")], [(0x2000, "float32")],
    )  # fmt: skip
    compiled = kernel.compiled("sm_90")
    assert compiled.usage.parameter_bytes == (16, 4, 4, 4, 4)
    compiled.check(kernel.blocks, 512)


@needs_nvrtc
def test_the_kernel_of_elements_compiles_once_its_own_mistakes_are_put_right() -> None:
    types = "using InputType = float16;\nusing OutputType = float32;\n"
    given, text = parameters("sigmoid", "kAddTo") + types, texts()[0]
    with pytest.raises(CompileError, match="a variable declared with an auto type"):
        rtc.get_function(given, "unary_kernel", text, "sm_90")
    # A result that is constant, an index that is not declared, a value that hides the array.
    for wrong, right in (
        ("const OutputType*", "OutputType*"), ("[i]", "[tid]"), ("auto input", "auto value"),
        ("OP(input)", "OP(value)"),
    ):  # fmt: skip
        assert wrong in text
        text = text.replace(wrong, right)
    rtc.get_function(given, "unary_kernel", text, "sm_90").check(grid=2, block=512)
