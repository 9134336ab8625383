"""Scans on GPUs as text, for what schedules cannot express, such as waits between blocks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.rtc.raw_kernel import KernelLaunch, RawKernel
from autotune.rules.gpu.thread_loops import WARP, lane_counts
from autotune.template import Knobs

MANY_ROWS = 1024
"""Number of rows from which on each row has its own threads by default: enough blocks for a GPU."""

PAUSES = [0, 64, 256]
"""Nanoseconds that a block waits before it reads a missing state again."""

WINDOW = 4
"""Number of earlier tiles whose states a thread reads at a time, down columns."""

_CLEARING = 256
_HEAD = 16
"""Words before those of the tiles, as in the text."""

_REGISTER = 4
"""Bytes of a register; and of a state that one word tells."""

_OTHER_REGISTERS = {1: 32, 2: 64, 4: 116}
"""Registers of a thread for other values than its elements, by the registers of a state.

Of 360 texts compiled for sm_90, those with fewer spilled up to 1,436 bytes, others 16 at most.
"""

_STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare."""


def along_rows(cfg: Knobs, X: Any, Y: Any) -> RawKernel:
    """Return sums along the rows of X [m, n]; the knobs are those of `cumsum`."""
    m, n = X.shape
    widths = lane_counts(cfg.target, X.dtype)[::-1]
    first, *others = ["alone", "look-back", "phases"] if m >= MANY_ROWS else ["look-back", "alone",
                                                                              "phases"]  # fmt: skip
    how = cfg.define_knob("how", [first, *others])
    threads = cfg.define_knob("threads", [256, 32, 64, 128, 512, 1024])
    vectors = cfg.define_knob("vectors", [4, 1, 2, 8])
    lanes = cfg.define_knob("lanes", widths)
    tiles = te.ceildiv(
        n if m == 1 or n % widths[0] == 0 else n + lanes - 1, threads * vectors * lanes
    )
    words = dtypes.itemsize(X.dtype) // _REGISTER
    held = (lanes * (2 if how == "alone" else 1) + 1) * vectors * words
    defines = {"TYPE": X.dtype, "ROWS": m, "COUNT": n, "LANES": lanes, "VECTORS": vectors,
               "THREADS": threads}  # fmt: skip
    if how == "alone":
        together = cfg.define_knob("together", [1, 2, 4, 8])
        _fit(cfg, held, threads * together)
        return RawKernel(
            "scan_rows",
            _text("rows.cuh", "rows_alone.cu"),
            [X],
            [Y],
            grid=te.ceildiv(m, together),
            block=(threads, together),
            defines={**defines, "TOGETHER": together},
            reduction_length=n,
        )
    _fit(cfg, held, threads)
    defines["TILES"] = tiles
    if how == "phases":
        sums = te.placeholder((m * tiles,), X.dtype, name="sums")
        return RawKernel(
            "scan_tiles",
            _text("rows.cuh", "rows_phases.cu"),
            [X],
            [Y],
            grid=m * tiles,
            block=threads,
            defines=defines,
            reduction_length=n,
            workspace=[sums],
            before=[
                KernelLaunch("tile_sums", m * tiles, threads),
                KernelLaunch("scan_sums", m, threads),
            ],
        )
    defines["PAUSE"] = cfg.define_knob("pause", PAUSES)
    return _looking_back(
        _text("look_back.cuh", "rows.cuh", "rows_look_back.cu"), [X], Y, m * tiles, threads,
        defines, m * tiles * words, n,
    )  # fmt: skip


def down_columns(cfg: Knobs, inputs: list[Any], Y: Any, lanes: Any, threads: Any) -> RawKernel:
    """Return a recurrence down the columns of X [m, n], of which `inputs` may have weights before.

    The knobs are those of `cumsum`.
    """
    m, n = Y.shape
    weighted = len(inputs) - 1
    words = dtypes.itemsize(Y.dtype) // _REGISTER * (1 + weighted)
    length = cfg.define_knob("length", [16, 8, 32, 64])
    groups = cfg.define_knob("groups", [4, 1, 2, 8, 16], 16 if n <= WARP else 4)
    pause = cfg.define_knob("pause", PAUSES)
    _fit(cfg, length * lanes * words, threads * groups, words)
    cfg.add_constraint(
        groups * lanes * (threads + WARP // lanes) * words * _REGISTER <= _STATIC_SHARED - 16,
        f"what groups of rows tell each other takes at most {_STATIC_SHARED} bytes",
    )
    strips, tiles = te.ceildiv(n, threads * lanes), te.ceildiv(m, groups * length)
    defines = {"TYPE": Y.dtype, "STEPS": m, "COLUMNS": n, "LANES": lanes, "THREADS": threads,
               "GROUPS": groups, "LENGTH": length, "WINDOW": WINDOW, "PAUSE": pause}  # fmt: skip
    return _looking_back(
        _text("look_back.cuh", "columns_look_back.cu"), inputs, Y, strips * tiles,
        (threads, groups), defines, n * tiles * words, m,
    )  # fmt: skip


def _looking_back(
    text: str,
    inputs: list[Any],
    Y: Any,
    grid: Any,
    block: Any,
    defines: Mapping[str, Any],
    told: Any,
    terms: int,
) -> RawKernel:
    """Return a scan in one launch whose tiles exchange states in words that are cleared before."""
    words = _HEAD + told
    return RawKernel(
        "scan_look_back",
        text,
        inputs,
        [Y],
        grid=grid,
        block=block,
        defines={"CLEARING": _CLEARING, "WORDS": words, "WEIGHTED": len(inputs) - 1, **defines},
        reduction_length=terms,
        workspace=[te.placeholder((words,), "uint64", name="told")],
        before=[KernelLaunch("clear", te.ceildiv(words, _CLEARING), _CLEARING)],
    )


def _fit(cfg: Knobs, held: Any, threads: Any, words: int = 1) -> None:
    """Limit the registers of a thread so that the block's threads fit.

    A state that blocks of columns exchange takes `words` registers.
    """
    gpu = cfg.target.gpu
    assert gpu is not None
    registers = held + _OTHER_REGISTERS[words]
    most = gpu.thread_registers
    cfg.add_constraint(registers <= most, f"a thread has at most {most} registers, by estimate")
    most = gpu.block_registers
    cfg.add_constraint(
        registers * threads <= most, f"a block has at most {most} registers, by estimate"
    )


def _text(*names: str) -> str:
    folder = files("autotune.operators.cuda").joinpath("device")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
