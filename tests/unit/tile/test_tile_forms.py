"""Forms of Tile beyond the tutorial: what is read into them, and what is refused in their place."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.tile_slopes import check_gradient
from support.tile_tools import bound, floats, run

from autotune import tile
from autotune.errors import ArgumentError, TileError, UsageError
from autotune.system.environment_variables import OPERATIONS_VARIABLE
from autotune.tile import bind, check, gradient, parse, shapes_of, to_code
from autotune.tile.binding.bound_program import Contract
from autotune.tile.binding.size_limits import MAX_OPERATIONS, operations
from autotune.tile.check.size_inputs import size_inputs

TARGETS = ("llvm", "cuda -on=cpu")


def same(code: str) -> str:
    """Return a function as it is printed; it is read back the same."""
    function = parse(code)
    assert parse(to_code(function)) == function
    return to_code(function).split("\n")[1].strip()


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("O = A & 3 | B & ~C;", "O = A & 3 | B & ~C;"),
        ("O = (A | 3) & B;", "O = (A | 3) & B;"),
        ("O = A & (B == C);", "O = A & B == C;"),
        ("O = (A ^ B) | C;", "O = (A ^ B) | C;"),
        ("O = A ^ B ^ C;", "O = A ^ B ^ C;"),
        ("O = A ^ (B ^ C);", "O = A ^ (B ^ C);"),
        ("O = A << 1 + N >> 2;", "O = A << 1 + N >> 2;"),
        ("O = (A << 1) + 1;", "O = (A << 1) + 1;"),
        ("O = A < B & C > 0 ? ~-A : -~B;", "O = A < B & C > 0 ? ~-A : -~B;"),
        ("O[:] = +(A[i]) no_defract;", "O[] = +(A[i]);"),
        ("O[ : ] = +(A[i] == B[j]);", "O[] = +(A[i] == B[j]);"),
        (
            "O[i: max(N, 2)] = =(A[i]), i < 2 no_defract default P no_defract;",
            "O[i: max(N, 2)] = =(A[i]), i < 2 default P;",
        ),
        ("O[default: N] = +(A[no_defract]);", "O[default: N] = +(A[no_defract]);"),
    ],
)
def test_forms_are_read_and_printed(written: str, printed: str) -> None:
    assert same(f"function (A[N], B, C, P) -> (O) {{ {written} }}") == printed


#: Statement, part of what is wrong, part of what to write instead.
REFUSED = {
    "mod": ("O[i: mod(N, 3)] = =(A[i]);", "there is no function mod", "A - A / B * B"),
    "broadcast": ("K = broadcast(N, 1); O = A;", "no function broadcast", "max(A, B)"),
    "cond": ("O = cond(A, A, A);", "there is no function cond", "C ? T : E"),
    "tuple": ("O = tuple(A, A);", "there is no function tuple", "several outputs in the header"),
    "bit_and": ("O = bit_and(A, A);", "there is no function bit_and", "x & y"),
    "softmax": ("O = softmax(A);", "there is no function softmax", "mean builtin_softmax?"),
    "attribute": ("[[pid(x)]] O = A;", "'[' cannot stand here", "leave them out"),
    "default": ("O[i: N] = =(A[i]) default 0;", "'0' cannot stand", "the name of a tensor"),
    "default index": ("O[i: N] = =(A[i]) default a;", "a begins in lower case", "mean A?"),
    "default dimension": ("O[i: N] = =(A[i]) default N;", "N is a dimension", ""),
    "default rank": ("O[i: N] = =(A[i]) default B;", "B has 2 dimensions, O has 1", "shape of"),
    "size computed": ("S[] = +(A[i]); O[i: S] = =(A[i]);", "S is a tensor", "inputs without"),
    "assertion of a tensor": ("K = assert_x(A == 1); O = A;", "A is a tensor", ""),
    "assertion of two": ("K = assert_x(N, 1); O = A;", "assert_x takes 1 argument, got 2", ""),
    "max of one": ("O[i: max(N)] = =(A[i]);", "max takes 2 arguments, got 1", ""),
    "max of an index": ("O[i: N] = =(A[max(i, 0)]);", "an index is a linear polynomial", ""),
    "index of bits": ("O[i: N] = =(A[(i & 1)]);", "an index is a linear polynomial", ""),
    "random as a tensor": (
        "R = prng_step(B, N); O = R + 1;", "R is what prng_step gives", "prng_value(R)"
    ),
    "random in a contraction": (
        "R = prng_step(B, N); O[] = +(R[i]);", "R is what prng_step gives", "prng_value(R)"
    ),
    "random as output": ("O = prng_step(B, N);", "output O is what prng_step", "return these"),
    "random from elsewhere": ("O = prng_value(A);", "A is a tensor", "T = prng_step(State, N)"),
    "state": ("R = prng_step(A, N); O = prng_value(R);", "uint32[3, 2048], A has 1", ""),
    "rows of a scalar": ("S[] = +(A[i]); O = gather(S, A);", "S is a scalar and has no rows", ""),
    "shape of a scalar": ("S[] = +(A[i]); O = shape(S);", "S is a scalar and has no sizes", ""),
    "shape of a size": ("O = shape(N);", "shape takes a tensor, N is a number", ""),
    "rows without numbers": ("O = scatter(A, B, B);", "A has 1 dimension, B 2", ""),
    "softmax without sizes": ("O = builtin_softmax(B);", "takes 3 arguments, got 1", ""),
    "width of a condition": ("O = as_bool(A, 32);", "a width of 1, 8 bits, not 32", ""),
    "crossentropy": (
        "O = builtin_binary_crossentropy(A, A, A);", "the last argument of", "",
    ),
    "mixed signs": ("O = A | A ^ A;", "'^' cannot stand here", "in parentheses"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_what_to_write_instead(case: str) -> None:
    statement, problem, advice = REFUSED[case]
    with pytest.raises(TileError) as caught:
        check(parse(f"function (A[N], B[N, M]) -> (O) {{ {statement} }}"))
    assert problem in caught.value.problem
    assert advice in caught.value.advice
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("O = A ^ 2;", "^ is of integers and conditions: A ^ 2 is of float32"),
        ("O = ~A;", "~ is of integers and conditions: ~A is of float32"),
        ("O = A + (1.5 << 1);", "<< is of integers"),
        ("O = gather(B, A);", "A is float32: numbers of rows are integers"),
        ("O[i: N] = =(A[i]) default P;", "P has the shape [3], O [4]"),
        ("K = assert_more(N > 4 & M == 2); O = A;", "fails: N = 4 and M = 2"),
        ("O = builtin_softmax(B, M, M);", "8 elements of shape [4, 2] do not fill the shape"),
        ("O = scatter(B, as_int(P, 32), B);", "shapes [4, 2] and [3] do not begin alike"),
        ("R = prng_step(B, 3); O = prng_value(R);", "uint32[3, 2048], got float32[4, 2]"),
        ("O[i: min(N, 0)] = =(A[i]);", "would be min(N, 0) = 0: sizes are at least 1"),
        ("O[i: N / max(M - 2, 0)] = =(A[i]);", "division by max(M - 2, 0), which is 0"),
        ("O[i: (1 << N * 15 + 3)] = =(A[i]);", "is too large"),
    ],
)
def test_what_sizes_and_types_do_not_allow_is_refused(statement: str, problem: str) -> None:
    function = parse(f"function (A[N], B[N, M], P) -> (O) {{ {statement} }}")
    with pytest.raises(TileError) as caught:
        bind(function, {"A": (4,), "B": (4, 2), "P": (3,)})
    assert problem in caught.value.problem


# -- sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "value"),
    [
        ("(5 + 2) / 2", 3), ("7 / 2", 3), ("-7 / 2 + 9", 5), ("max(N, 3) - min(N, 3)", 2),
        ("(N & 6) + (N >> 1)", 6), ("(N ^ 1)", 4), ("(N > 3 ? N : 3)", 5),
        ("(N - 1) * 1 / 1", 4), ("~-3", 2), ("max(1, max(2, N - 9))", 2),
    ],
)  # fmt: skip
def test_sizes_are_whole_numbers_rounded_down(size: str, value: int) -> None:
    code = f"function (X[N]) -> (O) {{ O[i: {size}] = +(X[i]); }}"
    assert run(code, floats(5)).shape == (value,)
    named = f"function (X[N]) -> (O) {{ H = {size}; O[i: H] = +(X[i]); }}"
    assert run(named, floats(5)).shape == (value,)


def test_masks_of_unsigned_numbers_may_be_written_with_the_sign_for_not() -> None:
    x = np.array([0, 1, 2, 255], "u1")
    assert run("function (X) -> (O) { O = X & ~1; }", x).tolist() == [0, 0, 2, 254]
    assert run("function (X) -> (O) { O = X ^ -1; }", x).tolist() == [255, 254, 253, 0]
    signed = run("function (X) -> (O) { O = X | ~15; }", x.astype("i4"))
    assert signed.tolist() == [-16, -15, -14, -1]
    for code in ("O = X & 256;", "O = X + ~1;", "O = X & -257;"):
        with pytest.raises(TileError, match="does not have this number"):
            run(f"function (X) -> (O) {{ {code} }}", x)


def test_a_quotient_of_numbers_that_could_mean_a_fraction_is_refused() -> None:
    with pytest.raises(TileError, match=r"\(5 \+ 2\) / 2 is not whole"):
        check(parse("function (X) -> (O) { H = (5 + 2) / 2; O = X * H; }"))


def test_an_input_of_which_a_size_is_made_is_given_as_a_number() -> None:
    code = """function (X[N, C], K[W, C], D) -> (O) {
        Pad = max(0, D + W - 1 - N) / 2;
        O[i: D] = +(X[i + w - Pad, c] * K[w, c]);
    }"""
    function = parse(code)
    assert size_inputs(function) == ("D",)
    assert shapes_of(function, {"N": 6, "C": 2, "W": 3, "D": 6}) == {"X": (6, 2), "K": (3, 2)}
    arrays = floats(6, 2), floats(3, 2, seed=1)
    padded = np.pad(arrays[0], ((1, 1), (0, 0)))
    wanted = [(padded[i : i + 3] * arrays[1]).sum() for i in range(6)]
    compiled = tile.compile(code)
    for number in (6, np.int64(6), np.array(6, "uint8")):
        np.testing.assert_allclose(compiled(*arrays, number), wanted, rtol=1e-5)
    assert compiled(*arrays, 4).shape == (4,)
    for wrong, said in ((6.0, "got float"), (True, "got bool"), (arrays[0], r"float32\[6, 2\]")):
        with pytest.raises(ArgumentError, match=f"input D is a size.*{said}"):
            compiled(*arrays, wrong)
    with pytest.raises(TileError, match="D = 0: sizes are at least 1"):
        compiled(*arrays, 0)
    with pytest.raises(TileError, match="the value of D is not known"):
        bind(function, {"X": (6, 2), "K": (3, 2)})
    with pytest.raises(UsageError, match="no size N in its header: there are D"):
        bind(function, {"X": (6, 2), "K": (3, 2)}, {}, {"D": 6, "N": 6})
    with pytest.raises(TileError, match="D is a size: there are derivatives by tensors only"):
        gradient(function, ["D"])


@pytest.mark.parametrize(
    ("code", "sizes"),
    [
        ("function (X, D) -> (O) { O = reshape(X, D, 2); }", ("D",)),
        ("function (X[N], D[]) -> (O) { O[i: N] = +(X[i + j]), j < D; }", ("D",)),
        ("function (X[N], D) -> (O) { E = D * 2; F = E + 1; O[i: N] = =(X[i + F]); }", ("D",)),
        ("function (X[N], D) -> (O) { A = assert_x(D == N); O = X; }", ("D",)),
        ("function (X[D], D) -> (O) { O = X; }", ("D",)),
        ("function (S, A, B) -> (O) { O = prng_value(prng_step(S, A, B)); }", ("A", "B")),
        ("function (X, D) -> (O) { E = D * 2; O = X * E; }", ()),
        ("function (X, D) -> (O) { O[i: 3] = +(X[i] * D[]); }", ()),
    ],
)
def test_which_inputs_are_sizes_follows_from_their_use(code: str, sizes: tuple[str, ...]) -> None:
    check(parse(code))
    assert size_inputs(parse(code)) == sizes


def test_dimensions_are_outputs_of_their_own_type() -> None:
    code = """function (X[N], D) -> (N, M, D2) {
        M = N * 3000000000;
        D2 = max(D, 2);
        Y = reshape(X, D);
    }"""
    for compiled in (run, lambda code, *given: tile.compile(code)(*given)):
        n, m, d = compiled(code, floats(3), 3)
        assert [(x.dtype.name, x.shape, int(x)) for x in (n, m, d)] == [
            ("int32", (), 3), ("int64", (), 9000000000), ("int32", (), 3)
        ]  # fmt: skip


# -- defects that were found from outside ----------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_the_index_of_a_tensor_that_nobody_reads_is_compiled(target: str) -> None:
    code = "function (X) -> (O, S) { T = X * 2; O = index(T, 0); S = shape(T * T); }"
    found, sizes = tile.compile(code, target)(floats(3, 4))
    np.testing.assert_array_equal(found, np.arange(3)[:, None].repeat(4, 1))
    assert sizes.tolist() == [3, 4]


@pytest.mark.parametrize("target", TARGETS)
def test_a_default_that_nobody_reads_is_compiled(target: str) -> None:
    code = "function (X[N]) -> (O) { T = X * 2; O[i: N] = +(X[i]) default T; }"
    np.testing.assert_array_equal(tile.compile(code, target)(floats(4)), floats(4))
    code = "function (X[N]) -> (O) { T = X * 2; O[i: N] = +(X[i]), i - 7 < 2 default T; }"
    np.testing.assert_array_equal(tile.compile(code, target)(floats(4)), 2 * floats(4))


def test_the_global_minimum_has_a_gradient_though_its_header_has_no_dimensions() -> None:
    code = "function (I) -> (O) { Neg = -I; O_Neg[] = >(Neg[i, j, k]); O = -O_Neg; }"
    assert check(parse(code))["I"].rank == 3
    made = gradient(parse(code))
    assert [len(i.dimensions or ()) for i in made.inputs] == [3, 0]
    check_gradient(code, [floats(2, 3, 2)])


@pytest.mark.parametrize(
    ("statements", "rank"),
    [
        ("T = exp(X) * 2; O[] = +(T[i, j]);", 2),
        ("T = X + A; O[] = +(T[i, j, k]);", 3),
        ("T = X + A; O[] = +(T[i, j]);", None),
        ("T = X + Y; O[] = +(T[i, j]);", None),
        ("T = X * X; U = relu(T); O[] = +(U[i]); V[] = +(T[i]);", 1),
        ("T = X > 0 ? X : 0.0; O[i, j: 2, 2] = =(A[i, j]) default T;", 2),
        ("T = X > 0 ? X : 0.0; O[i, j, k: 2, 2, 2] = =(A[i, j]), k < 1 default T;", 3),
    ],
)
def test_ranks_follow_through_operations_on_elements(statements: str, rank: int | None) -> None:
    found = check(parse(f"function (X, Y, A[M, N]) -> (O) {{ {statements} }}"))
    assert found["X"].rank == rank


def test_a_rank_that_cannot_be_is_told_where_it_is_read() -> None:
    with pytest.raises(TileError, match="T has 2 dimensions, got 1 index"):
        check(parse("function (X, A[M, N]) -> (O) { T = X + A; O[] = +(T[i]); }"))
    with pytest.raises(TileError, match="X has 2 dimensions, got 1 index"):
        check(parse("function (X) -> (O) { T = -X; P[] = +(T[i, j]); O[] = +(X[i]); }"))


def test_2_to_the_40_operations_are_refused_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "function (X[N]) -> (O) { O[] = +(X[i]), j < 1099511627776 / N; }"
    with pytest.raises(TileError) as caught:
        tile.compile(code)(floats(4))
    assert caught.value.problem == "O takes 2^40 operations, more than 2^39"
    assert f"{OPERATIONS_VARIABLE}=2^40" in caught.value.advice
    assert "most_operations=" in caught.value.advice
    assert MAX_OPERATIONS == 2**39
    bind(parse(code), {"X": (4,)}, most_operations=2**40)
    monkeypatch.setenv(OPERATIONS_VARIABLE, "2^40")
    bind(parse(code), {"X": (4,)})
    monkeypatch.setenv(OPERATIONS_VARIABLE, "1000")
    with pytest.raises(TileError, match=r"1.1e\+12|2\^40 operations, more than 1e\+03"):
        bind(parse(code), {"X": (4,)})
    for wrong in ("many", "2^", "9^999999", "-1", "1e3", "0"):
        monkeypatch.setenv(OPERATIONS_VARIABLE, wrong)
        with pytest.raises(UsageError, match="it is a whole number"):
            bind(parse(code), {"X": (4,)})


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "2^40", True, [3]], ids=str)
def test_a_limit_of_operations_that_is_no_whole_number_is_one_clear_line(wrong: object) -> None:
    code = "function (A[N]) -> (O) { O[] = +(A[i]); }"
    said = f"most_operations must be a whole number .* not {re.escape(repr(wrong))}$"
    with pytest.raises(UsageError, match=said):
        tile.compile(code, most_operations=wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=said):
        bind(parse(code), {"A": (4,)}, most_operations=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [10**400, 10**5000, -(10**5000)], ids=["400", "5000", "-5000"])
def test_a_size_of_thousands_of_digits_is_too_large(size: int) -> None:
    compiled = tile.compile("function (A[N], D) -> (O) { O[i: D] = +(A[i]); }")
    with pytest.raises(TileError, match="D is too large: give less than"):
        compiled(floats(4), size)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }", 120),
        ("function (A[M, K], B[K, N]) -> (C) { C[i: M] = +(A[i, k] * B[k, j]), j < 2; }", 48),
        ("function (A[M, K], B) -> (C) { C[i: M] = +(A[i, k]), 3 * k / 2 < 2; }", 16),
        ("function (A[M, K], B) -> (C) { C[2 * i + j: 2 * M] = +(A[i, j]); }", 24),
    ],
)
def test_operations_are_counted_by_the_shortest_ranges(code: str, count: int) -> None:
    program = bind(parse(code), {"A": (4, 6), "B": (6, 5)})
    (step,) = program.steps
    assert isinstance(step, Contract)
    assert operations(step.domain) == count
    assert operations(step.domain) >= len(next(iter(next(step.domain.points()).values())))


def strided() -> list[Any]:
    x = np.arange(48, dtype="f4").reshape(6, 8)
    unaligned = np.ndarray((2, 3), "f4", b"." + x.tobytes(), 1)
    return [x.T, x[::2], x[:, ::-1], x[1:, 2:5], np.broadcast_to(x[0], (3, 8)), unaligned]


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_that_do_not_lie_in_a_row_are_taken_as_they_are(target: str) -> None:
    compiled = tile.compile("function (X[N, M]) -> (O, P) { O[m: M] = +(X[n, m]); P = X; }", target)
    for array in strided():
        total, copy = compiled(array)
        np.testing.assert_array_equal(total, array.sum(0))
        np.testing.assert_array_equal(copy, array)


def test_random_numbers_go_on_where_the_last_ones_ended() -> None:
    code = "function (S) -> (V, N) { T = prng_step(S, {}); V = prng_value(T); N = prng_state(T); }"
    state = np.random.default_rng(0).integers(16, 2**32, (3, 2048)).astype("u4")
    whole, end = run(code.replace("{}", "6144"), state)
    pieces = []
    for _ in range(3):
        part, state = run(code.replace("{}", "2, 1024"), state)
        pieces.append(part.ravel())
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_array_equal(state, end)
    assert abs(whole.mean() - 0.5) < 0.02
    assert 0 <= whole.min() < whole.max() <= 1


def test_numbers_of_rows_of_any_integer_type_are_cut_to_the_rows_there_are() -> None:
    rows = floats(300, 2)
    for dtype, numbers in (
        ("int8", [-128, -1, 0, 127]), ("uint8", [0, 255]), ("int64", [-(2**40), 2**40, 299]),
        ("uint64", [2**63 + 5, 7]), ("uint32", [2**32 - 1]),
    ):  # fmt: skip
        at = np.array(numbers, dtype)
        wanted = rows[[min(max(n, 0), 299) for n in numbers]]
        code = "function (X, I) -> (O) { O = gather(X, I); }"
        np.testing.assert_array_equal(run(code, rows, at), wanted)
        np.testing.assert_array_equal(tile.compile(code)(rows, at), wanted)


def test_a_gradient_keeps_assertions_and_what_stands_behind_default() -> None:
    code = """function (X[N], P) -> (O) {
        A = assert_even(N / 2 * 2 == N);
        O[2 * i: N] = +(X[i + j]), j < 2 default P;
    }"""
    made = gradient(parse(code), ranks={"P": 1})
    assert "assert_even(N / 2 * 2 == N)" in to_code(made)
    assert "default GradO" in to_code(made)
    check_gradient(code, [floats(6), floats(6, seed=1)])
    with pytest.raises(TileError, match="assert_even"):
        bound(made, floats(5), floats(5), floats(5))


def test_the_gradient_of_a_softmax_is_two_statements() -> None:
    code = "function (X[M, N]) -> (Y) { Y = builtin_softmax(X, M, N); }"
    assert (
        to_code(gradient(parse(code)))
        == """\
function (X[M, N], GradY[M, N]) -> (GradX) {
    Y = builtin_softmax(X, M, N);
    Y_1 = GradY * Y;
    Y_1_sum_1[i, 0: M, 1] = +(Y_1[i, j]);
    GradX = Y_1 - Y_1_sum_1 * Y;
}
"""
    )
