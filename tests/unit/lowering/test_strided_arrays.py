"""Arrays that are not contiguous: built functions with sizes from `te.var` take strides then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.fake_cuda import OnGpu, passed
from support.scans import ColumnSums

from autotune.builder import BuiltFunction
from autotune.errors import ArgumentError

BASE = np.random.default_rng(0).integers(-9, 9, (20, 45)).astype("float32")
LAYOUTS = {
    "contiguous": lambda a: a,
    "every other column": lambda a: a[:, ::2],
    "transposed": lambda a: a.T,
    "a corner": lambda a: a[3:17, 5:40],
    "one row again and again": lambda a: np.broadcast_to(a[:1], (4, 45)),
    "one column": lambda a: a[:, 7:8],
    "no columns": lambda a: a[:, ::2][:, :0],
}


@pytest.fixture(scope="module", params=["plain", "parallel and vectorized", "threads"])
def column_sums(request: Any) -> BuiltFunction:
    sums = ColumnSums()
    if request.param == "threads":
        return sums.bind(16).build("cuda -on=cpu")
    if request.param != "plain":
        for part in (sums.init, sums.update):
            outer, inner = sums.s[part].split(part.op.axis[1], factor=8)
            sums.s[part].parallel(outer)
            sums.s[part].vectorize(inner)
    return sums.build("llvm")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_and_outputs_lie_as_they_like(column_sums: BuiltFunction, layout: str) -> None:
    x = LAYOUTS[layout](BASE)
    want = np.cumsum(x, axis=0, dtype=x.dtype)
    spread = np.full((*reversed(x.shape), 3), 7, "float32")
    for out in (np.empty_like(want, order="C"), spread[:, :, 1].T):
        column_sums(x, out)
        np.testing.assert_array_equal(out, want)
    assert np.all(spread[:, :, ::2] == 7), "it wrote between the elements"
    out[...] = 0
    column_sums.bind(x, out)()
    np.testing.assert_array_equal(out, want)


def test_contiguous_arrays_take_a_version_of_unit_stride() -> None:
    built = ColumnSums().build("llvm")
    built(BASE, np.empty_like(BASE))
    assert "_for_any_strides" not in vars(built)
    assert [size.name for size in built.function.sizes] == ["m", "n"]
    built(BASE[:, ::2], np.empty_like(BASE[:, ::2]))
    kept = built._for_any_strides
    built(BASE.T, np.empty_like(BASE.T))
    assert built._for_any_strides is kept


MISTAKES = {
    "argument 1, 'X', must have strides of 0, 4, 8, ... bytes, got strides (-180, 4): "
    "numpy.ascontiguousarray makes a copy that has such": (BASE[::-1], BASE.copy()),
    "argument 2, 'scan', must have strides of 0, 4, 8, ... bytes that no two elements share, got "
    "strides (4, 4): numpy.ascontiguousarray makes a copy that has such":
        (BASE, np.lib.stride_tricks.as_strided(BASE.copy(), strides=(4, 4))),
    "argument 2, 'scan', must have shape (20, 23), which is (m, n) with m = 20 from 'X', "
    "n = 23 from 'X', got (20, 45): make the shapes agree": (BASE[:, ::2], BASE.copy()),
    "argument 2, 'scan', is written, so it must share no memory with other arguments, got one that "
    "overlaps 'X': pass separate arrays (nothing is computed in place)":
        (BASE[:, :44:2], BASE[:, 1::2]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_strides_that_no_loop_walks_are_refused(message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        ColumnSums().build("llvm")(*MISTAKES[message])
    assert str(refused.value) == f"main: {message}"


@needs_nvrtc
def test_gpus_get_strides_too(fake: Any) -> None:
    built = ColumnSums().bind(32).build("cuda -arch=sm_90")
    seen: list[list[bytes]] = []
    fake.on_launch = lambda table: seen.append(passed(table, [8] * 8))
    built(OnGpu(0x1000, (5, 40), strides=(400, 8)), OnGpu(0x3000, (5, 40)))
    assert [int.from_bytes(v, "little") for v in seen[0]] == [
        0x1000, 0x3000, 5, 40, 100, 2, 40, 1
    ]
    with pytest.raises(ArgumentError, match="must have strides of 0, 4, 8"):
        built(OnGpu(0x1000, (5, 40), strides=(-400, 4)), OnGpu(0x3000, (5, 40)))
