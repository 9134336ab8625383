"""The syntax of Tile: what is read, what is printed, and what is said of what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.errors import ArgumentError, TileError
from autotune.tile.check.check_function import check
from autotune.tile.syntax.parser import parse
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    Assignment,
    BinaryExpr,
    Contraction,
    IndexConstraint,
    Input,
    Name,
    Negate,
    Number,
)
from autotune.tile.syntax.unparser import to_code

EVERYTHING = """\
function (A[M, L], B[L, N], I, S[], X[2 * M - 1, 3]) -> (C, O) {
    C[i, j: M, N + 1] = +(A[i, k] * B[k, j]), i - k < M, (k + 1) / 2 < N / 2;
    P[2 * i: M] = *(A[i, -j] + A[i / 2, 3 * j / 2]);
    Most[] = >(A[i, j]);
    Least[i: M] = <(A[i, 0]);
    Same[i, j: M, M] = =(A[i, k] == B[k, j] ? S[]);
    Half = (M + 1) / 2 - (L - -N);
    E = 1e-05 * A - (B - I) * 2.5;
    F = E < 0 ? -E : E >= Half ? sqrt(E) : max(E, pow(I, 2));
    O = (F == 1) * (F != 2) + (F <= 3 ? 1 : 0);
}
"""


def test_every_construct_is_printed_as_it_was_written() -> None:
    assert to_code(parse(EVERYTHING)) == EVERYTHING
    assert str(parse(EVERYTHING)) == EVERYTHING


def test_a_function_becomes_a_tree() -> None:
    function = parse("function (A[N]) -> (O) { O[2 * i: N] = >(A[i] + A[j]), -i < 3; X = N / 2; }")
    i, n = Name("i"), Name("N")
    assert function.inputs == (Input(Name("A"), (n,)),)
    assert function.outputs == (Name("O"),)
    assert function.statements == (
        Contraction(
            output=AccessExpr(Name("O"), (BinaryExpr("*", Number(2), i),)),
            sizes=(n,),
            aggregation=">",
            combination="+",
            inputs=(AccessExpr(Name("A"), (i,)), AccessExpr(Name("A"), (Name("j"),))),
            constraints=(IndexConstraint(Negate(i), Number(3)),),
        ),
        Assignment(Name("X"), BinaryExpr("/", n, Number(2))),
    )


def test_names_know_where_they_stand() -> None:
    code = "function (A) -> (O) {\n  O = A + Two; }"
    function = parse(code)
    assert isinstance(function.statements[0], Assignment)
    value = function.statements[0].value
    assert isinstance(value, BinaryExpr)
    assert code[value.right.span.start : value.right.span.end] == "Two"
    assert code[value.span.start : value.span.end] == "A + Two"


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("A + B + C", "A + B + C"),
        ("A + (B + C)", "A + (B + C)"),
        ("(A + B) * C", "(A + B) * C"),
        ("A - (B - C)", "A - (B - C)"),
        ("((A))", "A"),
        ("-(-A)", "--A"),
        ("-(A * B)", "-(A * B)"),
        ("-A * B", "-A * B"),
        ("A / (B * C)", "A / (B * C)"),
        ("(A < B) == C", "(A < B) == C"),
        ("(A ? B : C) ? D : E", "(A ? B : C) ? D : E"),
        ("A ? B : C ? D : E", "A ? B : C ? D : E"),
        ("A ? B ? C : D : E", "A ? B ? C : D : E"),
        ("1.50e+3", "1500.0"),
        ("2.", "2.0"),
    ],
)
def test_printing_keeps_the_tree_with_the_fewest_parentheses(written: str, printed: str) -> None:
    tree = parse(f"function (A) -> (O) {{ O = {written}; }}")
    assert f" = {printed};" in to_code(tree)
    assert parse(to_code(tree)) == tree


def test_comments_and_white_space_mean_nothing() -> None:
    commented = "# before\nfunction(A)->(O){#;}\n\tO=A;# O = B;\n}# after"
    assert parse(commented) == parse("function (A) -> (O) { O = A; }")


def body(text: str) -> str:
    return f"function (A[N], B[N]) -> (O) {{\n{text}\n}}"


MISTAKES = {
    "nothing": ("", 1, 1, "the text ends too early; expected 'function'", ""),
    "no arrow": ("function (A) (B)", 1, 14, "'(' cannot stand here; expected '->'", ""),
    "semicolon": (body("P = A\nO = P;"), 2, 6, "expected ';' after 'A'", "semicolon"),
    "last semicolon": (body("O = A"), 2, 6, "expected ';' after 'A'", "semicolon"),
    "aggregation": (body("O[i: N] = A[i];"), 2, 11, "expected '*', '+', '<', '='", "+(...)"),
    "sum": (body("O[i: N] = sum(A[i]);"), 2, 11, "'sum' cannot", "write +( instead of sum("),
    "element-wise": (body("O = A[i];"), 2, 6, "'[' cannot stand here", "without indices"),
    "difference": (body("O[i: N] = +(A[i] - B[i]);"), 2, 18, "'-' cannot", "in a statement before"),
    "number": (body("O[i: N] = +(2 * A[i]);"), 2, 13, "'2' cannot", "combines tensors only"),
    "three": (body("O[i: N] = +(A[i] * B[i] * A[i]);"), 2, 25, "expected ')'", "at most two"),
    "whole tensor": (body("O[i: N] = +(A);"), 2, 14, "expected '['", "A[i], or A[]"),
    "at most": (body("O[i: N] = +(A[j]), j <= i;"), 2, 22, "'<=' cannot", "0 <= form < bound"),
    "two bounds": (body("O[i: N] = +(A[i]), 0 <= i < 2;"), 2, 22, "'<='", "0 <= form < bound"),
    "lower bound": (body("O[i: N] = +(A[i]), 0 < i < 2;"), 2, 26, "'<'", "never written: j < 2"),
    "2i": (body("O[i: N] = +(A[2i]);"), 2, 16, "'i' cannot", "write 2 * i"),
    "power": (body("O = A ** 2;"), 2, 8, "'*' cannot stand here", "pow(x, y)"),
    "two signs": (body("O = A && A;"), 2, 8, "'&' cannot", "by one sign: C & D"),
    "mixed signs": (body("O = A | A ^ A;"), 2, 11, "'^' cannot", "in parentheses"),
    "two defaults": (body("O[i: N] = =(A[i]) default A default A;"), 2, 29, "'default' cannot", ""),
    "comment": (body("O = A; // two"), 2, 8, "'/' cannot", "comments begin with #"),
    "floor": (body("O = A // 2;"), 2, 8, "'/' cannot", "rounds down already"),
    "chain": (body("O = A < B < 2;"), 2, 11, "'<' cannot", "comparisons do not chain"),
    "no output": ("function (A) -> () { }", 1, 18, "')' cannot stand here; expected a name", ""),
    "open": ("function (A) -> (O) { O = A;", 1, 29, "ends too early; expected '}' or a name", ""),
    "digits": (body("O = A * 1234567890123456789;"), 2, 9, "at most 18 digits", ""),
    "infinite": (body("O = A * 1e999;"), 2, 9, "larger than any float64", ""),
    "underscore": (body("_O = A;"), 2, 1, "'_' is not a character", "begin with a letter"),
    "same line": (body("P = A O = P;"), 2, 6, "expected ';' after 'A'", "semicolon"),
    "same line, indices": (body("P = A O[i: N] = +(P[i]);"), 2, 6, "expected ';' after 'A'", ""),
    "plus equals": (body("O[i: N] += A[i];"), 2, 9, "'+' cannot", "= +(...)"),
    "no indices": (body("O = +(A[i]);"), 2, 5, "'+' cannot", "a scalar is O[]"),
    "index by index": (body("O[i: N, j: N] = +(A[i]);"), 2, 10, "':' cannot", "then all sizes"),
    "semicolon for colon": (body("O[i; N] = +(A[i]);"), 2, 4, "';' cannot", "behind a colon"),
    "more behind": (body("O[i: N] = +(A[i]) * 2;"), 2, 19, "'*' cannot", "in another statement"),
    "function in it": (body("O[i: N] = +(sqrt(A[i]));"), 2, 17, "'(' cannot", "tensors only"),
    "other side": (body("O[i: N] = +(A[i] == B[i] ? A[i] : 0);"), 2, 33, "':' cannot", "a 0"),
    "one side": (body("O = A ? B;"), 2, 10, "expected ':'", "C ? T : E"),
    "if": (body("O = A if B else A;"), 2, 7, "'if' cannot", "C ? T : E"),
    "argument": (body("O = exp A;"), 2, 9, "'A' cannot", "exp(...)"),
    "attribute": (body("O = A.T;"), 2, 6, "'.' is not a character", "no attributes"),
    "remark": (body("/* of A */ O = A;"), 2, 1, "'/' cannot", "comments begin with #"),
    "path": ("kernel.tile", 1, 1, "'kernel' cannot", "begins with its header"),
    "function's name": ("function f(A) -> (O) { }", 1, 10, "'f' cannot", "has no name"),
    "sizes of outputs": ("function (A) -> (O[N]) { }", 1, 19, "'[' cannot", "follow from"),
    "minus": (body("O = A \N{MINUS SIGN} B;"), 2, 7, "not a character of Tile", "write -"),
    "header's digits": (f"function (A[{'1' * 19}]) -> (O) {{ }}", 1, 13, "at most 18 digits", ""),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_with_their_place_and_a_remedy(case: str) -> None:
    code, line, column, problem, advice = MISTAKES[case]
    with pytest.raises(TileError) as caught:
        parse(code, "net.tile")
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert problem in error.problem
    assert advice in error.advice
    assert str(error).startswith(f"net.tile:{line}:{column}: {error.problem}")
    if code:
        shown, caret = str(error).splitlines()[1:3]
        assert shown.strip() in code
        assert caret.index("^") - 4 == column - 1


@pytest.mark.parametrize("nested", ["(" * 99 + "-A" + ")" * 99, "-" * 99 + "A", "A + " * 99 + "A"])
def test_expressions_nest_a_hundred_deep(nested: str) -> None:
    tree = parse(body(f"O = {nested};"))
    assert parse(to_code(tree)) == tree


@pytest.mark.parametrize("nested", ["-" * 5000 + "A", "A + " * 5000 + "A", "(3 - " * 5000 + "A"])
@pytest.mark.parametrize("before", ["O = {};", "O[i: {}] = +(A[i]);", "O[i: N] = +(A[{}]);"])
def test_deeper_ones_are_a_mistake_with_a_place(nested: str, before: str) -> None:
    closed = nested + ")" * nested.count("(")
    for code in (body(before.format(closed)), f"function (\nA[{closed}]) -> (O) {{ }}"):
        with pytest.raises(TileError, match="nests more than 100 operations") as caught:
            parse(code)
        assert caught.value.line == 2
        assert len(max(str(caught.value).splitlines(), key=len)) < 200


def test_calls_nest_no_deeper() -> None:
    with pytest.raises(TileError, match="nests more than 100 operations") as caught:
        parse(body(f"O = {'sin(' * 5000}A{')' * 5000};"))
    assert len(max(str(caught.value).splitlines(), key=len)) < 200


def test_what_is_said_of_a_name_without_end_is_short() -> None:
    endless = "A" + "x" * 100_000
    with pytest.raises(TileError, match="is not defined") as caught:
        check(parse(body(f"O = {endless};")))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("code", [None, b"function (A) -> (O) { O = A; }", 3])
def test_code_is_text(code: Any) -> None:
    with pytest.raises(ArgumentError, match="Tile code is a str, got a"):
        parse(code)


def test_brackets_without_end_are_a_mistake() -> None:
    with pytest.raises(TileError, match="ends too early"):
        parse("function (A) -> (O) { O = " + "(" * 20000)
