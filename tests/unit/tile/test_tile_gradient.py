"""Gradients of Tile functions: against differences, PyTorch's autograd, and by hand at kinks."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from support.tile_contractions import random_case
from support.tile_programs import PROGRAMS
from support.tile_slopes import check_gradient, gradients
from support.tile_tools import bound, floats

from autotune import tile
from autotune.errors import TileError, UsageError
from autotune.tile import evaluate, gradient, parse, to_code


def slopes(code: str, *arrays: Any, wrt: Any = None) -> Any:
    """Gradients for outer gradients of 1 (the last array may be given as such)."""
    results = gradients(gradient(parse(code), wrt), *map(np.asarray, arrays))
    return results[0] if len(results) == 1 else results


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "argmax"])
def test_programs_against_differences(name: str) -> None:
    program = PROGRAMS[name]
    for shapes in program.cases:
        check_gradient(program.code, program.arrays(shapes))


@pytest.mark.parametrize(
    "value",
    [
        "-X", "X + Y", "X - Y", "X * Y", "X / Y", "X * X / 2", "2 - X", "1 / X",
        "abs(X)", "ceil(X) * X", "floor(X) * Y", "round(X) + X", "sqrt(abs(X))", "exp(X)",
        "log(abs(Y))", "sin(X)", "cos(X)", "tan(X / 4)", "asin(X / 2)", "acos(X / 2)", "atan(X)",
        "sinh(X)", "cosh(X)", "tanh(X)", "sigmoid(X)", "max(X, Y)", "min(X, Y)", "max(X, 0.1)",
        "pow(abs(X), Y)", "pow(X, 2)", "pow(X, 3)", "pow(X, -2)", "pow(abs(X), 2.5)", "pow(2.5, X)",
        "pow(X, 0)", "pow(X, 1)", "pow(N, X)", "X < Y ? X * Y : X", "X < Y ? 3 : X",
        "X < 0 ? X : 1",
        "as_float(X, 64) * Y", "as_float(as_int(X, 32), 64) * Y", "as_bool(X) * Y",
        "index(X * Y, 1) * X", "reshape(X * Y, N, M) * reshape(X, N, M)", "reshape(X, M * N / 1)",
        "X * M / (N + 1)", "(X > 0) * X", "exp(X * Y) * exp(X * Y) / (1 + exp(X + Y))",
    ],
)  # fmt: skip
def test_elementwise_operations_against_differences(value: str) -> None:
    code = f"function (X[M, N], Y[M, N]) -> (O) {{ O = {value}; }}"
    check_gradient(code, [floats(3, 4), floats(3, 4, seed=5)])


@pytest.mark.parametrize(
    ("shapes", "header"),
    [
        (((3, 4), (4,)), "X[M, N], Y[N]"),
        (((3, 4), (4,)), "X[M, N], Y[K]"),
        (((3, 4), (1,)), "X[M, N], Y[K]"),
        (((3, 1), (4,)), "X[M, N], Y[K]"),
        (((3, 4), ()), "X[M, N], Y[]"),
        (((), (2, 3)), "X[], Y[M, N]"),
        (((3, 1), (1, 4)), "X[M, N], Y[K, L]"),
        (((1, 1), (1, 1)), "X[M, N], Y[K, L]"),
        (((2, 1, 3), (4, 1)), "X, Y"),
    ],
)
def test_broadcast_operands_are_summed_back(shapes: Any, header: str) -> None:
    code = f"function ({header}) -> (O) {{ S = X * Y + X; O = S < 0.5 ? S * Y : X / Y; }}"
    check_gradient(code, [floats(*shape, seed=k) for k, shape in enumerate(shapes)])


@pytest.mark.parametrize(
    "statement",
    [
        "O[i: N] = >(A[j + i] + B[j]), j < 2;",
        "O[i: N] = <(A[i - j] * B[j]);",
        "O[i: N] = *(A[i + j] + B[j]);",
        "O[i: N] = *(A[i / 2] * B[j]), j - i < N;",
        "O[i: N] = >(A[i / 2 + j] * B[j]);",
        "O[i: N] = +(A[i / 2 + j / 2] + B[j]);",
        "O[i: N] = +(A[i / M + j] + B[j]);",
        "O[i: N] = >(A[M * i + j] + B[j]);",
        "O[i: N] = *(A[M * i + j] * B[j]);",
        "O[2 * i: N] = *(A[i] * A[i + 1]);",
        "O[] = *(A[i]);",
        "O[] = >(A[i] * B[i]);",
        "O[i: N] = =(A[N - 1 - i]);",
        "O[i, j: N, M] = =(A[i] + B[j]);",
        "O[i: N] = +(A[i + N]);",
    ],
)
def test_contractions_against_differences(statement: str) -> None:
    code = f"function (A[N], B[M]) -> (O) {{ {statement} }}"
    check_gradient(code, [floats(6), floats(3, seed=1)])


def test_random_contractions_against_differences() -> None:
    rng = random.Random(11)
    checked = 0
    while checked < 40:
        case = random_case(rng)
        arrays: list[Any] = [floats(*shape, seed=k) for k, shape in enumerate(case.shapes)]
        if case.combination == "?":
            arrays[:2] = [(a > 0).astype("int32") for a in arrays[:2]]
        if case.is_bounded() and is_legal(case.code, arrays):
            check_gradient(case.code, arrays)
            checked += 1


def is_legal(code: str, arrays: list[Any]) -> bool:
    """Whether a function is one: "=" may write a place twice."""
    try:
        bound(code, *arrays)
    except TileError:
        return False
    return True


@pytest.mark.parametrize(
    "name", ["softmax", "pooling with rounding up", "product over an axis", "lstm step"]
)
def test_compiled_gradients_compute_what_they_mean(name: str) -> None:
    program = PROGRAMS[name]
    made, arrays = gradient(parse(program.code)), program.arrays(program.cases[0])
    outputs = evaluate(bound(program.code, *arrays), *arrays)
    arrays += [floats(*output.shape, seed=9) for output in outputs]
    compiled = tile.compile(made, "llvm -mcpu=x86-64-v2")(*arrays)
    expected = gradients(made, *arrays)
    for result, value in zip(compiled if len(expected) > 1 else [compiled], expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-5)


# -- against PyTorch ---------------------------------------------------------------------------

#: Tile code, shapes of its inputs, and the same function of torch and its tensors.
_TORCH: dict[str, tuple[str, tuple[tuple[int, ...], ...], Any]] = {
    "matmul": (PROGRAMS["matmul"].code, ((3, 4), (4, 5)), lambda t, a, b: a @ b),
    "softmax": (PROGRAMS["softmax"].code, ((3, 8),), lambda t, x: t.softmax(x, 1)),
    "layer norm": (
        PROGRAMS["layer norm"].code,
        ((3, 8), (8,), (8,)),
        lambda t, x, g, b: t.nn.functional.layer_norm(x, (8,), g, b, 1e-5),
    ),
    "padded and strided convolution": (
        PROGRAMS["padded and strided convolution"].code,
        ((2, 3, 6, 5), (2, 3, 3, 3)),
        lambda t, x, k: t.nn.functional.conv2d(x, k, stride=2, padding=1),
    ),
    "dilated and grouped convolution": (
        PROGRAMS["dilated and grouped convolution"].code,
        ((2, 6, 8, 4), (3, 2, 2, 2, 3)),
        lambda t, x, k: t.nn.functional.conv2d(
            x.permute(0, 3, 1, 2), k.permute(2, 4, 3, 0, 1).flatten(0, 1), dilation=(2, 3), groups=2
        ).permute(0, 2, 3, 1),
    ),
    "batch norm": (
        PROGRAMS["batch norm"].code,
        ((3, 2, 4, 5), (5,), (5,)),
        lambda t, x, g, b: t.nn.functional.batch_norm(
            x.movedim(3, 1), None, None, g, b, training=True, eps=1e-5
        ).movedim(1, 3),
    ),
    "running sum": (
        "function (X[N]) -> (O) { S[i: N] = +(X[j]), i - j < N; O = sin(S) * exp(-S); }",
        ((7,),),
        lambda t, x: t.sin(t.cumsum(x, 0)) * t.exp(-t.cumsum(x, 0)),
    ),
    "distances": (
        "function (X[N, D], Y[M, D]) -> (O) { S[i, j: N, M] = +(X[i, k] * Y[j, k]);"
        " XX[i, 0: N, 1] = +(X[i, k] * X[i, k]); YY[j: M] = +(Y[j, k] * Y[j, k]);"
        " Q = XX - 2 * S + YY; O[i: N] = <(Q[i, j]); }",
        ((4, 3), (5, 3)),
        lambda t, x, y: ((x[:, None] - y[None]) ** 2).sum(2).amin(1),
    ),
    "largest": (
        "function (X[M, N]) -> (O) { O[m: M] = >(X[m, n]); }",
        ((3, 4),),
        lambda t, x: t.amax(x, 1),
    ),
    "product": (
        "function (X[M, N]) -> (O) { O[m: M] = *(X[m, n]); }",
        ((3, 4),),
        lambda t, x: t.prod(x, 1),
    ),
    "maximum of two": (
        "function (X[M, N], Y[N]) -> (O) { O = max(X, Y) * sigmoid(X) + tanh(Y) / cosh(X); }",
        ((3, 4), (4,)),
        lambda t, x, y: t.maximum(x, y) * t.sigmoid(x) + t.tanh(y) / t.cosh(x),
    ),
}


@pytest.mark.parametrize("name", _TORCH)
def test_gradients_against_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    code, shapes, function = _TORCH[name]
    # Small integers, so that there are ties and zeros.
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 4, shape).astype("f8") for shape in shapes]
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    output = function(torch, *tensors)
    outer = rng.normal(size=tuple(output.shape))
    output.backward(torch.tensor(outer))
    results = gradients(gradient(parse(code)), *arrays, outer)
    for result, tensor in zip(results, tensors, strict=True):
        np.testing.assert_allclose(result, tensor.grad.numpy(), rtol=1e-6, atol=1e-9)


# -- by hand -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ([2, 3, 4], [12, 8, 6]),
        ([0, 3, 4], [12, 0, 0]),
        ([2, 0, 0], [0, 0, 0]),
        ([0, 0, 0], [0, 0, 0]),
        ([-1, 0, 5], [0, -5, 0]),
    ],
)
def test_products_are_differentiated_rightly_at_zeros(factors: Any, expected: Any) -> None:
    code = "function (X[N]) -> (O) { O[] = *(X[i]); }"
    assert slopes(code, np.float64(factors), np.float64(1)).tolist() == expected


@pytest.mark.parametrize("factors", [[2, 3, 5, 7], [2, 0, 5, 7], [0, 3, 0, 7], [0, 0, 0, 7]])
def test_second_derivatives_of_products_are_right_at_zeros(factors: Any) -> None:
    first = gradient(parse("function (X[N]) -> (O) { O[] = *(X[i]); }"))
    second, x = gradient(first, ["X"]), np.float64(factors)
    for i, row in enumerate(np.eye(4)):
        (found,) = gradients(second, x, np.float64(1), row)
        expected = [0 if j == i else np.delete(x, [i, j]).prod() for j in range(4)]
        np.testing.assert_allclose(found, expected)


def test_products_of_two_tensors_at_zeros() -> None:
    code = "function (X[N], Y[N]) -> (O) { O[] = *(X[i] * Y[i]); }"
    x, y = slopes(code, np.float64([0, 2]), np.float64([3, 4]), np.float64(1))
    assert (x.tolist(), y.tolist()) == ([24, 0], [0, 0])


@pytest.mark.parametrize("aggregation", [">", "<"])
def test_ties_share_the_gradient_evenly(aggregation: str) -> None:
    code = f"function (X[N]) -> (O) {{ O[] = {aggregation}(X[i]); }}"
    x = np.float64([1, 5, 5, 1, 3]) * (1 if aggregation == ">" else -1)
    assert slopes(code, x, np.float64(3)).tolist() == [0, 1.5, 1.5, 0, 0]


def test_ties_of_combined_values_share_evenly() -> None:
    code = "function (X[N], Y[M]) -> (O) { O[] = >(X[i] + Y[j]); }"
    x, y = slopes(code, np.float64([1, 1]), np.float64([2, 0, 2]), np.float64(4))
    assert (x.tolist(), y.tolist()) == ([2, 2], [2, 0, 2])


@pytest.mark.parametrize("function", ["max", "min"])
def test_equal_arguments_of_max_and_min_share_evenly(function: str) -> None:
    code = f"function (X[N], Y[N]) -> (O) {{ O = {function}(X, Y); }}"
    x, y = slopes(code, np.float64([1, 2]), np.float64([1, 2]), np.float64([2, 6]))
    assert (x.tolist(), y.tolist()) == ([1, 3], [1, 3])


def test_elements_that_are_never_read_or_written_have_no_gradient() -> None:
    code = "function (X[N]) -> (O) { O[2 * i: N] = >(X[i]); }"
    assert slopes(code, np.float64([1, 2, 3]), np.float64([7, 8, 9])).tolist() == [7, 9, 0]


def test_conditional_contractions_pass_gradients_to_what_is_chosen() -> None:
    code = "function (A[N], B[M], C[M]) -> (O) { O[i: N] = +(A[i] == B[j] ? C[j]); }"
    results = slopes(code, np.float64([1, 2, 1]), np.float64([1, 3]), np.float64([5, 6]),
                     np.float64([1, 10, 100]))  # fmt: skip
    assert [r.tolist() for r in results] == [[0, 0, 0], [0, 0], [101, 0]]


def test_what_does_not_influence_an_output_has_a_gradient_of_zeros() -> None:
    program = PROGRAMS["argmax"]
    x = np.float64([[1, np.inf], [np.nan, 2]])
    result = slopes(program.code, x, np.float64([1, 1]))
    assert result.dtype == "float64"
    assert result.tolist() == [[0, 0], [0, 0]]


def test_powers_of_zero() -> None:
    code = "function (X[N], Y[N]) -> (O) { O = pow(X, Y); }"
    x, y = slopes(code, np.float64([0, 0, 0]), np.float64([0, 1, 2]), np.ones(3))
    assert (x.tolist(), y.tolist()) == ([0, 1, 0], [0, 0, 0])


def test_gradients_of_gradients() -> None:
    cube = gradient(parse("function (X[N]) -> (O) { O = X * X * X; }"))
    twice = gradient(cube, ["X"])
    x = floats(4).astype("f8")
    np.testing.assert_allclose(gradients(twice, x, np.ones(4), np.ones(4))[0], 6 * x)


@pytest.mark.parametrize(
    "statement",
    [
        "O[] = +(X[i] * Y[i]);", "O[] = >(X[i] + Y[i]);", "O[] = *(X[i] * Y[i]);",
        "Z = max(X, Y) * pow(X, 2.5) / 3 + exp(Y); O[] = +(Z[i]);",
    ],
)  # fmt: skip
def test_gradients_of_half_floats_are_half_floats(statement: str) -> None:
    code = f"function (X[N], Y[N]) -> (O) {{ {statement} }}"
    results = slopes(code, np.ones(3, "f2"), np.ones(3, "f2"), np.ones((), "f2"))
    assert [r.dtype.name for r in results] == ["float16", "float16"]


# -- the code ----------------------------------------------------------------------------------


def test_the_gradient_of_matmul_is_two_contractions() -> None:
    made = gradient(parse(PROGRAMS["matmul"].code))
    assert to_code(made) == """\
function (A[M, L], B[L, N], GradC[M, N]) -> (GradA, GradB) {
    GradA[i, k: M, L] = +(GradC[i, j] * B[k, j]);
    GradB[k, j: L, N] = +(GradC[i, j] * A[i, k]);
}
"""


@pytest.mark.parametrize(
    ("statements", "header"),
    [
        ("O[i, j: 2 * N, 3] = +(X[i / 2, j]);", "GradO[2 * N, 3]"),
        ("H = M / 2; O[i: H + N] = +(X[i, j]);", "GradO[M / 2 + N]"),
        ("O = reshape(X, M * N);", "GradO[M * N]"),
        ("H = M * N; K = H / 1; O = reshape(X, K);", "GradO[M * N / 1]"),
    ],
)
def test_an_outer_gradient_has_the_shape_of_the_output(statements: str, header: str) -> None:
    made = gradient(parse(f"function (X[N, M]) -> (O) {{ {statements} }}"))
    assert f", {header}) -> (GradX)" in to_code(made)
    x = floats(2, 4)
    outer = bound(f"function (X[N, M]) -> (O) {{ {statements} }}", x).types["O"].shape
    assert gradients(made, x, np.ones(outer, "f4"))[0].shape == x.shape
    with pytest.raises(TileError, match=f"dimension 0 of GradO is {outer[0] + 1}, not"):
        gradients(made, x, np.ones((outer[0] + 1, *outer[1:]), "f4"))


@pytest.mark.parametrize(
    "growth", ["H{0} + H{0} - 1", "H{0} * H{0}", "H{0} * H{0} / 2", "(H{0} + M) * (H{0} - N)"]
)
def test_sizes_that_take_long_to_write_have_names(growth: str) -> None:
    sizes = " ".join(f"H{k + 1} = {growth.format(f'{k}')};" for k in range(60))
    code = f"function (X[N, M]) -> (O) {{ H0 = N * M; {sizes} O[i: H60] = +(X[i, j]); }}"
    assert "GradO[O0]" in to_code(gradient(parse(code)))


def test_statements_that_are_not_needed_are_left_out() -> None:
    made = gradient(parse("function (X[N], Y[N]) -> (O) { E = exp(Y); O = X * E + Y; }"), ["X"])
    assert to_code(made) == """\
function (X[N], Y[N], GradO[N]) -> (GradX) {
    E = exp(Y);
    GradX = GradO * E;
}
"""


def test_new_names_are_not_those_of_the_function() -> None:
    check_gradient(
        "function (O0[N], GradO[N], One[N]) -> (O, O_1) {"
        " O_1[] = >(O0[i] * GradO[i]); O = sin(O0 * GradO) * One; }",
        [floats(3), floats(3, seed=1), floats(3, seed=2)],
        ["O0", "One"],
    )


def test_sums_of_many_terms_do_not_nest_too_deep() -> None:
    uses = " ".join(f"T{k} = sin({k} * X);" for k in range(120))
    total = "S0 = T0; " + " ".join(f"S{k} = S{k - 1} + T{k};" for k in range(1, 120))
    made = gradient(parse(f"function (X[N]) -> (O) {{ {uses} {total} O = S119; }}"))
    x = np.float64([0.5])
    expected = sum(k * np.cos(k * x) for k in range(120))
    np.testing.assert_allclose(gradients(made, x, np.ones(1))[0], expected)


# -- mistakes ----------------------------------------------------------------------------------


def test_integers_are_refused() -> None:
    function = parse("function (A[N], B[N]) -> (O) { O = A * B; }", "net.tile")
    with pytest.raises(TileError, match="A is of type int32: there are derivatives by floats only"):
        gradient(function, ["A"], dtypes_of={"A": "int32"})
    with pytest.raises(UsageError, match=r"net\.tile has no input C in its header: there are A, B"):
        gradient(function, dtypes_of={"C": "int32"})
    made = gradient(function, dtypes_of={"A": "int32"})
    assert [name.text for name in made.outputs] == ["GradB"]


def test_inputs_of_unknown_rank_are_refused() -> None:
    function = parse("function (A) -> (O) { O = sin(A); }")
    with pytest.raises(TileError, match=r"write them in the header, as in A\[M, N\]"):
        gradient(function)
    assert gradient(function, ranks={"A": 2}).inputs[0].dimensions is not None
    with pytest.raises(UsageError, match="no input B whose rank to give; there are A"):
        gradient(function, ranks={"A": 2, "B": 2})
    with pytest.raises(UsageError, match="A has 1 dimension by its code, not 3"):
        gradient(parse("function (A[N]) -> (O) { O = sin(A); }"), ranks={"A": 3})
    contracted = gradient(parse("function (A) -> (O) { O[] = +(A[i, j]); }"))
    assert "A[A0, A1]" in to_code(contracted)


def test_without_floats_there_is_nothing_to_differentiate_by() -> None:
    with pytest.raises(UsageError, match="has no input of floats"):
        gradient(parse("function () -> (O) { O = 1.5; }"))
    with pytest.raises(UsageError, match="has no input of floats"):
        gradient(parse("function (A[N]) -> (O) { O = A; }"), dtypes_of={"A": "int8"})


@pytest.mark.parametrize("wrt", [["C"], [], ["A", "A"]])
def test_wrt_names_inputs_once(wrt: list[str]) -> None:
    with pytest.raises(UsageError):
        gradient(parse("function (A[N]) -> (O) { O = sin(A); }"), wrt)
