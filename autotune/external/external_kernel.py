"""The base of kernels that are no tensor expressions, and how their knobs are read."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from autotune.errors import UsageError
from autotune.ir.expr import Buffer, Const, Expr, SizeVar
from autotune.ir.ops import convert, is_convertible
from autotune.ir.stmt import FunctionInfo, PrimFunc, Raw, Stmt
from autotune.ir.visitor import free_vars
from autotune.system.words import did_you_mean
from autotune.target import Target
from autotune.te.tensor import PlaceholderOp, Tensor

Rule = tuple[Expr, str]


class ExternalKernel(ABC):
    """A kernel whose loops are not known; a template may return it in place of a schedule.

    Attributes
    ----------
    kind : str
        What it is, for messages.
    name : str
        What it is called, there and in listings.
    inputs, outputs : sequence of Tensor
        Made by `te.placeholder`.
    reduction_length : int
        Terms that one element of an output accumulates, >= 1.
    """

    kind: ClassVar[str]
    name: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    reduction_length: int

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Make it; UsageError if an argument is not known, or one is missing."""
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        known = [parameter.name for parameter in parameters]
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known, "known are")
                raise UsageError(f"a {cls.kind} has no argument {name!r}; {hint}")
        by_name = (p.name for p in parameters[len(args) :] if p.default is p.empty)
        missing = [name for name in by_name if name not in given]
        if missing and (args or given):  # a copy is made without any
            raise UsageError(f"a {cls.kind} needs {' and '.join(missing)}")
        return super().__new__(cls)

    @abstractmethod
    def refusal(self, target: Target) -> str:
        """Return why a target cannot run it, and which could; empty if it can."""

    @abstractmethod
    def lowered(self, name: str, folder: str = "") -> PrimFunc:
        """Return it as a function of the IR.

        Parameters
        ----------
        name : str
            Of the function.
        folder : str
            Where the template is written.
        """

    def _check(self, tensors: Sequence[Any], lists: str, names: Mapping[str, Any], a: str) -> None:
        """Raise UsageError unless tensors are given arrays, and names of values are names.

        `lists`: what the tensors are called.
        `a`: what a name is of, with its article.
        """
        given = [isinstance(t, Tensor) and isinstance(t.op, PlaceholderOp) for t in tensors]
        if not all(given) or not self.outputs:
            raise UsageError(
                f"{self.what}: {lists} must be lists of tensors from te.placeholder, with one "
                "output at least"
            )
        terms = self._expr("reduction_length", self.reduction_length)
        if isinstance(terms, Const) and terms.value < 1:
            raise UsageError(f"{self.what}: reduction_length must be >= 1, got {terms.value}")
        for name in names:
            if not isinstance(name, str) or not name.isidentifier():
                raise UsageError(f"{self.what}: {a} must be letters, digits and _, got {name!r}")

    @property
    def what(self) -> str:
        """Its kind and name, for messages."""
        return f"{self.kind} {self.name!r}"

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    def _function(self, name: str, body: Stmt, rules: Sequence[Rule] = ()) -> PrimFunc:
        """Return the function of the arrays with a body, and what it demands of knobs.

        UsageError if an array has a size that only calls know.
        """
        params = tuple(map(buffer_of, self.tensors))
        extents = (extent for param in params for extent in param.shape)
        names = {v.name for e in extents for v in free_vars(e) if isinstance(v, SizeVar)}
        if names:
            raise UsageError(
                f"{self.what} needs sizes that are numbers: {', '.join(sorted(names))} is a list "
                "of sizes, or comes from te.var"
            )
        outputs = frozenset(params[len(self.inputs) :])
        return PrimFunc(name, params, outputs, body, info=FunctionInfo(requirements=tuple(rules)))

    def _raw(self, name: str, text: Any, defines: Mapping[str, Any], **more: Any) -> Raw:
        """Return the statement of a text after its macros.

        `name`: of the kernel in the text.
        `defines`: the macros, whose values may depend on knobs.
        `more`: other fields of the statement.
        """
        sizes = self._sizes(defines)
        whole, given = self._with_fixed(text, defines)
        return Raw(name, whole, tuple(sizes), tuple(sizes.values()), given, **more)

    def _sizes(self, values: Mapping[str, Any]) -> dict[str, Expr]:
        """Return those values that are whole numbers, which may depend on knobs."""
        return {name: self._expr(name, v) for name, v in values.items() if is_size(v)}

    def _expr(self, what: str, value: Any) -> Expr:
        expr = convert(value) if is_convertible(value) else None
        if expr is None or expr.dtype not in ("int32", "int64"):
            raise UsageError(
                f"{self.what}: {what} must be a whole number, or an expression of knobs and "
                f"sizes, got {value!r}"
            )
        return expr

    def _literal(self, name: str, value: Any) -> str:
        """Return a macro's value that is no whole number."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (float, str)):
            return str(value)
        raise UsageError(
            f"{self.what}: macro {name} must be a number, a flag or a text, got {value!r}"
        )

    def _with_fixed(self, text: Any, defines: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
        """Return a text after those of its macros that are no whole numbers.

        Second is where the given text is in it, as of `Raw.given`.
        """
        fixed = [f"#define {n} {self._literal(n, v)}" for n, v in defines.items() if not is_size(v)]
        given = check_source(text, f"{self.what}: text")
        whole = check_source("\n".join([*fixed, given.strip("\n"), ""]), self.what)
        return whole, (len(fixed), 1 + len(given) - len(given.lstrip("\n")))


def buffer_of(tensor: Tensor) -> Buffer:
    """Return the parameter for a tensor."""
    return Buffer(tensor.name, tensor.dtype, tensor.extents)


def is_size(value: Any) -> bool:
    """Whether a value is a whole number, which may depend on knobs."""
    return not isinstance(value, (bool, float, str)) and is_convertible(value)


def check_source(text: Any, what: str) -> str:
    """Return a text that a compiler reads to its end; UsageError, naming `what`, if it is not."""
    if not isinstance(text, str):
        raise UsageError(f"{what} must be text, got {type(text).__name__}")
    unreadable = re.search("[\0\ud800-\udfff]", text)
    if unreadable:
        line = text.count("\n", 0, unreadable.start()) + 1
        raise UsageError(
            f"{what} must be text without NUL and lone surrogates, has {unreadable[0]!a} "
            f"in line {line}"
        )
    return text
