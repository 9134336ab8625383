"""`autotune tile`: what it prints of right and wrong functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune import tile
from autotune.cli.main import main

CODE = """function (A[M, L], B[L, N], X) -> (C, D) {
    P[i, j: M, N] = +(A[i, k] * B[k, j]);
    C = P + X;
    D[] = >(P[i, j]);
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("net.tile").write_text(CODE)
    return "net.tile"


SIZES = ["--set", "M=4", "--set", "L=8", "--set", "N=32", "--shape", "X=4,32"]


def test_check_prints_what_a_function_takes_and_gives(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tile", "check", file]) == 0
    expected = "net.tile: (A[M, L], B[L, N], X) -> (C of any rank, D of rank 0)\n"
    assert capsys.readouterr().out == expected


def test_a_mistake_is_shown_with_its_line_and_a_caret(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(CODE.replace("B[k, j]", "b[k, j]"))
    assert main(["tile", "check", file]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "autotune: net.tile:2:33: b begins in lower case, as only indices do",
        "        P[i, j: M, N] = +(A[i, k] * b[k, j]);",
        "                                    ^",
        "  did you mean B?",
    ]


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ([], ["produce P {", "unrolled (k.inner, 0, 4)"]),
        (["--te"], ["A = placeholder(4, 8, float32)", "P[i0, i1] = sum(", "# (4, 32) float32"]),
        (["--source"], ["define"]),
        (["--source", "--target", "cuda"], ["__global__", "threadIdx.x"]),
    ],
)
def test_show_prints_loops_expressions_or_code(
    file: str, view: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tile", "show", file, *SIZES, *view]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in words), printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "M=x"], "M=x: a size is a whole number from 1, as in M=512"),
        (["--set", "M=4"], "net.tile needs --set L=SIZE --set N=SIZE --shape X=SIZE,SIZE"),
        ([*SIZES, "--set", "K=4"], "net.tile has no dimension K in its header: there are M, L, N"),
        ([*SIZES, "--set", "m=4"], "net.tile has no dimension m in its header: did you mean M?"),
        ([*SIZES, "--set", "X=4,32"], "give its shape by --shape X=4,32, not by --set"),
        ([*SIZES, "--shape", "A=4,8"], "--shape A: it has no input of that name without dimen"),
        ([*SIZES, "--shape", "Y"], "--shape 'Y': expected NAME=SIZE,SIZE, such as --shape X=4,5"),
        ([*SIZES[:-1], "X=4,,5"], "X=4,,5: a shape is sizes, whole numbers from 1, with commas"),
        ([*SIZES[:-2]], "net.tile needs --shape X=SIZE,SIZE"),
        ([*SIZES, "--te", "--source"], "--te and --source exclude each other"),
    ],
)
def test_mistakes_are_one_line(
    file: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tile", "show", file, *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_files_that_cannot_be_read_are_told(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_bytes(b"\xff\xfe")
    assert main(["tile", "check", file]) == 2
    assert "cannot read net.tile: it is no UTF-8 at byte 0" in capsys.readouterr().err


def test_names_that_no_argument_can_have_are_told(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text("function (A[None]) -> (O) { O = A; }")
    assert main(["tile", "show", file, "--set", "None=4"]) == 2
    assert "net.tile:1:13: None is a word of Python: choose another" in capsys.readouterr().err


def test_a_file_may_begin_with_a_byte_order_mark(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text("\ufeff" + CODE)
    assert main(["tile", "check", file]) == 0
    assert capsys.readouterr().err == ""


def test_grad_prints_a_tile_function_that_computes_the_gradients(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tile", "grad", file, "--wrt", "A", "--rank", "X=2"]) == 0
    printed = tile.parse(capsys.readouterr().out)
    tile.check(printed)
    assert [name.text for name in printed.outputs] == ["GradA"]
    assert main(["tile", "grad", file, "--wrt", "A", "--shape", "X=4,32"]) == 0
    assert tile.parse(capsys.readouterr().out) == printed
    assert main(["tile", "grad", file, "--shape", "X=4,32", "--rank", "X=1"]) == 2
    assert "--shape gives X 2 dimensions, --rank 1" in capsys.readouterr().err
    assert main(["tile", "grad", file, "--rank", "X=two"]) == 2
    assert "a rank is a whole number, as in X=2" in capsys.readouterr().err


SIZED = """function (Y[N, L], F[W], D) -> (X, L) {
    Pad = max(0, (L - 1) * 2 + W - D) / 2;
    X[n, 2 * o + w - Pad: N, D] = +(Y[n, o] * F[w]);
}
"""
GIVEN = ["--set", "N=2", "--set", "L=4", "--set", "W=3"]


@pytest.fixture
def sized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("up.tile").write_text(SIZED)
    return "up.tile"


def test_an_input_that_is_a_size_is_set_as_dimensions_are(
    sized: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tile", "check", sized]) == 0
    assert capsys.readouterr().out == (
        "up.tile: (Y[N, L], F[W], D) -> (X of rank 2, L of rank 0)\n"
    )
    assert main(["tile", "show", sized, *GIVEN, "--set", "D=7", "--te"]) == 0
    assert "# (2, 7) float32" in capsys.readouterr().out
    assert main(["tile", "grad", sized]) == 0
    assert "function (Y[N, L], F[W], D, GradX[N, D], GradL[])" in capsys.readouterr().out
    assert main(["show", sized, *GIVEN, "--set", "D=7"]) == 0
    assert "D=7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "up.tile needs --set D=SIZE"),
        (["--set", "D=seven"], "D=seven: a whole number is wanted, as in D=512"),
        (["--set", "D=0"], "dimension 1 of X would be D = 0: sizes are at least 1"),
        (["--shape", "D=4"], "it has no input of that name without dimensions"),
    ],
)
def test_an_input_that_is_no_size_is_refused_in_one_line(
    sized: str, capsys: pytest.CaptureFixture[str], value: list[str], problem: str
) -> None:
    assert main(["tile", "show", sized, *GIVEN, *value]) == 2
    assert problem in capsys.readouterr().err


def test_commands_refuse_too_many_operations_and_the_environment_allows_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.tile").write_text(
        "function (X[N]) -> (O) { O[] = +(X[i]), j < 1099511627776 / N; }"
    )
    command = ["tile", "show", "long.tile", "--set", "N=4", "--te"]
    assert main(command) == 2
    assert "O takes 2^40 operations, more than 2^39" in capsys.readouterr().err
    monkeypatch.setenv("AUTOTUNE_TILE_OPERATIONS", "2^40")
    assert main(command) == 0
