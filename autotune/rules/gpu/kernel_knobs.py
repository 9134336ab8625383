"""Knobs of the kernels of a computation on GPUs, some of them shared by several kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from autotune.rules.gpu.fusion_plan import FusedKernel, FusionPlan
from autotune.rules.gpu.matrix_products import Product, runs_of
from autotune.rules.gpu.product_loops import Tiles, define_tiles
from autotune.rules.gpu.row_loops import RowMapping
from autotune.rules.gpu.thread_loops import WARP
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.stage_graph import extent
from autotune.target import Target

#: Largest number of configurations of all kernels of a computation together.
_MOST: Final = 1 << 60
#: Steps from which on threads share a reduction by default, and fewer where elements are few.
_LONG: Final = 128
_LESS_LONG: Final = 32
_FEW: Final = 1 << 14
#: Largest number of single elements that a thread loads before it stores them: their addresses and
#: conditions need registers, too.
_MAX_WAITING: Final = 16


class GpuKnobs:
    """Defines the knobs of kernels.

    In each kind, the kernel with the most work has its own knobs. All other kernels of the kind
    share knobs with fewer values, because spaces would become too large. Names of knobs have the
    number of the first kernel that they are for.
    """

    def __init__(self, cfg: KnobDefiner, made: FusionPlan) -> None:
        self.cfg = cfg
        self.left = _MOST
        self.values: dict[str, Any] = {}
        largest: dict[str, FusedKernel] = {}
        for kernel in made.kernels.values():
            most = largest.setdefault(_kind(kernel), kernel)
            if kernel.work >= most.work:
                largest[_kind(kernel)] = kernel
        self.own = {kernel.tail for kernel in largest.values()}
        groups = list(dict.fromkeys(map(self._group, made.kernels.values())))
        self.numbers = {group: number for number, group in enumerate(groups, 1)}

    def _group(self, kernel: FusedKernel) -> Any:
        """Return what has the same knobs as a kernel: itself, or the others of its kind."""
        return kernel.tail if kernel.tail in self.own else _kind(kernel)

    @property
    def target(self) -> Target:
        """What the kernels are for."""
        return self.cfg.target

    def define(self, kernel: FusedKernel, name: str, values: Sequence[Any]) -> Any:
        """Return the value of a kernel's knob."""
        values = values if kernel.tail in self.own else values[:2]
        numbered = StageKnobs(self.cfg, self.numbers[self._group(kernel)])
        return self._defined(f"{name}{numbered.suffix}", list(values))

    def define_common(self, name: str, values: Sequence[Any]) -> Any:
        """Return the value of a knob that all kernels share."""
        return self._defined(name, list(values))

    def _defined(self, name: str, values: list[Any]) -> Any:
        if name not in self.values:
            values = values[: max(1, self.left)]
            self.left //= len(values)
            self.values[name] = self.cfg.define_knob(name, values)
        return self.values[name]

    def require(self, kernel: FusedKernel, condition: Any, message: str) -> None:
        """Add a constraint on a kernel's own knobs; shared knobs have none."""
        if kernel.tail in self.own:
            self.cfg.add_constraint(condition, message)

    # -- kinds of kernels ----------------------------------------------------------------------

    def tiles(self, kernel: FusedKernel, product: Product, widths: Sequence[int]) -> Tiles:
        """Return the tiles of a product."""
        found = runs_of(product)
        runs = [run for _, run in found if run > 1]
        own = _OfProduct(self, kernel, runs)
        tiles = define_tiles(own, product.sizes[0], widths, runs)
        if tiles.ahead == "registers":
            for way in (way for way, run in found if run == 1):
                size = (tiles.rows, tiles.columns)[way]
                own.add_constraint(
                    size * tiles.depth <= _MAX_WAITING * tiles.threads,
                    f"at most {_MAX_WAITING} elements with addresses of their own wait in a "
                    "thread's registers",
                )
        return tiles

    def rows(self, kernel: FusedKernel, columns: int, lanes: Sequence[int]) -> RowMapping:
        """Return the mapping of rows to the threads of a kernel."""
        usual = min(256, max(WARP, _power(columns)))
        counts = _first(usual, [8, 16, 32, 64, 128, 256, 512, 1024])
        threads = self.define(kernel, "threads", counts)
        rows = self.define(kernel, "rows", [1, 2, 4, 8, 16])
        self.require(kernel, threads * rows >= WARP, "a block has a warp or more")
        return RowMapping(rows, threads, 1, self.define(kernel, "lanes", lanes), across=True)

    def cells(self, kernel: FusedKernel, elements: int, steps: int, across: bool) -> RowMapping:
        """Return the mapping of reductions to threads."""
        together = _kind(kernel) == "long"
        powers = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        most, longest = _power(elements), _power(steps)
        usual = min(8 if together else 128, most)
        needed = min(WARP if together else max(1, WARP // usual), longest)
        threads = self.define(kernel, "threads", _first(needed, powers))
        rows = self.define(kernel, "rows", _first(usual, powers))
        each = self.define(kernel, "each", [1, 2, 4])
        self.require(kernel, rows * each <= most, "a block has no more elements than there are")
        self.require(kernel, threads <= longest, "an element has no more threads than steps")
        least = min(WARP, usual * needed)
        self.require(kernel, threads * rows >= least, "a block has a warp or more")
        return RowMapping(rows, threads, each, 1, across)


class _OfProduct:
    """Defines the knobs of one product; shared knobs fit the sizes of all products."""

    def __init__(self, knobs: GpuKnobs, kernel: FusedKernel, runs: Sequence[int]) -> None:
        self.knobs = knobs
        self.kernel = kernel
        self.runs = runs

    @property
    def target(self) -> Target:
        return self.knobs.target

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        if name == "ahead":
            return self.knobs.define_common(name, values)
        if self.kernel.tail not in self.knobs.own:
            if name == "fetch":
                return max(v for v in (1, *values) if all(run % v == 0 for run in self.runs))
            if name == "group":
                return 1
        return self.knobs.define(self.kernel, name, values)

    def add_constraint(self, condition: Any, message: str) -> None:
        self.knobs.cfg.add_constraint(condition, message)


def _kind(kernel: FusedKernel) -> str:
    """Return the kind of a kernel; kernels of a kind may share knobs."""
    if kernel.product is not None:
        return "product"
    if not kernel.reductions:
        return "elements"
    if not kernel.is_flat:
        return "rows"
    elements = math.prod(map(extent, kernel.tail.op.axis))
    longest = kernel.longest
    is_long = longest >= (_LESS_LONG if elements < _FEW else _LONG)
    return "long" if is_long else "short"


def _first(usual: int, values: Sequence[int]) -> list[int]:
    return [usual, *(value for value in values if value != usual)]


def _power(number: int) -> int:
    """Return the least power of 2 that is at least a number."""
    return 1 << (number - 1).bit_length()
