"""Arrays between guard zones, and copies that nobody can."""

import subprocess
import sys

import numpy as np
import pytest
from support.random_values import draw

from autotune.ir import dtypes
from autotune.measure.checks.guard_zones import ZONE, Buffers
from autotune.runtime.cpu.cpu_device import CpuDevice, SealedCopy
from autotune.runtime.signature import ArrayParameter
from autotune.target import Target


def buffers(dtype="float32", shape=(3, 5)):
    found = Buffers(
        CpuDevice(Target("llvm")),
        [ArrayParameter("A", dtype, shape, False), ArrayParameter("B", dtype, (7,), True)],
    )
    for array in found.arrays:
        array[...] = draw(array.shape, dtype, np.random.default_rng(0))
    found.seal()
    return found


def around(array):
    """The memory of an array with its zones, as bytes."""
    whole = array
    while whole.base is not None:
        whole = whole.base
    assert whole.nbytes == array.nbytes + 2 * ZONE
    return whole


@pytest.mark.parametrize("dtype", dtypes.ALL)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_arrays_are_as_asked_for_and_aligned_as_numpys_own(dtype, shape):
    array = buffers(dtype, shape).arrays[0]
    assert array.dtype == dtypes.numpy_dtype(dtype)
    assert array.shape == shape
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.__array_interface__["data"][0] % 16 == 0


@pytest.mark.parametrize("dtype", dtypes.ALL)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        (ZONE - 1, "1 byte before its start"),
        (0, "65536 bytes before its start"),
        (-ZONE, "0 bytes past its end"),
        (-1, "65535 bytes past its end"),
    ],
)
def test_a_changed_byte_in_a_zone_is_found_named_and_undone(dtype, which, place, words):
    found = buffers(dtype)
    assert found.find_damage() is None
    around(found.arrays[which])[place] ^= 1
    assert found.find_damage() == f"it wrote outside {'AB'[which]}: {words}"
    found.restore()
    assert found.find_damage() is None


@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_a_changed_input_is_found_named_and_undone(dtype):
    found = buffers(dtype)
    before = found.inputs[0].copy()
    old = found.inputs[0][2, 1]
    found.inputs[0][2, 1] = new = not old if dtype == "bool" else old + old
    words = f"it changed its input A, first at [2, 1]: {np.asarray(new, old.dtype)}, was {old}"
    assert found.find_damage() == words
    found.restore()
    assert found.find_damage() is None
    assert np.array_equal(found.inputs[0], before)


def test_a_change_is_seen_where_values_compare_equal_and_not_where_nan_does_not():
    found = buffers()
    found.inputs[0][0, 0] = 0.0
    found.inputs[0][0, 1] = np.nan
    found.seal()
    assert found.find_damage() is None
    found.inputs[0][0, 0] = -0.0
    assert "first at [0, 0]: -0.0, was 0.0" in found.find_damage()


def test_outputs_may_change():
    found = buffers()
    found.outputs[0][:] = 9
    assert found.find_damage() is None


@pytest.mark.parametrize("dtype", dtypes.ALL)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_a_sealed_copy_is_equal_and_refuses_to_be_written_to(dtype, shape):
    values = draw(shape, dtype, np.random.default_rng(0))
    copy = SealedCopy(values).array
    assert copy.dtype == values.dtype
    assert np.array_equal(copy, values)
    assert copy.size == 0 or not np.shares_memory(copy, values)
    assert not copy.flags.writeable


def test_who_writes_to_a_sealed_copy_by_its_address_is_killed():
    code = (
        "import ctypes, numpy as np; from autotune.runtime.cpu.cpu_device import SealedCopy;"
        "ctypes.memset(SealedCopy(np.ones(4)).array.ctypes.data, 0, 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -11
