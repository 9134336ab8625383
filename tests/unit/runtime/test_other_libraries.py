"""Built functions on arrays of PyTorch and JAX: the same memory, inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import ArgumentError
from autotune.runtime.new_arrays import ReturningCall


def doubled(dtype: str = "float32", n: Any = 64) -> autotune.builder.BuiltFunction:
    """B[n] = 2 * A[n]."""
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    return autotune.build(te.create_schedule(B.op), [A, B])


def returning(dtype: str) -> ReturningCall:
    built = doubled(dtype)
    return ReturningCall(built, built.signature.parameters, built.target)


DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "uint8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_pytorch_are_read_and_written_in_place(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(64, dtype=getattr(torch, dtype))
    b = torch.zeros_like(a)
    address = b.data_ptr()
    doubled(dtype)(a, b)
    assert torch.equal(b, 2 * a)
    assert b.data_ptr() == address
    new = returning(dtype)(a)
    assert torch.equal(new, b)
    assert new.dtype == a.dtype


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "float64"])  # which JAX turns off
def test_arrays_of_jax_are_read_and_returned_without_copies(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    a = jax.numpy.arange(64).astype(dtype)
    b = np.zeros(64, a.dtype)
    doubled(dtype)(a, b)
    np.testing.assert_array_equal(b, 2 * np.asarray(a))
    new = returning(dtype)(a)
    assert isinstance(new, jax.Array)
    assert new.device == a.device
    np.testing.assert_array_equal(np.asarray(new), b)


def test_jax_takes_outputs_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    made: list[Any] = []
    device_put = jax.device_put

    def noted(array: Any, *args: Any, **options: Any) -> Any:
        made.append(array)
        return device_put(array, *args, **options)

    monkeypatch.setattr(jax, "device_put", noted)
    new = returning("float32")(jax.numpy.ones(64))
    assert new.unsafe_buffer_pointer() == made[0].ctypes.data


def test_arrays_of_jax_are_no_outputs() -> None:
    jax = pytest.importorskip("jax")
    b = jax.numpy.zeros(64)
    with pytest.raises(ArgumentError, match="'B', is written, so it must be writeable"):
        doubled()(np.ones(64, "f4"), b)
    assert float(b.sum()) == 0.0


def test_tensors_that_are_not_contiguous_are_refused_unless_sizes_are_open() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.arange(128.0)[::2], torch.zeros(64)
    with pytest.raises(ArgumentError, match="'A', must be C-contiguous"):
        doubled()(a, b)
    doubled(n=te.var("n"))(a, b)
    assert torch.equal(b, 2 * a)


def test_a_tensor_that_records_gradients_is_refused_in_one_line() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"'A', must give access .* use tensor\.detach"):
        doubled()(torch.ones(64, requires_grad=True), torch.zeros(64))


def test_outputs_beside_numpy_are_of_numpy_and_several_are_a_tuple() -> None:
    A = te.placeholder((4,), name="A")
    B, C = (te.compute((4,), lambda i, k=k: A[i] * k, name=f"B{k}") for k in (2, 3))
    built = autotune.build(te.create_schedule([B.op, C.op]), [A, B, C])
    twice, thrice = ReturningCall(built, built.signature.parameters, built.target)(np.ones(4, "f4"))
    assert (twice.tolist(), thrice.tolist()) == ([2.0] * 4, [3.0] * 4)
