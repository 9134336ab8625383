"""What a template of a kernel as text returns, and its form while it is traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from autotune.errors import UsageError
from autotune.external.call_form import call_form
from autotune.external.external_kernel import ExternalKernel, Rule, buffer_of
from autotune.ir.algebra.intervals import Intervals
from autotune.ir.expr import Buffer, Expr, Var, is_const
from autotune.ir.ops import binary
from autotune.ir.stmt import Allocate, For, LoopKind, PrimFunc, Raw, Seq, Stmt, allocated
from autotune.target import Target
from autotune.te.tensor import Tensor


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
class RawKernel(ExternalKernel):
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
    arguments : sequence of Tensor or number
        What the kernel takes, in order, if not what `text` says: a pointer to each tensor, and
        numbers of NumPy by value. A tensor among inputs and outputs is an array that the kernel
        changes in place: it gets the values of its input before it is checked, and keeps what
        calls leave in it while it is timed.
    scratch : sequence of Tensor
        Inputs that the kernel may overwrite: it gets copies of them.
    flags : sequence of str
        Options of NVRTC.
    header : bool
        Whether the device header stands before the text.
    """

    kind: ClassVar[str] = "raw kernel"

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
    arguments: Sequence[Any] = ()
    scratch: Sequence[Tensor] = ()
    flags: Sequence[str] = ()
    header: bool = True

    def __post_init__(self) -> None:
        tensors = [*self.inputs, *self.outputs, *self.workspace]
        self._check(tensors, "inputs, outputs and workspace", self.defines, "a macro")
        form = call_form(self, self.arguments, self.scratch)
        if form is not None and self.workspace:
            raise UsageError(f"{self.what}: one with workspace has no arguments and no scratch")

    def refusal(self, target: Target) -> str:
        """Return why a target cannot run it, and which could; empty if it can."""
        if not target.on_cpu:
            return ""
        return (
            f"a kernel as text, which runs on GPUs only, not on {str(target)!r}: use a target such "
            "as 'cuda -arch=sm_90'"
        )

    def lowered(self, name: str, folder: str = "") -> PrimFunc:
        """Return the kernels as a function: loops over the threads of each, and in them its text.

        The text and its macros stand with the first kernel, for all of them.

        Parameters
        ----------
        name : str
            Of the function.
        folder : str
            Not used.
        """
        main = KernelLaunch(self.name, self.grid, self.block, self.shared_memory)
        first, *others = (*self.before, main)
        whole = self._raw(
            first.name,
            self.text,
            self.defines,
            command=tuple(self.flags),
            call=call_form(self, self.arguments, self.scratch),
            header=self.header,
        )
        rules: list[Rule] = []
        nests = [self._nest(first, whole, rules)]
        nests += [self._nest(one, Raw(one.name, "", (), ()), rules) for one in others]
        body = nests[0] if len(nests) == 1 else Seq(tuple(nests))
        body = allocated([buffer_of(tensor) for tensor in self.workspace], body)
        return self._function(name, body, rules)

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

    def _extents(self, what: str, given: Any) -> tuple[Expr, ...]:
        extents = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if not 1 <= len(extents) <= 3:
            raise UsageError(f"raw kernel {self.name!r}: {what} must be 1 to 3 sizes")
        return tuple(self._expr(what, extent) for extent in extents)


def _rules(tags: Sequence[tuple[str, Expr]], shared: Expr) -> list[Rule]:
    least = [(extent, 1, f"{tag} has at least one") for tag, extent in tags]
    least.append((shared, 0, "shared memory is not negative"))
    return [(binary(">=", x, n), rule) for x, n, rule in least if Intervals().bounds(x)[0] < n]


def _tags(level: str, extents: Sequence[Expr]) -> list[tuple[str, Expr]]:
    return [(f"{level}.{axis}", extent) for axis, extent in zip("xyz", extents, strict=False)]
