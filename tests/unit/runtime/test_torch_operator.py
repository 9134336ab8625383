"""Built functions as operators of PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import autotune
from autotune import te
from autotune.errors import ArgumentError, UsageError

torch = pytest.importorskip("torch")

_numbers = itertools.count()


def registered(function: Any) -> Callable[..., Any]:
    return autotune.torch_op(function, f"autotune_tests::op{next(_numbers)}")


def built(n: Any, dtype: str = "float32") -> autotune.builder.BuiltFunction:
    """B[n] = 2 * A[n] and C[n] = A[n] + 1."""
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    C = te.compute((n,), lambda i: A[i] + 1, name="C")
    return autotune.build(te.create_schedule([B.op, C.op]), [A, B, C])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_outputs_are_new_tensors(dtype: str) -> None:
    op = registered(built(8, dtype))
    a = torch.arange(8, dtype=getattr(torch, dtype))
    b, c = op(a)
    assert (b.dtype, c.dtype) == (a.dtype, a.dtype)
    assert torch.equal(b, 2 * a)
    assert torch.equal(c, a + 1)


def test_an_input_that_is_not_contiguous_is_copied() -> None:
    a = torch.arange(16.0)[::2]
    b, _ = registered(built(8))(a)
    assert torch.equal(b, 2 * a)


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_torch_compile_takes_it_whole() -> None:
    op = registered(built(8))

    def twice(a: Any) -> Any:
        b, c = op(a)
        return op(b + c)[0]

    compiled = torch.compile(twice, fullgraph=True, backend="aot_eager")
    a = torch.arange(8.0)
    assert torch.equal(compiled(a), 2 * (3 * a + 1))
    torch.library.opcheck(op, (a,), test_utils=("test_schema", "test_faketensor"))


@pytest.mark.filterwarnings("ignore")
def test_open_sizes_stay_symbols() -> None:
    op = registered(built(te.var("n")))
    compiled = torch.compile(lambda a: op(a)[0], fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (5, 7):
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 2.0))


def test_a_loaded_function_is_registered_too(tmp_path: Any) -> None:
    built(8).save(tmp_path / "f.so")
    b, _ = registered(autotune.load(tmp_path / "f.so"))(torch.ones(8))
    assert b.tolist() == [2.0] * 8


def test_tensors_that_do_not_fit_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"argument 1, 'A', must have shape \(8,\), got \(9,\)"):
        registered(built(8))(torch.ones(9))


def test_what_is_not_built_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a built or loaded function, got function"):
        registered(lambda a: a)


@pytest.mark.parametrize("name", ["a b", "x::y::z", "", 3, None, "x::\u00fc", "x::__init__"])
def test_names_that_are_none_are_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="torch_op: name must be like 'mylib::layer', not"):
        autotune.torch_op(built(8), name)


def test_operators_of_torch_are_not_replaced() -> None:
    with pytest.raises(UsageError, match="the namespace of 'aten::add' is PyTorch's own"):
        autotune.torch_op(built(8), "aten::add")


def test_what_is_no_dense_tensor_is_named() -> None:
    op = registered(built(8))
    with pytest.raises(ArgumentError, match="argument 1, 'A', must be a dense tensor, got None"):
        op(None)
    with pytest.raises(ArgumentError, match=r"must be a dense tensor, got torch\.sparse_coo"):
        op(torch.ones(8).to_sparse())
