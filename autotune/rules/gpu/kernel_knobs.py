"""Knobs of the kernels of a computation on GPUs, some of them shared by several kernels."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Sequence
from typing import Any, Final

from autotune import te
from autotune.rules.gpu.column_vectors import bytes_along
from autotune.rules.gpu.fusion_plan import FusedKernel, FusionPlan, long_axes
from autotune.rules.gpu.matrix_products import Product, runs_of, steps_of
from autotune.rules.gpu.product_loops import Tiles, define_tiles
from autotune.rules.gpu.register_rows import MOST_KEPT, KeptRows, kept_rows
from autotune.rules.gpu.row_loops import OCCUPIED, RowMapping, most_threads, source_along
from autotune.rules.gpu.thread_loops import (
    BANKS,
    ENOUGH_BLOCKS,
    MULTIPROCESSORS,
    SECTOR,
    WARP,
    row_lanes,
)
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.stage_graph import extent, power_of_two, reduction_of
from autotune.target import Target

#: Threads of a block of rows by default, and of a block of sums.
_BLOCK: Final = 128
_BLOCK_OF_SUMS: Final = 256
#: The same of a block of sums in vectors, and least steps of a thread.
_BLOCK_OF_COLUMNS: Final = 512
_LEAST_OF_THREAD: Final = 8
#: Numbers of threads and of elements of a block of sums.
_POWERS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Steps from which on threads share a reduction by default, and fewer where elements are few.
_LONG: Final = 128
_LESS_LONG: Final = 32
_FEW: Final = 1 << 14
#: Largest number of single elements that a thread loads before it stores them: their addresses and
#: conditions need registers, too.
_MAX_WAITING: Final = 16
#: Kinds of kernels.
_KINDS: Final = ("product", "long", "short", "rows", "elements")


class GpuKnobs:
    """Defines the knobs of kernels.

    In each kind, the kernel with the most work has knobs, with its number among these kernels in
    their names: a product is the first one. Other kernels have the defaults for their shapes,
    because spaces would become too large, and so have those whose tails are `untuned`. If kernels
    depend on other knobs, the number is that of the kind, behind the numbers of the `parts`
    reductions that may be split.
    """

    def __init__(
        self,
        cfg: KnobDefiner,
        made: FusionPlan,
        parts: int,
        by_kind: bool,
        untuned: Collection[te.Tensor],
    ) -> None:
        self.cfg, self.target, self.by_kind = cfg, cfg.target, by_kind
        largest: dict[str, FusedKernel] = {}
        for kernel in (k for tail, k in made.kernels.items() if tail not in untuned):
            most = largest.setdefault(_kind(kernel), kernel)
            if kernel.work >= most.work:
                largest[_kind(kernel)] = kernel
        own = {kernel.tail for kernel in largest.values()}
        tuned = [tail for tail in made.kernels if tail in own]
        product = [tail for tail in tuned if made.kernels[tail].product is not None]
        others = [tail for tail in tuned if tail not in product]
        self.numbers = dict.fromkeys(product, 1)
        self.numbers |= {tail: n for n, tail in enumerate(others, 1 + len(product))}
        if by_kind:
            kinds = {tail: _KINDS.index(_kind(made.kernels[tail])) for tail in others}
            kept = [tail for tail in others if kept_rows(made.kernels[tail], made) is not None]
            kinds |= dict.fromkeys(kept, len(_KINDS))  # their knobs have other values
            self.numbers |= {tail: 1 + parts + kind for tail, kind in kinds.items()}

    def of(self, kernel: FusedKernel) -> KnobDefiner:
        """Return what defines the knobs of a kernel."""
        number = self.numbers.get(kernel.tail)
        return Defaults(self.target) if number is None else StageKnobs(self.cfg, number)

    # -- kinds of kernels ----------------------------------------------------------------------

    def tiles(self, kernel: FusedKernel, product: Product, widths: Sequence[int]) -> Tiles:
        """Return the tiles of a product."""
        found, cfg = runs_of(product), self.of(kernel)
        runs = [run for _, run in found if run % 2 == 0]
        tiles = define_tiles(cfg, (product.count, *product.sizes), widths, runs)
        if tiles.ahead == "registers":
            for way in (way for way, run in found if run % 2):
                size = (tiles.rows, tiles.columns)[way]
                cfg.add_constraint(
                    size * tiles.depth <= _MAX_WAITING * tiles.threads,
                    f"at most {_MAX_WAITING} elements with addresses of their own wait in a "
                    "thread's registers",
                )
        return tiles

    def kept_rows(self, kept: KeptRows, lanes: Sequence[int]) -> tuple[Any, Any, Any]:
        """Return threads of a row that is kept in registers, rows of a block, and lanes."""
        cfg, columns = self.of(kept.kernel), kept.columns
        rows = math.prod(map(extent, long_axes(kept.kernel.tail)[: kept.kernel.rows]))
        wide = lanes[0]
        least = power_of_two(-(-columns * max(1, len(kept.held)) // MOST_KEPT))
        usual = max(min(WARP, power_of_two(columns // wide + 1) // 2), least)
        threads = cfg.define_knob("threads", [8, 1, 2, 4, 16, 32, 64, 128, 256, 512, 1024], usual)
        width = cfg.define_knob("lanes", lanes)
        fill = max(1, min(_BLOCK // usual, rows // MULTIPROCESSORS))
        together = 1 << (fill.bit_length() - 1)
        of_block = cfg.define_knob("rows", [1, 2, 4, 8, 16, 32, 64, 128], together)
        cfg.add_constraint(threads * width <= columns, "a row has an element for each thread")
        most = columns if columns % wide == 0 else columns + width - 1
        each = te.ceildiv(most, threads * width) * width
        cfg.add_constraint(
            each * max(1, len(kept.held)) <= 2 * MOST_KEPT, "rows fit in the threads' registers"
        )
        least = min(WARP, usual * together)
        cfg.add_constraint(threads * of_block >= least, "a block has a warp or more")
        return threads, of_block, width

    def rows(self, kernel: FusedKernel, columns: int, lanes: Sequence[int]) -> RowMapping:
        """Return the mapping of rows to the threads of a kernel."""
        cfg, usual = self.of(kernel), min(256, max(WARP, power_of_two(columns)))
        threads = cfg.define_knob("threads", [8, 16, 32, 64, 128, 256, 512, 1024], usual)
        rows = cfg.define_knob("rows", [1, 2, 4, 8, 16])
        cfg.add_constraint(threads * rows >= WARP, "a block has a warp or more")
        width, is_aligned = cfg.define_knob("lanes", lanes), columns % lanes[0] == 0
        return RowMapping(rows, threads, 1, width, across=True, is_aligned=is_aligned)

    def column_lanes(self, kernel: FusedKernel, counts: Sequence[int]) -> int:
        """Return how many neighbouring results a thread reduces together.

        What may add up parts has no knob for it, which would multiply the structures.
        """
        if len(counts) == 1 or kernel.is_plain or (self.by_kind and _kind(kernel) == "short"):
            return counts[0]
        return operator.index(self.of(kernel).define_knob("lanes", counts))

    def columns(self, kernel: FusedKernel, lanes: int, is_alone: bool) -> tuple[Any, Any, Any]:
        """Return threads of a vector of results (None: one), vectors of a block, and of a thread.

        Steps are shared where they are many, or vectors are too few to occupy the multiprocessors.
        `is_alone`: whether a thread has all steps of its vector nevertheless.
        """
        cfg: KnobDefiner = Defaults(self.target) if kernel.is_plain else self.of(kernel)
        steps = 1 if is_alone else kernel.longest
        vectors = math.prod(map(extent, kernel.tail.op.axis)) // lanes
        most = power_of_two(vectors)
        enough = 2 * WARP * MULTIPROCESSORS if steps < _LONG else OCCUPIED // 2
        if vectors >= enough or steps < 2 * lanes:
            usual = max(WARP, power_of_two(vectors // MULTIPROCESSORS + 1) // 2)
            rows = cfg.define_knob("rows", _POWERS, min(_BLOCK, most, usual))
            each = cfg.define_knob("each", [1, 2, 4])
            cfg.add_constraint(rows >= min(WARP, most), "a block has a warp or more")
            cfg.add_constraint(rows * each <= most, "a block has no more elements than there are")
            return None, rows, each
        size = lanes * bytes_along(kernel.reductions[0])
        usual, least = BANKS // size, SECTOR // size
        enough = max(lanes, power_of_two(steps // _LEAST_OF_THREAD))
        while usual > max(least, WARP // enough) and vectors < usual * ENOUGH_BLOCKS:
            usual //= 2
        usual = min(usual, most)
        rows = cfg.define_knob("rows", _POWERS, usual)
        needed = min(_BLOCK_OF_COLUMNS // usual, _POWERS[-1], enough)
        threads = cfg.define_knob("threads", _POWERS, needed)
        cfg.add_constraint(rows <= most, "a block has no more elements than there are")
        cfg.add_constraint(threads >= lanes, "threads of a vector add up as many sums as it has")
        least = min(WARP, needed * usual)
        cfg.add_constraint(threads * rows >= least, "a block has a warp or more")
        return threads, rows, 1

    def cells(self, kernel: FusedKernel, elements: int, steps: int, across: bool) -> RowMapping:
        """Return the mapping of reductions to threads."""
        cfg, together = self.of(kernel), _kind(kernel) == "long"
        most, longest = power_of_two(elements), power_of_two(steps)
        needed = min(max(1, WARP // min(_BLOCK, most)), longest)
        usual = min(_BLOCK, most, max(WARP, power_of_two(elements // MULTIPROCESSORS + 1) // 2))
        if together:
            tensor = kernel.reductions[0]
            enough = power_of_two(max(1, OCCUPIED // elements))
            needed = min(max(enough, WARP if across else 4), most_threads(tensor), longest)
            usual = min(max(1, _BLOCK_OF_SUMS // needed) if across else WARP, most)
        threads = cfg.define_knob("threads", _POWERS, needed)
        rows = cfg.define_knob("rows", _POWERS, usual)
        each = cfg.define_knob("each", [1, 2, 4])
        cfg.add_constraint(rows * each <= most, "a block has no more elements than there are")
        cfg.add_constraint(threads <= longest, "an element has no more threads than steps")
        least = min(WARP, usual * needed)
        cfg.add_constraint(threads * rows >= least, "a block has a warp or more")
        source, vectors, is_aligned = source_along(kernel.reductions[0]), None, True
        if source is not None and len(kernel.reductions) == 1:
            length = extent(steps_of(reduction_of(kernel.reductions[0]))[-1])
            counts = row_lanes(self.target, source.dtype, length)
            if length < steps:  # each row of several begins where vectors do
                counts = [n for n in counts if length % n == 0]
            is_aligned = length % counts[0] == 0
            vectors = cfg.define_knob("lanes", counts)
        return RowMapping(rows, threads, each, 1, across, vectors, is_aligned)


class Defaults:
    """Stands in for `KnobDefiner` where a kernel has no knobs: every knob is its default value."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        """Return the default."""
        return values[0] if default is None else default

    def add_constraint(self, condition: Any, message: str) -> None:
        """Do nothing: defaults are legal."""


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
