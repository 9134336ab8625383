"""What a template of a kernel as text returns, and its form while it is traced."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import UsageError
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import Buffer, Expr, Var, is_const
from autotune.ir.ops import binary, convert, is_convertible
from autotune.ir.stmt import (
    Allocate,
    For,
    FunctionInfo,
    LoopKind,
    PrimFunc,
    Raw,
    Seq,
    Stmt,
    allocated,
)
from autotune.te.tensor import Tensor

Rule = tuple[Expr, str]


@dataclass(frozen=True)
class KernelLaunch:
    """How one kernel of a text is launched.

    Attributes
    ----------
    name : str
        Name of the kernel in the text.
    grid, block : int, or sequence of up to three
        Blocks, and threads of a block: numbers, or expressions of knobs and sizes.
    shared_memory : int
        Bytes of dynamic shared memory, likewise.
    """

    name: str
    grid: Any
    block: Any
    shared_memory: Any = 0


@dataclass(frozen=True)
class RawKernel:
    """A kernel as text whose knobs are macros, with its launch; a template may return it.

    Attributes
    ----------
    name : str
        Name of the kernel in the text. Its parameters are pointers: inputs, outputs, then
        workspace, all at multiples of 16 bytes.
    text : str
        The kernel. The device header stands before it.
    inputs, outputs : sequence of Tensor
        Made by `te.placeholder`.
    grid, block : int, or sequence of up to three
        Blocks, and threads of a block: numbers, or expressions of knobs and sizes.
    shared_memory : int
        Bytes of dynamic shared memory, likewise.
    defines : mapping of str to int, float, bool or str
        Macros with their values, likewise.
    reduction_length : int
        Terms that one element of an output accumulates, >= 1: rounding errors grow with it, and so
        does what is allowed of them.
    workspace : sequence of Tensor
        Memory that kernels of a call share, made by `te.placeholder`; it begins with anything.
    before : sequence of KernelLaunch
        Other kernels of the text, with the same parameters, that each call launches before, in
        order: each begins when the one before it has ended.
    """

    name: str
    text: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    grid: Any
    block: Any
    shared_memory: Any = 0
    defines: Mapping[str, Any] = field(default_factory=dict)
    reduction_length: int = 1
    workspace: Sequence[Tensor] = ()
    before: Sequence[KernelLaunch] = ()

    def __post_init__(self) -> None:
        tensors = [*self.inputs, *self.outputs, *self.workspace]
        if not all(isinstance(tensor, Tensor) for tensor in tensors) or not self.outputs:
            raise UsageError(
                f"raw kernel {self.name!r}: inputs, outputs and workspace must be lists of tensors "
                "from te.placeholder, with one output at least"
            )
        for macro in self.defines:
            if not isinstance(macro, str) or not macro.isidentifier():
                raise UsageError(
                    f"raw kernel {self.name!r}: a macro must be letters, digits and _, "
                    f"got {macro!r}"
                )

    def lowered(self, name: str) -> PrimFunc:
        """Return the kernels as a function: loops over the threads of each, and in them its text.

        The text and its macros stand with the first kernel, for all of them.

        Parameters
        ----------
        name : str
            Of the function.
        """
        params = [_buffer(tensor) for tensor in (*self.inputs, *self.outputs)]
        sizes = {n: self._expr(n, v) for n, v in self.defines.items() if _is_size(v)}
        main = KernelLaunch(self.name, self.grid, self.block, self.shared_memory)
        nests: list[Stmt] = []
        values = tuple(sizes.values())
        rules: list[Rule] = []
        for launch in (*self.before, main):
            raw = Raw(launch.name, "", (), ())
            if not nests:
                raw = Raw(launch.name, self._text(), tuple(sizes), values, self._given())
            nests.append(self._nest(launch, raw, rules))
        body = nests[0] if len(nests) == 1 else Seq(tuple(nests))
        body = allocated([_buffer(tensor) for tensor in self.workspace], body)
        return PrimFunc(
            name,
            tuple(params),
            frozenset(params[len(self.inputs) :]),
            body,
            info=FunctionInfo(requirements=tuple(rules)),
        )

    def _nest(self, launch: KernelLaunch, raw: Raw, rules: list[Rule]) -> Stmt:
        """Return the loops over a launch's threads; add the launch's limits to the rules."""
        grid, block = (self._extents(w, getattr(launch, w)) for w in ("grid", "block"))
        shared = self._expr("shared_memory", launch.shared_memory)
        tags = [*_tags("blockIdx", grid), *_tags("threadIdx", block)]
        rules += _rules(tags, shared)
        body: Stmt = raw
        if not is_const(shared, 0):
            name = "dynamic" if launch.name == self.name else f"dynamic_{launch.name}"
            body = Allocate(Buffer(name, "uint8", (shared,), "shared"), body)
        for tag, extent in reversed(tags):
            body = For(Var(tag, "int32"), extent, LoopKind.THREAD, body, tag)
        return body

    def _text(self) -> str:
        """Return the text, after the macros that do not depend on knobs."""
        fixed = {n: v for n, v in self.defines.items() if not _is_size(v)}
        lines = [f"#define {n} {_literal(self.name, n, v)}" for n, v in fixed.items()]
        given = check_source(self.text, f"raw kernel {self.name!r}: text")
        return check_source("\n".join([*lines, given.strip("\n"), ""]), f"raw kernel {self.name!r}")

    def _given(self) -> tuple[int, int]:
        """Return after how many lines of the text the given one begins, and with which line."""
        fixed = sum(not _is_size(value) for value in self.defines.values())
        return fixed, 1 + len(self.text) - len(self.text.lstrip("\n"))

    def _extents(self, what: str, given: Any) -> tuple[Expr, ...]:
        extents = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if not 1 <= len(extents) <= 3:
            raise UsageError(f"raw kernel {self.name!r}: {what} must be 1 to 3 sizes")
        return tuple(self._expr(what, extent) for extent in extents)

    def _expr(self, what: str, value: Any) -> Expr:
        expr = convert(value) if is_convertible(value) else None
        if expr is None or expr.dtype not in ("int32", "int64"):
            raise UsageError(
                f"raw kernel {self.name!r}: {what} must be a whole number, or an expression of "
                f"knobs and sizes, got {value!r}"
            )
        return expr


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


def _buffer(tensor: Tensor) -> Buffer:
    return Buffer(tensor.name, tensor.dtype, tensor.extents)


def _rules(tags: Sequence[tuple[str, Expr]], shared: Expr) -> list[Rule]:
    least = [(extent, 1, f"{tag} has at least one") for tag, extent in tags]
    least.append((shared, 0, "shared memory is not negative"))
    return [(binary(">=", x, n), rule) for x, n, rule in least if Intervals().bounds(x)[0] < n]


def _is_size(value: Any) -> bool:
    """Whether a macro's value is a whole number, which may depend on knobs."""
    return not isinstance(value, (bool, float, str)) and is_convertible(value)


def _literal(kernel: str, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (float, str)):
        return str(value)
    raise UsageError(
        f"raw kernel {kernel!r}: macro {name} must be a number, a flag or a text, got {value!r}"
    )


def _tags(level: str, extents: Sequence[Expr]) -> list[tuple[str, Expr]]:
    return [(f"{level}.{axis}", extent) for axis, extent in zip("xyz", extents, strict=False)]
