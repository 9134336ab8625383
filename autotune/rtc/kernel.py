"""What a template of a kernel as text returns, and its form while it is traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import UsageError
from autotune.ir.expr import Buffer, Const, Expr, Var
from autotune.ir.intervals import interval
from autotune.ir.ops import binary, convert, is_convertible
from autotune.ir.stmt import Allocate, For, Function, LoopKind, Raw, Stmt
from autotune.te.tensor import Tensor

Rule = tuple[Expr, str]


@dataclass(frozen=True)
class RawKernel:
    """A kernel as text whose knobs are macros, and how it is launched: what a template may return.

    Attributes
    ----------
    name : str
        Name of the kernel in the text. Its parameters are pointers: inputs, then outputs, all at
        multiples of 16 bytes.
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

    def __post_init__(self) -> None:
        tensors = [*self.inputs, *self.outputs]
        if not all(isinstance(tensor, Tensor) for tensor in tensors) or not self.outputs:
            raise UsageError(
                f"raw kernel {self.name!r}: inputs and outputs must be lists of tensors from "
                "te.placeholder, with one output at least"
            )
        for macro in self.defines:
            if not isinstance(macro, str) or not macro.isidentifier():
                raise UsageError(
                    f"raw kernel {self.name!r}: a macro must be letters, digits and _, "
                    f"got {macro!r}"
                )

    def lowered(self, name: str) -> Function:
        """Return the kernel as a function: loops over its threads, and inside of them its text.

        Parameters
        ----------
        name : str
            Of the function.
        """
        params = [Buffer(t.name, t.dtype, t.extents) for t in (*self.inputs, *self.outputs)]
        grid, block = (self._extents(what) for what in ("grid", "block"))
        shared = self._expr("shared_memory", self.shared_memory)
        sizes = {n: self._expr(n, v) for n, v in self.defines.items() if _is_size(v)}
        body: Stmt = Raw(self.name, self._text(), tuple(sizes), tuple(sizes.values()))
        if not (isinstance(shared, Const) and shared.value == 0):
            body = Allocate(Buffer("dynamic", "uint8", (shared,), "shared"), body)
        tags = [*_tags("blockIdx", grid), *_tags("threadIdx", block)]
        for tag, extent in reversed(tags):
            body = For(Var(tag, "int32"), extent, LoopKind.THREAD, body, tag)
        return Function(
            name,
            tuple(params),
            frozenset(params[len(self.inputs) :]),
            body,
            attrs={"requirements": tuple(self._rules(tags, shared))},
        )

    def _rules(self, tags: Sequence[tuple[str, Expr]], shared: Expr) -> list[Rule]:
        least = [(extent, 1, f"{tag} has at least one") for tag, extent in tags]
        least.append((shared, 0, "shared memory is not negative"))
        return [(binary(">=", x, n), rule) for x, n, rule in least if interval(x)[0] < n]

    def _text(self) -> str:
        """Return the text, below those macros that do not depend on knobs."""
        fixed = {n: v for n, v in self.defines.items() if not _is_size(v)}
        lines = [f"#define {n} {_literal(self.name, n, v)}" for n, v in fixed.items()]
        return "\n".join([*lines, self.text.strip("\n"), ""])

    def _extents(self, what: str) -> tuple[Expr, ...]:
        given = getattr(self, what)
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
