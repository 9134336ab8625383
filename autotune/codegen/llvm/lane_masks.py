"""Masks: the active lanes of a vector under vector conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from autotune.codegen.llvm.function_builder import FunctionBuilder
from autotune.codegen.llvm.llvm_types import vector_of


@dataclass(frozen=True)
class Mask:
    """The active lanes."""

    #: Operand of type <lanes x i1>.
    ref: str
    lanes: int
    #: Whether code under the mask only runs if at least one lane is active.
    inhabited: bool

    @property
    def behind(self) -> int:
        """Number of lanes before the first active one, if the mask is constant; else 0."""
        known = self.ref[1:-1].split(", ") if self.ref.startswith("<") else ()
        return next((n for n, lane in enumerate(known) if lane == "i1 true"), 0)


@dataclass(eq=False, repr=False)
class LaneMasks:
    """The current mask."""

    builder: FunctionBuilder
    #: The active lanes under a vector condition.
    mask: Mask | None = field(init=False, default=None)

    @contextmanager
    def masked(self, ref: str, lanes: int, inhabited: bool = False) -> Iterator[None]:
        """Write code for the lanes of a mask (among those that are active already)."""
        outer = self.mask
        with self.builder.region():
            self.mask = Mask(ref if inhabited else self.active(ref, lanes), lanes, inhabited)
            try:
                yield
            finally:
                self.mask = outer

    def active(self, ref: str, lanes: int) -> str:
        """Lanes of the mask `ref` that are active."""
        if self.mask is None:
            return ref
        return self.builder.define(f"and {vector_of('i1', lanes)} {self.mask.ref}, {ref}")

    def any_lane(self, ref: str, lanes: int) -> str:
        """Operand of type i1: whether a mask has an active lane."""
        symbol = f"llvm.vector.reduce.or.v{lanes}i1"
        self.builder.declare(symbol, f"declare i1 @{symbol}(<{lanes} x i1>)")
        return self.builder.define(f"call i1 @{symbol}(<{lanes} x i1> {ref})")
