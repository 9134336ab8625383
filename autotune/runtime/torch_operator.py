"""Registers a built function as an operator of PyTorch; only this file imports PyTorch."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from autotune.errors import ArgumentError, UsageError
from autotune.runtime.signature import Signature, extent_value

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)  # Others are attributes of PyTorch's objects.

_TORCHS_OWN = frozenset({"aten", "prim", "prims", "higher_order"})  # Operators would replace those.


class _Function(Protocol):
    @property
    def signature(self) -> Signature: ...

    def __call__(self, *arrays: Any) -> None: ...


def torch_op(function: _Function, name: str) -> Callable[..., Any]:
    """Register a built function as a custom operator of PyTorch, and return that.

    `torch.compile` takes it as one operation of known results. It has no gradient.

    Parameters
    ----------
    function : BuiltFunction, LoadedFunction
        What `autotune.build` or `autotune.load` returned.
    name : str
        ``namespace::name``, or a name in the namespace "autotune": ``torch.ops.autotune.name``.

    Returns
    -------
    callable
        Takes the inputs as tensors, in order. Returns the output as a new tensor, a tuple if there
        are several. Inputs that are not contiguous are copied first.

    Raises
    ------
    UsageError
        If PyTorch is not installed or refuses the name, or the function is not built, or has no
        output or no input.

    Examples
    --------
    >>> layer = autotune.torch_op(autotune.build(swish, {"n": 4096}), "mylib::swish")
    >>> torch.compile(lambda x: layer(x) + 1)(x)
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise UsageError(f"torch_op: PyTorch cannot be imported ({error})") from error
    full = name if "::" in str(name) else f"autotune::{name}"
    parts = full.split("::", 1) if isinstance(name, str) else []
    if not parts or not all(_NAME.fullmatch(part) for part in parts):
        raise UsageError(f"torch_op: name must be like 'mylib::layer', not {name!r}")
    if parts[0] in _TORCHS_OWN:
        raise UsageError(f"torch_op: the namespace of {full!r} is PyTorch's own: choose another")
    signature = getattr(function, "signature", None)
    if not isinstance(signature, Signature):
        kind = type(function).__name__
        raise UsageError(f"torch_op: expected a built or loaded function, got {kind}")
    inputs = [p for p in signature.parameters if not p.is_output]
    outputs = [p for p in signature.parameters if p.is_output]
    if not inputs or not outputs:
        raise UsageError(f"torch_op: {signature.name} needs an input and an output")
    types = [_torch_type(torch, p.dtype) for p in outputs]

    def made(tensors: Sequence[Any]) -> list[Any]:
        sizes = _sizes(signature, tensors)
        return [
            tensors[0].new_empty([extent_value(extent, sizes) for extent in p.shape], dtype=dtype)
            for p, dtype in zip(outputs, types, strict=True)
        ]

    def fake(*tensors: Any) -> Any:
        results = made(tensors)
        return results[0] if len(results) == 1 else tuple(results)

    def run(*tensors: Any) -> Any:
        for number, (tensor, parameter) in enumerate(zip(tensors, inputs, strict=True), 1):
            if tensor is None or tensor.layout is not torch.strided:
                kind = "None" if tensor is None else tensor.layout
                label = f"{full}: argument {number}, {parameter.name!r}"
                raise ArgumentError(f"{label}, must be a dense tensor, got {kind}")
        held = [tensor.detach().contiguous() for tensor in tensors]
        results = made(held)
        function(*held, *results)
        return results[0] if len(results) == 1 else tuple(results)

    taken = ", ".join(f"Tensor {p.name}" for p in inputs)
    given = ", ".join("Tensor" for _ in outputs)
    schema = f"({taken}) -> {given if len(outputs) == 1 else f'({given})'}"
    try:
        operator = torch.library.custom_op(full, run, mutates_args=(), schema=schema)
        operator.register_fake(fake)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"torch_op: PyTorch refuses {full!r}: {reason}") from error
    registered: Callable[..., Any] = operator
    return registered


def _torch_type(torch: Any, dtype: str) -> Any:
    found = getattr(torch, dtype, None)
    if found is None:
        raise UsageError(f"torch_op: this PyTorch has no dtype {dtype}")
    return found


def _sizes(signature: Signature, tensors: Sequence[Any]) -> dict[str, Any]:
    """Return the sizes that the shapes of tensors tell; symbols, while PyTorch traces."""
    found: dict[str, Any] = {}
    for parameter, tensor in zip(signature.parameters, tensors, strict=False):
        for extent, length in zip(parameter.shape, tensor.shape, strict=False):
            if isinstance(extent, str):
                found.setdefault(extent, length)
    return found
