"""Any Python callable that works on arrays, whose knobs are keyword arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar

from autotune.errors import UsageError
from autotune.external.external_kernel import ExternalKernel, is_size
from autotune.ir.expr import Expr
from autotune.ir.stmt import PrimFunc, Raw
from autotune.runtime.callable_function import CallableFunction
from autotune.runtime.signature import Signature
from autotune.system.function_text import text_of, used_names, variables_of, written_function
from autotune.target import Target
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class CallableKernel(ExternalKernel):
    """A callable that a template may return: of Numba, Triton, CuPy, a library, or plain Python.

    It is called as ``function(*inputs, *outputs, **keywords)``, with NumPy's arrays for the target
    "llvm" and CuPy's on a GPU, and writes its outputs. It is not sent to other processes: each
    calls the template for it. What it compiles at its first call is not timed.

    Attributes
    ----------
    function : callable
        What is called.
    inputs, outputs : sequence of Tensor
        Made by `te.placeholder`; C-contiguous arrays.
    keywords : mapping of str to value
        Knobs, expressions of knobs and sizes, and anything else that the callable takes.
    returns : bool
        Whether it is called with the inputs alone, and returns the output (or a tuple of outputs).
        These are copied, and copying is timed, too.
    reduction_length : int
        Terms that one element of an output accumulates, >= 1: rounding errors grow with it, and so
        does what is allowed of them.
    """

    kind: ClassVar[str] = "callable"

    function: Callable[..., Any]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    returns: bool = False
    reduction_length: int = 1

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise UsageError(f"a callable kernel needs a function, got {self.function!r}")
        self._check([*self.inputs, *self.outputs], "inputs and outputs", self.keywords, "a keyword")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the function."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def refusal(self, target: Target) -> str:
        """Return why a target cannot run it, and which could; empty if it can."""
        if target.kind == "llvm" or not target.on_cpu:
            return ""
        return f"a Python callable, which {str(target)!r} does not run: use 'llvm', or a GPU"

    def lowered(self, name: str, folder: str = "") -> PrimFunc:
        """Return it as a function whose body is the callable's text, which identifies it.

        Parameters
        ----------
        name : str
            Of the function.
        folder : str
            Not used.
        """
        sizes = self._sizes(self.keywords)
        given = [f"{n} = {_written(v)}" for n, v in self.keywords.items() if n not in sizes]
        text = "\n".join([*_texts(self.function), *given, *["returns"] * self.returns])
        raw = Raw(self.name, text, tuple(sizes), tuple(sizes.values()), language="python")
        return self._function(name, raw)

    def loaded(self, signature: Signature, target: Target) -> CallableFunction:
        """Return it to be called; its keywords have values.

        Parameters
        ----------
        signature : Signature
            What it takes.
        target : Target
            Where it runs.
        """
        source = "\n".join(_texts(self.function))
        return CallableFunction(
            signature, self.function, self.keywords, target.on_cpu, self.returns, source
        )


def _texts(function: object) -> Iterator[str]:
    """Yield the texts of a callable and of what it uses of its module; else what it is called.

    Constants count by value, and what else it was made with does not: the knobs of a candidate do.
    """
    seen: set[FunctionType] = set()

    def texts(value: object) -> Iterator[str]:
        while isinstance(value, functools.partial):
            yield f"partial {[_written(arg) for arg in value.args]} {_written(value.keywords)}"
            value = value.func
        if inspect.ismethod(value):
            value = value.__func__
        function = written_function(value)
        if function is None:
            made = value if hasattr(value, "__qualname__") else type(value)
            yield f"{getattr(made, '__module__', None)}.{getattr(made, '__qualname__', made)}"
        elif function not in seen:
            seen.add(function)
            yield from written(function)

    def written(function: FunctionType) -> Iterator[str]:
        text = text_of(function)
        if text is None:
            yield f"{function.__module__}.{function.__qualname__}"
            return
        yield text.rstrip()
        known = variables_of(function)
        for name in sorted(set.union(*used_names(text)) & known.keys()):
            other = written_function(known[name])
            if other is not None and other.__module__ == function.__module__:
                yield from texts(other)
            elif isinstance(known[name], (bool, int, float, str, tuple)):
                yield f"{name} = {_written(known[name])}"

    return texts(function)


def _written(value: object) -> str:
    """Return a value as text that is the same in each process; of an object its type."""
    if is_size(value) and not isinstance(value, int):
        return "a knob" if isinstance(getattr(value, "expr", value), Expr) else repr(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_written, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k}: {_written(v)}' for k, v in value.items())}}}"
    return type(value).__name__
