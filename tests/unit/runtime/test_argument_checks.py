"""Arguments of built functions: what is taken, and one clear line for each thing that is not."""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune.errors import ArgumentError, CodegenError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Const, Load, SizeVar
from autotune.ir.ops import binary, cast, gcd, if_then_else, logical_not, select
from autotune.ir.stmt import PrimFunc, Seq
from autotune.runtime import foreign_arrays
from autotune.runtime.argument_checks import ArgumentChecker, address_of
from autotune.runtime.signature import Signature, checked_extent, extent_text, extent_value


def i32(value: int) -> Const:
    return Const(value, "int32")


def checker(*params: Buffer, outputs: tuple[Buffer, ...], sizes: Any = ()) -> ArgumentChecker:
    return ArgumentChecker(
        Signature.of(PrimFunc("f", params, frozenset(outputs), Seq(()), tuple(sizes)))
    )


def fixed() -> ArgumentChecker:
    """f(A: float32 (2, 3), out B: float32 (6,))."""
    a, b = Buffer("A", "float32", (i32(2), i32(3))), Buffer("B", "float32", (i32(6),))
    return checker(a, b, outputs=(b,))


def symbolic() -> ArgumentChecker:
    """f(A: int32 (n, m), B: int32 (n + 1,), out C: int32 (n * m,))."""
    n, m = SizeVar("n"), SizeVar("m")
    a, b = Buffer("A", "int32", (n, m)), Buffer("B", "int32", (n + 1,))
    c = Buffer("C", "int32", (n * m,))
    return checker(a, b, c, outputs=(c,), sizes=(n, m))


def scalar() -> ArgumentChecker:
    """f(A: float32 (), out B: float32 ())."""
    a, b = Buffer("A", "float32", ()), Buffer("B", "float32", ())
    return checker(a, b, outputs=(b,))


def halves() -> ArgumentChecker:
    """f(A: bfloat16 (4,), out B: bfloat16 (4,))."""
    a, b = Buffer("A", "bfloat16", (i32(4),)), Buffer("B", "bfloat16", (i32(4),))
    return checker(a, b, outputs=(b,))


def check(checks: ArgumentChecker, *arguments: Any) -> list[int]:
    return checks.values(checks.arrays(arguments))


A = np.zeros((2, 3), "float32")
B = np.zeros(6, "float32")
H = np.zeros(4, dtypes.numpy_dtype("bfloat16"))


class Interface:
    """Nothing but ``__array_interface__``."""

    def __init__(self, array: np.ndarray[Any, Any], **changes: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class Capsules:
    """Nothing but DLPack, on a device of choice, in its first version or today's."""

    def __init__(
        self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0), old: bool = False
    ) -> None:
        self.array, self.device = array, device
        self.__dlpack__ = self._old if old else self._new

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def _old(self) -> Any:
        return self.array.__dlpack__()

    def _new(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


class Refuses(Capsules):
    def _new(self, **options: Any) -> Any:
        raise BufferError("it needs\ngradients")


class HandMade:
    """A capsule of which every field can be chosen."""

    def __init__(self, array: np.ndarray[Any, Any], major: int = 1, **fields: Any) -> None:
        self.array = array
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        held = {"data": array.ctypes.data, "device_type": 1, "ndim": array.ndim, "code": 4}
        held |= {"bits": 16, "lanes": 1, "shape": self.shape, **fields}
        self.managed = foreign_arrays._DLManagedTensorVersioned(
            major=major, tensor=foreign_arrays.DLTensor(**held)
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, max_version: tuple[int, int]) -> Any:
        kinds = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        make = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(("PyCapsule_New", ctypes.pythonapi))
        return make(ctypes.addressof(self.managed), b"dltensor_versioned", None)


def read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(6, "float32")
    array.flags.writeable = False
    return array


def overlapping() -> tuple[Any, ...]:
    memory = np.zeros(8, "float32")
    return memory[:6].reshape(2, 3), memory[2:]


def in_place() -> tuple[Any, ...]:
    memory = np.zeros(6, "float32")
    return memory.reshape(2, 3), memory


def misaligned() -> np.ndarray[Any, Any]:
    return np.zeros(25, "int8")[1:].view("float32").reshape(2, 3)


Arguments = tuple[Any, ...]
F64 = np.zeros((2, 3))
N45 = tuple(np.zeros(shape, "int32") for shape in ((4, 5), (5,), (20,)))

MISTAKES: dict[str, tuple[Callable[[], ArgumentChecker], Callable[[], Arguments], str]] = {
    "too few": (fixed, lambda: (A,), "f takes 2 arrays (A, B), got 1"),
    "too many": (fixed, lambda: (A, B, B), "f takes 2 arrays (A, B), got 3"),
    "list": (
        fixed, lambda: ([1.0], B),
        "argument 1, 'A', must be an array (of NumPy, or with __array_interface__ or DLPack), "
        "got list: numpy.asarray makes one",
    ),
    "None": (fixed, lambda: (A, None), "argument 2, 'B', must be an array"),
    "NumPy scalar": (scalar, lambda: (np.float32(1), B), "must be an array (of NumPy, or"),
    "dtype of an input": (
        fixed, lambda: (F64, B),
        "'A', must have dtype float32, got float64: convert it with .astype('float32')",
    ),
    "dtype of an output": (
        fixed, lambda: (A, np.zeros(6)),
        "'B', must have dtype float32, got float64: allocate it with dtype='float32'",
    ),
    "dtype of an interface": (
        fixed, lambda: (Interface(F64), B), "'A', must have dtype float32, got float64",
    ),
    "dtype of a capsule": (
        fixed, lambda: (Capsules(F64), B), "'A', must have dtype float32, got float64: convert",
    ),
    "byte order": (
        fixed, lambda: (A.astype(">f4"), B),
        "must have dtype float32, got float32 in foreign byte order: convert it with .astype(",
    ),
    "shape": (
        fixed, lambda: (A, np.zeros(5, "float32")),
        "argument 2, 'B', must have shape (6,), got (5,): build the function for other shapes",
    ),
    "dimensions": (fixed, lambda: (A.reshape(6), B), "must have shape (2, 3), got (6,)"),
    "no dimensions": (fixed, lambda: (A, np.zeros((), "float32")), "have shape (6,), got ()"),
    "a dimension for none": (
        scalar, lambda: (A[0, :1], np.zeros((), "float32")), "'A', must have shape (), got (1,)",
    ),
    "empty": (fixed, lambda: (np.zeros((0, 3), "float32"), B), "(2, 3), got (0, 3)"),
    "Fortran order": (
        fixed, lambda: (np.asfortranarray(A), B),
        "'A', must be C-contiguous, with strides (12, 4), got (4, 8): "
        "numpy.ascontiguousarray makes a copy that is",
    ),
    "every other element": (
        fixed, lambda: (A, np.zeros(12, "float32")[::2]),
        "'B', must be C-contiguous, with strides (4,), got (8,): pass a contiguous array "
        "and copy the result from it",
    ),
    "reversed": (fixed, lambda: (A[::-1], B), "got (-12, 4)"),
    "strides of a capsule": (
        fixed, lambda: (Capsules(np.zeros((3, 2), "float32").T), B), "got (4, 8)",
    ),
    "strides of an interface": (
        fixed, lambda: (Interface(np.zeros((3, 2), "float32").T), B), "got (4, 8)",
    ),
    "alignment": (
        fixed, lambda: (misaligned(), B),
        "'A', must be aligned to its float32 elements of 4 bytes, got address 0x",
    ),
    "read-only": (
        fixed, lambda: (A, read_only()),
        "'B', is written, so it must be writeable, got a read-only one: pass an array made by",
    ),
    "read-only interface": (fixed, lambda: (A, Interface(read_only())), "must be writeable"),
    "read-only capsule": (fixed, lambda: (A, Capsules(read_only())), "must be writeable"),
    "bytes behind an interface": (
        fixed, lambda: (A, Interface(B, data=bytes(24))), "must be writeable, got a read-only",
    ),
    "overlap": (
        fixed, overlapping,
        "argument 2, 'B', is written, so it must share no memory with other arguments, "
        "got one that overlaps 'A': pass separate arrays",
    ),
    "in place": (fixed, in_place, "got one that overlaps 'A'"),
    "another device": (
        fixed, lambda: (Capsules(A, device=(2, 1)), B),
        "'A', must be in the CPU's memory, got Capsules on device CUDA:1: copy it to the CPU first",
    ),
    "unknown device": (fixed, lambda: (Capsules(A, device=(99, 0)), B), "on device type 99:0"),
    "export refused": (
        fixed, lambda: (Refuses(A), B),
        "'A', must give access to its memory, got Refuses, which refuses: it needs gradients",
    ),
    "vectors in a capsule": (
        halves, lambda: (HandMade(H, lanes=2), H),
        "'A', must have dtype bfloat16, got bfloat16 with 2 lanes: convert it first",
    ),
    "unknown type in a capsule": (
        halves, lambda: (HandMade(H, code=9, bits=8), H), "dtype bfloat16, got type 9 of 8",
    ),
    "unknown version of a capsule": (
        halves, lambda: (HandMade(H, major=2), H), "which refuses: DLPack version 2 is not known",
    ),
    "broken interface": (
        fixed, lambda: (Interface(A, typestr="?!"), B), "'A', must give access to its memory, got",
    ),
    "sizes that disagree": (
        symbolic, lambda: (N45[0], np.zeros(4, "int32"), N45[2]),
        "argument 2, 'B', must have shape (5,), which is (n + 1,) with n = 4 from 'A', "
        "m = 5 from 'A', got (4,): make the shapes agree",
    ),
    "product of sizes": (
        symbolic, lambda: (*N45[:2], np.zeros(19, "int32")),
        "argument 3, 'C', must have shape (20,), which is (n * m,) with",
    ),
    "dimensions of sizes": (
        symbolic, lambda: (np.zeros(4, "int32"), *N45[1:]),
        "argument 1, 'A', must have 2 dimensions, (n, m), got shape (4,)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_clear_line(mistake: str) -> None:
    takes, make, message = MISTAKES[mistake]
    with pytest.raises(ArgumentError) as error:
        check(takes(), *make())
    assert message in str(error.value)
    assert str(error.value).startswith("f")
    assert "\n" not in str(error.value)


def test_arrays_of_other_libraries_that_overlap_are_found() -> None:
    a, b = overlapping()
    for first, second in ((Interface(a), Capsules(b)), (Capsules(a), b), (a, Interface(b))):
        with pytest.raises(ArgumentError, match="overlaps 'A'"):
            check(fixed(), first, second)


# -- what is taken --------------------------------------------------------------------------------


def test_right_arrays_become_addresses() -> None:
    assert check(fixed(), A, B) == [A.ctypes.data, B.ctypes.data]


@pytest.mark.parametrize(
    "wrap", [Interface, Capsules, lambda a: Capsules(a, old=True), lambda a: Capsules(a, (3, 0))]
)
def test_arrays_of_other_libraries_are_not_copied(wrap: Callable[[Any], Any]) -> None:
    assert check(fixed(), wrap(A), wrap(B)) == [A.ctypes.data, B.ctypes.data]


@pytest.mark.parametrize("dtype", [dtype for dtype in dtypes.ALL if dtype != "bfloat16"])
def test_every_dtype_comes_through_dlpack(dtype: str) -> None:
    a, b = Buffer("A", dtype, (i32(4),)), Buffer("B", dtype, (i32(4),))
    x, y = np.zeros(6, dtype), np.zeros(4, dtype)
    assert check(checker(a, b, outputs=(b,)), Capsules(x[2:]), Capsules(y)) == [
        x.ctypes.data + 2 * x.itemsize,
        y.ctypes.data,
    ]


def test_bfloat16_comes_through_dlpack() -> None:
    memory = np.zeros(10, H.dtype)
    arrays = HandMade(memory[:4], byte_offset=4), HandMade(memory[6:])
    assert check(halves(), *arrays) == [memory.ctypes.data + 4, memory.ctypes.data + 12]


def test_a_subclass_of_an_array_is_an_array() -> None:
    assert check(fixed(), A, B.view(np.recarray))[1] == B.ctypes.data


def test_a_capsule_lives_as_long_as_the_arrays_in_use() -> None:
    source = np.zeros((2, 3), "float32")
    gone = weakref.ref(source)
    arrays = fixed().arrays([Capsules(source), B])
    del source
    gc.collect()
    assert gone() is not None
    del arrays
    gc.collect()
    assert gone() is None


def test_inputs_may_be_read_only_and_share_memory() -> None:
    a, b, c = (Buffer(name, "float32", (i32(6),)) for name in "abc")
    x, out = read_only(), np.zeros(6, "float32")
    assert check(checker(a, b, c, outputs=(c,)), x, Capsules(x), out)[:2] == [x.ctypes.data] * 2


def test_neighbouring_arrays_do_not_overlap() -> None:
    memory = np.zeros(12, "float32")
    check(fixed(), memory[:6].reshape(2, 3), memory[6:])


def test_arrays_without_dimensions_are_arrays() -> None:
    x, y = np.array(1.0, "float32"), np.array(0.0, "float32")
    assert check(scalar(), Capsules(x), Interface(y)) == [x.ctypes.data, y.ctypes.data]


def test_sizes_come_from_the_shapes() -> None:
    assert check(symbolic(), *N45)[3:] == [4, 5]


def test_empty_arrays_are_arrays_and_overlap_nothing() -> None:
    memory = np.zeros(20, "int32")
    empty = memory[3:3]
    assert check(symbolic(), np.zeros((0, 5), "int32"), memory[:1], empty)[3:] == [0, 5]
    assert check(symbolic(), empty.reshape(0, 4), memory[5:6], empty)[3:] == [0, 4]
    assert check(symbolic(), Capsules(empty.reshape(0, 4)), memory[2:3], empty)[3:] == [0, 4]


def test_null_is_the_address_of_an_empty_capsule() -> None:
    tensor = Interface(np.zeros((0, 5), "int32"), data=(0, True))
    assert check(symbolic(), tensor, np.zeros(1, "int32"), np.zeros(0, "int32"))[3:] == [0, 5]


# -- signatures -----------------------------------------------------------------------------------


def test_a_size_that_no_shape_tells_is_refused() -> None:
    n = SizeVar("n")
    a = Buffer("A", "int32", (n * 2,))
    with pytest.raises(CodegenError, match="size n of f is not the extent of any array"):
        checker(a, outputs=(a,), sizes=(n,))


def test_an_extent_that_sizes_do_not_determine_is_refused() -> None:
    a = Buffer("A", "int32", (Load(Buffer("B", "int32", (i32(1),)), i32(0)),))
    with pytest.raises(CodegenError, match="has no value: it is not computed from sizes"):
        checker(a, outputs=(a,))


def test_an_extent_may_be_a_choice_between_sizes() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    fits = binary("and", n < m, logical_not(binary("or", n < 3, m.equal(7))))
    shape = (select(fits, n, gcd(n, m)), if_then_else(n <= 0, 1, m // n))
    a, b = Buffer("A", "int64", (n, m)), Buffer("B", "bool", shape)
    signature = Signature.of(PrimFunc("g", (a, b), frozenset([b]), Seq(()), (n, m)))
    assert Signature.from_json(json.loads(json.dumps(signature.to_json()))) == signature
    texts = [extent_text(extent) for extent in signature.parameters[1].shape]
    assert texts[0] == "select((n < m) and not((n < 3) or (m == 7)), n, gcd(n, m))"
    for x, y in itertools.product(range(9), repeat=2):
        known = {"n": x, "m": y}
        first, second = (extent_value(extent, known) for extent in signature.parameters[1].shape)
        assert first == (x if x < y and not (x < 3 or y == 7) else math.gcd(x, y))
        assert second == (1 if x <= 0 else y // x)


def test_what_is_no_extent_is_not_read() -> None:
    for data in (["select", "n", 1], ["not", 1, 2], ["pow", 1, 2], ["+"], [], [1, 2, 3], None, 1.5):
        with pytest.raises(ValueError, match="is not an extent"):
            checked_extent(data)


def test_sizes_of_one_name_are_told_apart() -> None:
    n, other = SizeVar("n"), SizeVar("n")
    a = Buffer("A", "int32", (n, other))
    checks = checker(a, outputs=(a,), sizes=(n, other))
    assert checks.signature.sizes == ("n", "n_1")
    assert check(checks, np.zeros((3, 4), "int32"))[1:] == [3, 4]


def test_a_signature_survives_json() -> None:
    n = SizeVar("n", "int64")
    shape = ((n // 4 + n % 4) * 2 - 1, cast("int64", i32(7)))
    a, b = Buffer("A", "int64", (n,)), Buffer("B", "bool", shape)
    signature = Signature.of(PrimFunc("g", (a, b), frozenset([b]), Seq(()), (n,)))
    assert Signature.from_json(signature.to_json()) == signature
    assert extent_text(signature.parameters[1].shape[0]) == "(((n // 4) + (n % 4)) * 2) - 1"
    check = ArgumentChecker(signature)
    arrays = np.zeros(11, "int64"), np.zeros((9, 7), "bool")
    assert check.values(arrays)[2:] == [11]


@pytest.mark.parametrize("extent", [1.5, None, ["^", "n", 1], ["+", 1], ["+", 1, None]])
def test_what_is_no_extent_is_refused(extent: object) -> None:
    entry = {"name": "A", "dtype": "int32", "shape": [extent], "output": True}
    with pytest.raises(ValueError, match="is not an extent"):
        Signature.from_json({"name": "f", "arrays": [entry], "sizes": []})


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "complex64", "bfloat16"])
def test_the_address_of_an_array_is_that_of_its_first_element(dtype):
    whole = np.zeros((4, 6), dtypes.numpy_dtype(dtype) if dtype != "complex64" else dtype)
    for array in (whole, whole[1:], whole[:, ::2], whole[0, 3:], whole[:0], whole.reshape(2, 3, 4)):
        assert address_of(array) == array.__array_interface__["data"][0]
    whole.flags.writeable = False
    assert address_of(whole) == whole.__array_interface__["data"][0]


def plain() -> ArgumentChecker:
    """f(A: int32 (n, 3), B: int32 (m, n), out C: int32 (m,)): sizes and numbers alone."""
    n, m = SizeVar("n"), SizeVar("m")
    a, b = Buffer("A", "int32", (n, i32(3))), Buffer("B", "int32", (m, n))
    c = Buffer("C", "int32", (m,))
    return checker(a, b, c, outputs=(c,), sizes=(m, n))


@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 3), (5, 4), (5,)),
        ((0, 3), (5, 0), (5,)),
        ((4, 2), (5, 4), (5,)),
        ((4, 3), (5, 3), (5,)),
        ((4, 3), (5, 4), (4,)),
        ((4,), (5, 4), (5,)),
        ((4, 3), (5,), (5,)),
        ((4, 3, 1), (5, 4), (5,)),
    ],
)
def test_sizes_of_plain_shapes_are_those_of_any_shapes(shapes):
    """The short check of shapes without arithmetic accepts and finds what the long one does."""
    quick = plain()
    arrays = [np.zeros(shape, "i4") for shape in shapes]

    def found(sizes):
        try:
            return sizes(arrays)
        except ArgumentError as error:
            return str(error)

    assert quick._plain
    assert not symbolic()._plain
    right = found(quick._solve)
    assert quick._plain_sizes(arrays) == (right if isinstance(right, list) else [])
    told = found(quick.values)
    assert told == right if isinstance(right, str) else told[3:] == right
