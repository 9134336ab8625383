"""The device header computes as docs/dtypes.md and NumPy say: run on the CPU, against NumPy."""

import ctypes
import itertools

import numpy as np
import pytest
from support.dtype_values import assert_same, converted, edges, random_values
from support.host_cuda import compile_host, needs_host_compiler
from support.rtc_variants import NINE, Variant, joined, variants

from autotune.codegen.cuda.device_source import device_header
from autotune.ir import dtypes
from autotune.ir.dtypes import converted as convert
from autotune.rtc.elementwise import unary
from autotune.rtc.unary_operators import UNARY, accumulation, real
from autotune.rtc.vector_plan import most_lanes, plan_vectors

pytestmark = needs_host_compiler


def call(library: ctypes.CDLL, function: str, *args: object) -> None:
    getattr(library, function)(
        *(ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in args)
    )


def text_of(library: ctypes.CDLL, function: str) -> str:
    called = getattr(library, function)
    called.restype = ctypes.c_char_p
    return called().decode()


def loop(name: str, body: str, *arrays: str) -> str:
    """A function of C over `n` elements of arrays, each given as "type name"."""
    taken = ", ".join(f"{array.replace(' ', '* ')}" for array in arrays)
    return (
        f'extern "C" void {name}({taken}, int n) {{ for (int i = 0; i < n; ++i) {body}; }}'
    )


# -- types ---------------------------------------------------------------------------------------

PAIRS = list(itertools.product(dtypes.ALL, repeat=2))


@pytest.fixture(scope="module")
def types(tmp_path_factory) -> ctypes.CDLL:
    """Functions that say which type is made of others, and convert between all."""

    def telling(function: str, made: str) -> str:
        return f'extern "C" const char* {function}() {{ return name<{made}>(); }}'

    lines = ["template <class T> const char* name();"]
    lines += [f'template <> const char* name<{a}>() {{ return "{a}"; }}' for a in dtypes.ALL]
    for a in dtypes.ALL:
        lines.append(telling(f"acc_{a}", f"AccType<{a}>::type"))
        lines.append(telling(f"real_{a}", f"type_util::real_t<{a}>"))
    for a, b in PAIRS:
        lines.append(telling(f"mixed_{a}_{b}", f"type_util::mixed_type<{a}, {b}>::type"))
        body = f"y[i] = AccType<{b}>::to(AccType<{a}>::from(x[i]))"
        lines.append(loop(f"convert_{a}_{b}", body, f"{a} x", f"{b} y"))
    return compile_host(device_header() + "\n".join(lines), tmp_path_factory.mktemp("types"))


def test_the_type_of_two_is_the_one_of_expressions(types):
    for a, b in PAIRS:
        assert text_of(types, f"mixed_{a}_{b}") == dtypes.promote(a, b), (a, b)
    assert text_of(types, "mixed_float64_float32") == "float64"
    assert text_of(types, "mixed_float32_int32") == "float32"


def test_half_types_accumulate_in_float32_and_small_integers_in_int32(types):
    for dtype in dtypes.ALL:
        assert text_of(types, f"acc_{dtype}") == accumulation(dtype), dtype
        assert text_of(types, f"real_{dtype}") == real(dtype), dtype
    assert accumulation("float16") == accumulation("bfloat16") == "float32"
    assert accumulation("int8") == accumulation("bool") == "int32"
    assert (real("int8"), real("int32")) == ("float32", "float64")


def test_loading_and_storing_convert_as_documented_for_all_pairs_of_types(types):
    for a, b in PAIRS:
        x = edges(a)
        y = np.zeros(x.shape, dtypes.numpy_dtype(b))
        call(types, f"convert_{a}_{b}", x, y, len(x))
        loaded = converted(x, accumulation(a))
        assert_same(y, converted(loaded, b))
        assert_same(y, convert(loaded, b))  # what references of kernels convert with


# -- operators -----------------------------------------------------------------------------------

SAMPLE = ("float16", "float32", "float64", "uint8", "int64")
MIXED = ("bfloat16", "int8", "uint32")
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "div": np.divide, "power": np.power, "less": np.less, "equal": np.equal,
}  # fmt: skip


@pytest.fixture(scope="module")
def operators(tmp_path_factory) -> ctypes.CDLL:
    lines = [
        loop(f"{name}_{a}", f"y[i] = op::{name}(x[i])", f"{a} x", f"{made.result_dtype(a)} y")
        for name, made in UNARY.items()
        for a in SAMPLE
    ]
    lines += [
        loop(f"{name}_{a}_{b}", f"z[i] = op::{name}(x[i], y[i])", f"{a} x", f"{b} y",
             f"{binary_result(name, a, b)} z")
        for name in BINARY
        for a, b in itertools.product(MIXED, repeat=2)
    ]  # fmt: skip
    return compile_host(device_header() + "\n".join(lines), tmp_path_factory.mktemp("operators"))


def binary_result(name: str, a: str, b: str) -> str:
    if name in ("less", "equal"):
        return "bool"
    mixed = dtypes.promote(a, b)
    return real(mixed) if name in ("div", "power") else mixed


def arguments(dtype: str) -> np.ndarray:
    """Edges of a type, and values where functions of small arguments are interesting."""
    if not dtypes.is_float(dtype):
        return edges(dtype)
    more = np.concatenate([np.linspace(-12, 12, 49), np.linspace(-1, 1, 21)])
    return np.concatenate([edges(dtype), converted(more, dtype)])


@pytest.mark.parametrize("dtype", SAMPLE)
def test_operators_of_one_operand_compute_what_numpy_does(operators, dtype):
    x = arguments(dtype)
    for name, operator in UNARY.items():
        y = np.zeros(x.shape, operator.result_dtype(dtype))
        call(operators, f"{name}_{dtype}", x, y, len(x))
        expected = operator(x)
        if operator.result == "real":
            tolerance = 1e-13 if y.dtype == np.float64 else 2e-6
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(
                    y, expected, rtol=tolerance, atol=np.finfo(y.dtype).tiny, err_msg=name
                )
        else:
            np.testing.assert_array_equal(y, expected, err_msg=name)


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_operands_compute_in_the_type_of_both(operators, name):
    for a, b in itertools.product(MIXED, repeat=2):
        x = np.repeat(edges(a), len(edges(b)))
        y = np.tile(edges(b), len(edges(a)))
        result, mixed = binary_result(name, a, b), dtypes.promote(a, b)
        z = np.zeros(x.shape, dtypes.numpy_dtype(result))
        call(operators, f"{name}_{a}_{b}", x, y, z, len(x))
        kind = mixed if result in (mixed, "bool") else result
        first, second = converted(x, kind), converted(y, kind)
        with np.errstate(all="ignore"):
            if kind == "bfloat16":  # computed in float32 and rounded
                first, second = first.astype("float32"), second.astype("float32")
            expected = converted(np.asarray(BINARY[name](first, second)), result)
        if name == "power":
            np.testing.assert_allclose(z, expected, rtol=1e-6 if result == "float32" else 1e-14)
        else:
            assert_same(z, expected, signed_zeros=False)


def test_a_sigmoid_keeps_its_digits_far_from_zero(operators):
    x = np.array([-800.0, -100.0, -30.0, 0.0, 30.0, 800.0])
    y = np.zeros_like(x)
    call(operators, "sigmoid_float64", x, y, len(x))
    np.testing.assert_allclose(y, [0, np.exp(-100.0), np.exp(-30.0), 0.5, 1, 1], rtol=1e-12)


# -- whole kernels -------------------------------------------------------------------------------

RUNNER = """
extern "C" void run_{number}(const {a}* x, {b}* y, index_t n, int blocks, int threads) {{
  run_threads(blocks, threads, [&] {{ variant_{number}::unary_{number}(x, y, n); }});
}}
"""


def compile_variants(found: list[Variant], folder) -> ctypes.CDLL:
    runners = "".join(
        RUNNER.format(number=number, a=v.input, b=v.output) for number, v in enumerate(found)
    )
    return compile_host(device_header("int32") + joined(found) + runners, folder)


def at_element(values: np.ndarray, start: int) -> np.ndarray:
    """Copy an array to where it begins `start` elements after a multiple of 256 bytes."""
    itemsize = values.dtype.itemsize
    raw = np.zeros(values.nbytes + 256 + start * itemsize, np.uint8)
    begin = -raw.ctypes.data % 256 + start * itemsize
    view = raw[begin : begin + values.nbytes].view(values.dtype)
    view[...] = values
    return view


def check_variants(found: list[Variant], folder, starts=(0, 1, 3), sizes=(1, 5, 64, 203)) -> None:
    """Run kernels on arrays of several sizes and places, and compare all memory around."""
    library = compile_variants(found, folder)
    for number, variant in enumerate(found):
        lanes = variant.plan.lanes if variant.plan else 1
        aligned = variant.plan is None or variant.plan.aligned
        for start, size in itertools.product((0,) if aligned else starts, sizes):
            count = -(-size // lanes) * lanes if aligned else size
            run_and_compare(library, number, variant, start, count)


def run_and_compare(library, number: int, variant: Variant, start: int, count: int) -> None:
    x = at_element(random_values(variant.input, count, number), start)
    # Elements on both sides of the output, which must stay as they are.
    margin = 64
    around = at_element(random_values(variant.output, count + 2 * margin, number + 1), start)
    y = around[margin : margin + count]
    expected = around.copy()
    expected[margin : margin + count] = unary(variant.operator).reference(x, y, variant.request)
    # Fewer threads than elements, so that some take several steps.
    call(library, f"run_{number}", x, y, count, 2, 3)
    exact = variant.operator == "relu" or variant.request == "null"
    if exact or not dtypes.is_float(variant.output):
        slack = 0 if exact else 1  # a sigmoid that lies on the edge between two integers
        difference = around.astype("float64") - expected.astype("float64")
        assert np.abs(difference).max() <= slack, (variant, start, count)
    else:
        np.testing.assert_allclose(
            around.astype("float64"),
            expected.astype("float64"),
            rtol=max(dtypes.epsilon(variant.output), 2e-7) * 4,
            atol=2e-6,  # a sum may lose digits of its terms
            err_msg=str((variant, start, count)),
        )


def test_the_unary_kernel_computes_what_numpy_does(tmp_path):
    sample = [("float16", "float32"), ("float32", "int8"), ("uint8", "bfloat16"),
              ("bool", "float64"), ("int64", "bool"), ("bfloat16", "bfloat16")]  # fmt: skip
    check_variants(variants("relu", sample) + variants("sigmoid", sample[:2]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["sigmoid", "relu"])
def test_the_unary_kernel_computes_what_numpy_does_for_all_pairs_of_types(operator, tmp_path):
    for a in NINE:
        folder = tmp_path / a
        folder.mkdir()
        check_variants(variants(operator, [(a, b) for b in NINE]), folder)


# -- vectors -------------------------------------------------------------------------------------

ROWS = """
// Rows one after another, copied by one thread for each vector of each row.
template <class T, int nvec, bool aligned>
void copy_rows(const T* from, T* to, index_t lead_dim, index_t other_dim, index_t vectors) {
  run_threads(other_dim, vectors, [&] {
    vector::VectorizedLoader<T, nvec, aligned> loader(from + blockIdx.x * lead_dim, lead_dim);
    vector::VectorizedStorer<T, nvec, aligned> storer(to + blockIdx.x * lead_dim, lead_dim);
    loader.load(threadIdx.x, lead_dim);
    for (int i = 0; i < nvec; ++i) storer.separate()[i] = loader.separate()[i];
    storer.store(threadIdx.x, lead_dim);
  });
}
"""


def test_rows_are_walked_through_by_vectors_with_heads_and_tails(tmp_path):
    lanes = (1, 2, 8, 16)
    types = ("uint8", "float64")
    wrapped = [
        f'extern "C" void rows_{t}_{n}_{aligned}(const {t}* x, {t}* y, int lead, int other, '
        f"int vectors) {{ copy_rows<{t}, {n}, {aligned}>(x, y, lead, other, vectors); }}"
        for t, n, aligned in itertools.product(types, lanes, (0, 1))
    ]
    library = compile_host(device_header("int32") + ROWS + "\n".join(wrapped), tmp_path)
    seen = set()
    shapes = [(1, 40), (3, 16), (5, 7), (4, 1)]
    for t, n, start, (rows, length) in itertools.product(types, lanes, (0, 1, 2, 5), shapes):
        x = at_element(random_values(t, rows * length, n), start)
        around = at_element(np.full(rows * length + 64, 77, t), start)
        y = around[32 : 32 + rows * length]
        plan = plan_vectors([x.ctypes.data, y.ctypes.data], [t, t], length, rows, n)
        assert plan.lanes == n
        seen.add(plan.aligned)
        call(library, f"rows_{t}_{plan.lanes}_{int(plan.aligned)}", x, y, length, rows,
             plan.vectors)  # fmt: skip
        assert np.array_equal(y, x), (t, n, start, rows, length, plan)
        assert (around[:32] == 77).all()
        assert (around[32 + rows * length :] == 77).all()
    assert seen == {True, False}


def test_vectors_have_as_many_lanes_as_addresses_allow():
    assert [most_lanes([t]) for t in ("float64", "float32", "float16", "int8")] == [2, 4, 8, 16]
    assert most_lanes(["float16", "float64"]) == 2
    kinds = ["float16", "float32"]
    assert plan_vectors([0, 0], kinds, 64) == (plan := plan_vectors([16, 32], kinds, 64))
    assert (plan.lanes, plan.aligned, plan.vectors) == (4, True, 16)
    # Both begin at lane 3: one vector more, and checks.
    plan = plan_vectors([6, 12], kinds, 64)
    assert (plan.lanes, plan.aligned, plan.vectors) == (4, False, 17)
    # Lanes 2 and 0 agree for vectors of two.
    plan = plan_vectors([4, 0], kinds, 64)
    assert (plan.lanes, plan.aligned, plan.vectors) == (2, True, 32)
    assert plan_vectors([2, 0], kinds, 64).lanes == 1
    # A row that ends inside of a vector lets the next one begin there.
    assert plan_vectors([0, 0], kinds, 6, 3).vectors == 3
    assert plan_vectors([0, 0], kinds, 6).vectors == 2
