"""What Tile's checker and binder refuse, where they point, and what they advise."""

from __future__ import annotations

import pickle

import pytest

from autotune.errors import TileError, UsageError
from autotune.tile import bind, check, parse, shapes_of
from autotune.tile.binding.bound_program import Contract
from autotune.tile.to_te.contraction_loops import loops

HEADER = "function (A[M, N], B[N], S[], X) -> (O) {\n"

#: Body (its first line is line 2), column, part of the problem, part of the advice.
UNSIZED = {
    "lower-case tensor": ("o = A;", 1, "o would be an index: a tensor begins", "call it O"),
    "lower-case read": ("O = a;", 5, "a is an index", "did you mean A?"),
    "lower-case access": ("O[i: N] = +(b[i]);", 13, "lower case, as only indices", "mean B?"),
    "undefined": ("O = Sum;", 5, "Sum is not defined", "declare dimensions in the header"),
    "misspelled": ("Mask = A; O = Mark;", 15, "Mark is not defined", "did you mean Mask?"),
    "used before": ("O = P;\nP = A;", 5, "P is used before it is assigned", ""),
    "assigned twice": ("O = A;\nO = B;", 1, "O is defined already, as a tensor in line 2", ""),
    "dimension assigned": ("N = A;", 1, "N is defined already, as a dimension", ""),
    "never assigned": ("P = A;", 38, "output O is never assigned", ""),
    "no sizes": ("O[i] = +(A[i, j]);", 1, "O has 1 index but no sizes", "O[i: I]"),
    "sizes": ("O[i: M, N] = +(A[i, j]);", 1, "1 index and 2 sizes", ""),
    "rank": ("O[i: M] = +(A[i]);", 13, "A has 2 dimensions, got 1 index", ""),
    "rank of an input": (
        "P[i: M] = +(X[i]); O[i: M] = +(X[i, i]);", 32, "X has 1 dimension, got 2 indices", ""
    ),
    "rank of a scalar": ("O[i: M] = +(S[i]);", 13, "S has 0 dimensions, got 1 index", ""),
    "dimension read": ("O[i: M] = +(M[i]);", 13, "M is a dimension and has no elements", ""),
    "index in a size": ("O[i: i] = +(B[i]);", 6, "i is an index and cannot be in a size", ""),
    "tensor in a size": ("O[i: B] = +(B[i]);", 6, "B is a tensor and cannot be in a size", ""),
    "float in a size": ("O[i: 2.0] = +(B[i]);", 6, "a size is arithmetic over dimensions", ""),
    "call in a size": ("O[i: exp(M)] = +(B[i]);", 6, "arithmetic over dimensions", ""),
    "tensor as an index": ("O[i: N] = +(B[B]);", 15, "B is a tensor and cannot be in an", ""),
    "product": ("O[i: N] = +(B[i * j]);", 15, "i * j is not linear", "by numbers only"),
    "quotient": ("O[i: N] = +(B[1 / i]);", 15, "1 / i is not linear", ""),
    "function": ("O[i: N] = +(B[abs(i)]);", 15, "an index is a linear polynomial", ""),
    "comparison": ("O[i: N] = +(B[(i < 2)]);", 16, "an index is a linear polynomial", ""),
    "capital index": ("O[i: N] = +(B[I]);", 15, "I is not defined", "in lower case: i"),
    "decimal": ("O[i: N] = +(B[0.5 * i]);", 15, "coefficients are exact", "i / 2"),
    "index in a bound": ("O[i: N] = +(B[k]), k < i;", 24, "i is an index and cannot be in", ""),
    "unbounded": ("O[i: N] = +(B[j + k]);", 19, "index k is not bounded", ", k < N"),
    "unbounded output": ("O[i + j: N] = +(B[2]);", 7, "index j is not bounded", ", j < N"),
    "cancelled": ("O[i: N] = +(B[j - j]);", 15, "index j is not bounded", ""),
    "divided by 0": ("O[i: N] = +(B[i / 0]);", 15, "division by 0 in i / 0", ""),
    "zero": ("O = A / (3 / 0);", 14, "division by 0, which is 0", ""),
    "fraction": ("O = (1 / 2) * A;", 6, "1 / 2 is not whole", "1.0 / 2"),
    "negative axis": ("O = index(A, -1);", 14, "a whole number, not -1", "counted from 0"),
    "function name": ("O = sqr(A);", 5, "there is no function sqr", "did you mean sqrt?"),
    "arguments": ("O = pow(A);", 5, "pow takes 2 arguments, got 1", ""),
    "cast": ("O = as_float(A);", 5, "as_float needs a width in bits", "as_float(A, 32)"),
    "width": ("O = as_int(A, 24);", 15, "a width of 8, 16, 32, 64 bits, not 24", ""),
    "axis": ("O = index(A, 2);", 14, "axis 2 of A, which has 2 dimensions", "from 0"),
    "axis name": ("O = index(A, M);", 14, "the axis of index is a whole number, not M", ""),
    "index of a size": ("O = index(M, 0);", 11, "index takes a tensor, M is a number", ""),
    "reshape": ("O = reshape();", 5, "reshape takes a tensor and its new sizes", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", UNSIZED)
def test_mistakes_that_are_seen_without_sizes(case: str) -> None:
    text, column, problem, advice = UNSIZED[case]
    line = 1 if "output O" in problem or problem.startswith("O is a dim") else 2
    with pytest.raises(TileError) as caught:
        check(parse(f"{HEADER}{text}\n}}"))
    error = caught.value
    assert problem in error.problem
    assert advice in error.advice
    last = error.line == 3 and text.count("\n")
    assert (error.line, error.column) == (3 if last else line, column)


HEADERS = {
    "function (A, A) -> (O) { O = A; }": "A is defined already, as a tensor in line 1",
    "function (A[A]) -> (O) { O = A; }": "A is a tensor and cannot be a dimension",
    "function (A[N], N[M]) -> (O) { O = A; }": "N is defined already, as a dimension",
    "function (A[n]) -> (O) { O = A; }": "n would be an index: a dimension begins",
    "function (A[2 * N]) -> (O) { O = A; }": "N is not defined",
    "function (A[N], B[N / 2.5]) -> (O) { O = A; }": "a size is arithmetic over dimensions: 2.5 is",
    "function (A[N], B[N + A]) -> (O) { O = A; }": "A is a tensor and cannot be in a size",
    "function (A[N], B[2 * n]) -> (O) { O = A; }": "n is an index and cannot be in a size",
    "function (A[N], B[1 / (2 - 2)]) -> (O) { O = A; }": "division by 2 - 2, which is 0",
    "function (a) -> (O) { O = a; }": "a would be an index: a tensor begins with a capital",
    "function (A) -> (O, O) { O = A; }": "output O is listed twice",
    "function (A) -> (A) { O = A; }": "A is an input and cannot be an output as well",
}


@pytest.mark.parametrize("code", HEADERS)
def test_mistakes_in_headers(code: str) -> None:
    with pytest.raises(TileError) as caught:
        check(parse(code))
    assert HEADERS[code] in caught.value.problem


#: Function, shapes of its inputs, part of what is said.
SIZED = {
    "square": (
        "function (A[N, N]) -> (O) { O = A; }", [(4, 5)],
        "N is 4 as dimension 0 of A, but 5 as dimension 1 of A",
    ),
    "inner": (
        "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        [(2, 3), (4, 5)], "L is 3 as dimension 1 of A, but 4 as dimension 0 of B",
    ),
    "rank": (
        "function (A[N]) -> (O) { O = A; }", [(2, 3)], "A has 1 dimension here, the array has 2"
    ),
    "rank in a contraction": (
        "function (A) -> (O) { O[] = +(A[i]); }", [(2, 3)], "A has 2 dimensions, got 1 index"
    ),
    "computed": (
        "function (A[2 * N], B[N]) -> (O) { O = A; }", [(7,), (3,)],
        "dimension 0 of A is 7, not 2 * N = 6",
    ),
    "number": ("function (A[N, 3]) -> (O) { O = A; }", [(2, 2)], "dimension 1 of A is 2, not 3"),
    "empty": ("function (A) -> (O) { O = A; }", [(2, 0)], "dimension 1 of A is 0: sizes are"),
    "size": (
        "function (A[N]) -> (O) { O[i: N - 3] = +(A[i]); }", [(3,)],
        "dimension 0 of O would be N - 3 = 0",
    ),
    "broadcast": (
        "function (A, B) -> (O) { O = A + B; }", [(3, 4), (5,)],
        "shapes [3, 4] and [5] do not broadcast: 4 and 5 in dimension 1",
    ),
    "sides": (
        "function (A, B) -> (O) { O = A < 0 ? A : B; }", [(3, 4), (4,)],
        "one shape or one is a scalar, got [3, 4] and [4]",
    ),
    "reshape": (
        "function (A[N]) -> (O) { O = reshape(A, N / 2, 2); }", [(5,)],
        "5 elements of shape [5] do not fill the shape [2, 2]",
    ),
    "axis": ("function (A) -> (O) { O = index(A, 1); }", [(5,)], "axis 1 of A, which has 1 dim"),
    "twice": (
        "function (A[N]) -> (O) { O[i: N] = =(A[i + j]), j < 2; }", [(3,)],
        "= writes O[0] more than once: for i = 0, j = 0 and i = 0, j = 1",
    ),
    "stride": (
        "function (A[N], B[K]) -> (O) { O[i: N] = +(A[(K - 2) * j]); }", [(3,), (2,)],
        "index j is not bounded",
    ),
    "divisor": (
        "function (A[N]) -> (O) { M = N - 3; O[i: N / M] = +(A[i]); }", [(3,)],
        "division by M, which is 0",
    ),
    "index divisor": (
        "function (A[N]) -> (O) { O[i: N] = +(A[i / (N - 3)]); }", [(3,)],
        "division by 0 in i / (N - 3)",
    ),
    "overflow": (
        "function (A[N]) -> (O) { M = N * 1000000000; P = M * M * M; O = A; }", [(3,)],
        "M * M is too large",
    ),
    "coefficient": (
        "function (A[N]) -> (O) { O[i: N] = +(A[999999999999 * (999999999999 * i)]); }", [(3,)],
        "the index expression has a coefficient above 2^62",
    ),
    "elements": (
        "function (A[N]) -> (O) { O[i, j: 10000000, 10000000] = +(A[i + j]), j < 2; }", [(3,)],
        "O would have 100000000000000 elements",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SIZED)
def test_mistakes_that_depend_on_sizes(case: str) -> None:
    code, shapes, problem = SIZED[case]
    function = parse(code)
    names = [i.name.text for i in function.inputs]
    with pytest.raises(TileError) as caught:
        bind(function, dict(zip(names, shapes, strict=True)))
    assert problem in caught.value.problem
    assert caught.value.line == 1
    assert caught.value.column > 1


def test_numbers_that_a_type_does_not_have_are_refused() -> None:
    function = parse("function (A) -> (O) { O = A + 300; }")
    with pytest.raises(TileError, match="300 beside an operand of type uint8"):
        bind(function, {"A": (2,)}, {"A": "uint8"})


def test_inputs_that_a_function_does_not_have_are_refused() -> None:
    function = parse("function (Image) -> (O) { O = Image; }", "net.tile")
    with pytest.raises(UsageError, match=r"net.tile has no input Imag in its .*; did you mean Im"):
        bind(function, {"Image": (2,), "Imag": (3,)})
    with pytest.raises(UsageError, match="no input X in its header: there are Image"):
        bind(function, {"Image": (2,)}, {"X": "int8"})


@pytest.mark.parametrize(
    "statement",
    [
        "O[4572 * i - 8941 * j - 6601 * k: N] = {}(A[i, j] * A[k, 4218 * i - 2810 * j]);",
        "O[i: N] = {}(A[80 * l - 73 * i - 77 * j - 14 * k, l] *"
        " A[61 * l - 43 * i + 22 * j - 41 * k, k]), 94 * k - 12 * i + 32 * j - 58 * l < N;",
    ],
)  # fmt: skip
def test_coefficients_of_many_digits_are_decided_in_time(statement: str) -> None:
    shapes = {"A": (10**6, 10**6)}
    code = f"function (A[N, M]) -> (O) {{{{ {statement} }}}}"
    with pytest.raises(TileError, match="more than once"):
        bind(parse(code.format("=")), shapes, most_operations=2**100)
    (step,) = bind(parse(code.format(">")), shapes, most_operations=2**100).steps
    assert isinstance(step, Contract)
    assert loops(step).written is None


def test_ranks_are_known_where_the_code_decides_them() -> None:
    code = """function (A[M, N], X, Y) -> (O, P, Q) {
        Half = M / 2;
        O[] = +(X[i, j, k]);
        P = A * X + Half;
        Q = Y + index(reshape(A, M * N), 0);
    }"""
    found = {name: (s.kind, s.rank) for name, s in check(parse(code)).items()}
    assert found == {
        "A": ("tensor", 2), "M": ("dimension", 0), "N": ("dimension", 0), "X": ("tensor", 3),
        "Y": ("tensor", None), "Half": ("dimension", 0), "O": ("tensor", 0), "P": ("tensor", 3),
        "Q": ("tensor", None),
    }  # fmt: skip


def test_shapes_follow_from_the_sizes_of_dimensions() -> None:
    function = parse("function (A[M, N], B[N], X) -> (O) { O = A + B; }", "net.tile")
    assert shapes_of(function, {"M": 2, "N": 3}, {"X": (4,)}) == {
        "A": (2, 3), "B": (3,), "X": (4,)
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"net.tile: the size of dimension N of input A is needed"):
        shapes_of(function, {"M": 2}, {"X": (4,)})
    with pytest.raises(UsageError, match=r"the shape of input X is needed"):
        shapes_of(function, {"M": 2, "N": 3})
    with pytest.raises(UsageError, match=r"no dimension Nn in its header: there are M, N; did you"):
        shapes_of(function, {"M": 2, "Nn": 3})
    with pytest.raises(UsageError, match="no input Y in its header"):
        shapes_of(function, {}, {"Y": (1,)})


def test_sizes_that_the_header_computes_need_not_be_given() -> None:
    function = parse("function (A[N], B[2 * N, (M + 1) / 2, 3], C[M]) -> (O) { O = A; }")
    assert shapes_of(function, {"N": 4, "M": 5}) == {"A": (4,), "B": (8, 3, 3), "C": (5,)}
    with pytest.raises(UsageError, match="the size of dimension M of input B is needed"):
        shapes_of(function, {"N": 4})


def test_an_error_survives_the_way_between_processes() -> None:
    with pytest.raises(TileError) as caught:
        parse("function (A) -> (O) { O = ; }")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert (copy.line, copy.column, copy.advice) == (1, 27, "")
