"""Splits long reductions on GPUs whose results are too few to occupy all multiprocessors.

::

    for (j)                              for (z, j)
      for (k)  C[j] += A[k, j]    ->       for (t)  parts[z, j] += A[t * Z + z, j]
                                         for (j)
                                           for (z)  C[j] += parts[z, j]

The steps of a part are as many steps apart as there are parts, so that neighbouring threads read
neighbouring elements. Parts of a product of matrices are consecutive steps, which its tiles need.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

from autotune import te
from autotune.rules.gpu.column_vectors import bytes_along, lanes_of_columns
from autotune.rules.gpu.default_tiles import default_parts
from autotune.rules.gpu.fusion_plan import FusedKernel, FusionPlan
from autotune.rules.gpu.matrix_products import product_of
from autotune.rules.gpu.register_rows import kept_rows
from autotune.rules.gpu.row_loops import ACROSS, OCCUPIED, goes_along, most_threads
from autotune.rules.gpu.thread_loops import BANKS, ENOUGH_BLOCKS, MULTIPROCESSORS, SECTOR
from autotune.rules.knob_definer import KnobDefiner, StageKnobs
from autotune.rules.reductions.split_reductions import joined as whole_of
from autotune.rules.reductions.split_reductions import partial_results
from autotune.rules.rewrite_graph import rewrite
from autotune.rules.stage_graph import (
    extent,
    power_of_two,
    reduced_over,
    reduction_of,
    with_axes_merged,
)
from autotune.target import Target
from autotune.te.reduction import reduction

#: Steps of a thread from which on sums are split, and least steps of a thread and of a part of a
#: product when they are.
_LONG: Final = 32
_LEAST: Final = 8
_LEAST_OF_PRODUCT: Final = 128
#: Least steps of a part of a reduction of vectors, and the share of multiprocessors that is enough
#: for one without parts.
_LEAST_OF_COLUMN: Final = 128
_NEARLY: Final = 0.75
#: Largest number of parts.
_MOST: Final = 4096


def split_sums(
    cfg: KnobDefiner, outputs: Sequence[te.Tensor], made: FusionPlan
) -> tuple[list[te.Tensor], int]:
    """Return outputs that are computed from parts, and how many reductions may be split so."""
    number = 0

    def refine(tensor: te.Tensor, plain: te.Tensor) -> Sequence[te.Tensor]:
        nonlocal number
        kernels = [made.kernels[host] for host in made.hosts.get(plain, ())]
        if not plain.op.reduce_axis or not kernels or kernels[0].is_plain:
            return (tensor,)
        if kernels[0].reductions and kept_rows(kernels[0], made) is not None:
            return (tensor,)
        usual = _parts(plain, kernels[0], cfg.target, made)
        if usual == 1:
            return (tensor,)
        number += 1
        values = sorted({1, max(1, usual // 4), usual})
        parts = operator.index(StageKnobs(cfg, number).define_knob("parts", values, usual))
        if parts == 1:
            return (tensor,)
        is_product = kernels[0].product is not None
        return _split(tensor if is_product else with_axes_merged(tensor), parts, is_product)

    return list(rewrite(outputs, refine).outputs), number


def _parts(tensor: te.Tensor, kernel: FusedKernel, target: Target, made: FusionPlan) -> int:
    """Return the number of parts that occupy all multiprocessors, a power of 2."""
    steps = max(map(extent, tensor.op.reduce_axis))
    if kernel.product is not None:
        product = product_of(tensor)
        assert product is not None
        most = min(steps, product.sizes[2] // _LEAST_OF_PRODUCT, MULTIPROCESSORS)
        parts = default_parts((product.count, *product.sizes), most)
        even = math.gcd(parts, steps)  # parts without conditions
        return even if 2 * even >= parts else parts
    elements = math.prod(map(extent, tensor.op.axis))
    threads = most_threads(tensor)
    lanes = lanes_of_columns(kernel, made, target)[0]
    if lanes > 1:
        steps = max(map(extent, with_axes_merged(tensor).op.reduce_axis))
        return _parts_of_columns(elements // lanes, steps, lanes * bytes_along(tensor))
    if OCCUPIED // (elements * threads) <= 1 or steps < _LONG * threads:
        return 1
    wanted = min(OCCUPIED // (elements * ACROSS), steps // (_LEAST * ACROSS), _MOST)
    return 1 << (wanted.bit_length() - 1) if wanted > 1 else 1


def _parts_of_columns(vectors: int, steps: int, size: int) -> int:
    """Return the number of parts of a reduction of vectors, of which a block has a line of memory.

    `size`: bytes of a vector.
    Without parts, blocks may have a sector of it only, which is enough for wide results.
    """
    of_line, of_sector = BANKS // size, SECTOR // size
    if vectors >= ENOUGH_BLOCKS * of_sector * _NEARLY:
        return 1
    wanted = min(ENOUGH_BLOCKS * of_line / vectors, steps / _LEAST_OF_COLUMN, _MOST)
    return power_of_two(round(wanted)) if wanted > 1 else 1


def _split(tensor: te.Tensor, parts: int, is_product: bool) -> tuple[te.Tensor, te.Tensor]:
    """Return partial results, and their reduction."""
    body, axes = reduction_of(tensor), tensor.op.axis
    longest = max(body.axes, key=extent)
    length = extent(longest)
    if is_product:
        made = partial_results(tensor, parts, 1, is_even=length % parts == 0, along=longest)
        return made, whole_of(tensor, made)
    inner = te.reduce_axis((0, -(-length // parts)), longest.name)
    own = {a: inner if a is longest else te.reduce_axis((0, extent(a)), a.name) for a in body.axes}
    is_last = goes_along(tensor)

    def part(*index: Any) -> Any:
        *at, z = index if is_last else (*index[1:], index[0])
        step = inner.var * parts + z
        values = {axis.var: i for axis, i in zip(axes, at, strict=True)}
        values |= {a.var: copy.var for a, copy in own.items()}
        inside = step < length if length % parts else None
        return reduced_over(body, list(own.values()), {**values, longest.var: step}, inside)

    shape = (*tensor.shape, parts) if is_last else (parts, *tensor.shape)
    made = te.compute(shape, part, name=f"{tensor.name}.parts")
    z = te.reduce_axis((0, parts), "part")

    def whole(*index: Any) -> Any:
        at = (*index, z.var) if is_last else (z.var, *index)
        return reduction(body.combiner, [made[at]], z, None)[0]

    return made, te.compute(tensor.shape, whole, name=tensor.name)
