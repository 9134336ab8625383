"""Reads kernels for GPUs off their machine code: no GPU is needed.

    python benchmarks/gpu_static.py [--json [FILE]] [--save] [--only NAME] [--nvdisasm PATH]

For each operator at even and odd sizes the default configuration is compiled for sm_90. NVRTC says
registers and spills; nvdisasm (``pip install nvidia-cuda-nvdisasm``) lists the instructions, from
which the widths of loads and stores are counted, and where the first load stands in the inner loop.
Bank conflicts come from the addresses of the threads of a warp (`warp_addresses.py`).
"""

from __future__ import annotations

import collections
import math
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from common import Row, parser, report, row
from warp_addresses import worst_conflict

from autotune.codegen.cuda.cuda_source import CUDAKernel, emit
from autotune.errors import AutotuneError
from autotune.ir.expr import Const
from autotune.ir.stmt import For, LoopKind, Stmt
from autotune.ir.visitor import child_stmts, is_raw
from autotune.runtime.cuda.nvrtc import Usage, compile_cubin
from autotune.task.task import Task

ARCH: Final = "sm_90"
MULTIPROCESSORS: Final = 132
_WARP: Final = 32
#: Elements of 4 bytes of the widest access, and the share of multiprocessors that is enough.
_WIDEST, _ENOUGH = 4, 0.95
_THREADS, _BLOCKS, _REGISTERS, _SHARED = 2048, 32, 64 * 1024, 227 * 1024

#: Sizes of each operator: two even ones and an odd one.
CASES: Final[dict[str, list[dict[str, int | str]]]] = {
    "matmul": [{"m": n, "n": n, "k": n} for n in (1024, 1000, 1023)],
    "batch_matmul": [{"b": 12, "m": n, "n": n, "k": 64} for n in (512, 500, 511)],
    "dense": [{"m": 256, "n": n, "k": n} for n in (1024, 1000, 1023)],
    "conv2d_nchw": [
        {"n": 1, "c": 64, "h": n, "w": n, "o": 64, "kh": 3, "kw": 3, "pad": 1} for n in (56, 28, 57)
    ],
    "conv2d_nhwc": [
        {"n": 1, "c": 64, "h": n, "w": n, "o": 64, "kh": 3, "kw": 3, "pad": 1} for n in (56, 28, 57)
    ],
    "pool2d": [{"n": 1, "c": 64, "h": n, "w": n, "kernel": 2, "stride": 2} for n in (112, 56, 113)],
    "softmax": [{"m": 4096, "n": n} for n in (1024, 1000, 1023)],
    "layer_norm": [{"m": 4096, "n": n} for n in (1024, 768, 1023)],
    "rms_norm": [{"m": 4096, "n": n} for n in (1024, 4096, 1023)],
    "reduce": [
        *({"m": 4096, "n": n} for n in (1024, 1000, 1023)),
        *({"m": m, "n": n, "axis": 0} for m, n in ((4096, 4096), (1 << 23, 8), (4097, 4097))),
    ],
    "transpose": [{"m": m, "n": n} for m, n in ((4096, 4096), (16, 8388608), (4097, 4097))],
    "bias_gelu": [{"m": 4096, "n": n} for n in (4096, 1000, 4097)],
    "broadcast_add": [{"n": n} for n in (4096, 1024, 4097)],
    "cumsum": [
        {"m": m, "n": n, "axis": axis}
        for axis in (0, 1)
        for m, n in ((4096, 4096), (1024, 1000), (4097, 4097))
    ],
    "linear_recurrence": [{"m": m, "n": n} for m, n in ((4096, 4096), (1024, 1000), (4097, 4097))],
    "rnn_cell": [{"steps": 64, "batch": 32, "units": n} for n in (256, 128, 127)],
    "lstm_cell": [{"steps": 64, "batch": 32, "units": n} for n in (256, 128, 127)],
    "attention": [{"b": 1, "heads": 8, "s": n, "d": 64} for n in (512, 256, 255)],
}


#: Operators that move single elements if their rows are of odd length (decision 143): down columns
#: and in tiles a thread meets rows that begin elsewhere in a vector.
NARROW_IF_ODD: Final = {
    "matmul", "dense", "pool2d", "transpose", "linear_recurrence", "rnn_cell", "lstm_cell"
}  # fmt: skip
#: Operators whose longest row of steps is divided among threads.
SERIAL_STEPS: Final = {"reduce", "cumsum", "linear_recurrence"}


@dataclass
class KernelFacts:
    """What is known of one kernel.

    Attributes
    ----------
    kernel : str
        Its name.
    registers, spilled_bytes, shared_bytes : int
        Of a thread, of a thread, and of a block.
    loads, stores : dict of int to int
        Instructions for global memory by the bits that a thread moves.
    prefetch : float or None
        Where the first global load of the inner loop stands, as a share of the loop's instructions;
        None if the loop loads nothing from global memory or there is no loop.
    barriers : int
        Of the inner loop.
    conflict : float
        Most accesses to shared memory in place of one, of all instructions.
    blocks, per_multiprocessor : int
        Of the grid, and side by side on a multiprocessor.
    waves : float
        Blocks over multiprocessors.
    threads : int
        Of a block.
    steps : int
        Iterations of serial loops that a thread runs one after the other, the most on any path.
    instructions : int
        Of its machine code.
    """

    kernel: str
    registers: int
    spilled_bytes: int
    shared_bytes: int
    blocks: int
    per_multiprocessor: int
    waves: float
    conflict: float
    threads: int
    steps: int
    loads: dict[int, int] = field(default_factory=dict)
    stores: dict[int, int] = field(default_factory=dict)
    prefetch: float | None = None
    barriers: int = 0
    instructions: int = 0

    @property
    def is_narrow(self) -> bool:
        """Whether it loads fewer than 16 bytes at a time, though fewer threads would be enough."""
        enough = _WARP * _WIDEST * _ENOUGH * MULTIPROCESSORS
        return bool(self.loads) and 128 not in self.loads and self.threads * self.blocks >= enough

    @property
    def is_crowded(self) -> bool:
        """Whether its threads are in few blocks, though there is a warp for each multiprocessor."""
        few = self.waves < _ENOUGH
        return few and self.threads * self.blocks >= _WARP * _ENOUGH * MULTIPROCESSORS


def facts_of(name: str, args: dict[str, Any], nvdisasm: str | None) -> list[KernelFacts]:
    """Return the facts of the kernels of an operator's default configuration."""
    task = Task.from_reference(name, args, f"cuda -arch={ARCH}")
    function = task.final(task.default_index)
    if is_raw(function):
        return []
    source = emit(function)
    cubin = compile_cubin(source.text, ARCH)
    listings = _listings(cubin.code, nvdisasm) if nvdisasm else {}
    return [
        _facts(own, cubin.kernels[own.entry], listings.get(own.entry, [])) for own in source.kernels
    ]


def _facts(own: CUDAKernel, usage: Usage, listing: list[tuple[int, str, str]]) -> KernelFacts:
    grid, block = (
        math.prod(int(e.value) if isinstance(e, Const) else 1 for e in extents)
        for extents in (own.kernel.grid, own.kernel.block)
    )
    shared = usage.shared_bytes + own.dynamic_shared_bytes
    warps = -(-block // 32)
    of_warp = -(-usage.registers * 32 // 256) * 256
    together = min(
        _THREADS // block, _BLOCKS, _REGISTERS // of_warp // warps, _SHARED // (shared + 1024)
    )
    found = KernelFacts(
        own.kernel.function.name, usage.registers, usage.stack_bytes, shared, grid, together,
        round(grid / MULTIPROCESSORS, 2), round(worst_conflict(own.kernel), 2), block,
        serial_steps(own.kernel.function.body),
    )  # fmt: skip
    found.instructions = len(listing)
    found.loads = _widths(listing, "LDG")
    found.stores = _widths(listing, "STG")
    loop = _inner_loop(listing)
    loads = [place for place, (_, op, _) in enumerate(loop) if op.startswith(("LDG", "LDGSTS"))]
    found.prefetch = round(loads[0] / len(loop), 3) if loads else None
    found.barriers = sum(op.startswith("BAR") for _, op, _ in loop)
    return found


def serial_steps(stmt: Stmt) -> int:
    """Return how many iterations of serial loops a thread runs, on the longest path."""
    inside = max(map(serial_steps, child_stmts(stmt)), default=1)
    if isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and isinstance(stmt.extent, Const):
        return inside * max(1, int(stmt.extent.value))
    return inside


# -- machine code ------------------------------------------------------------------------------


def _listings(code: bytes, nvdisasm: str) -> dict[str, list[tuple[int, str, str]]]:
    """Return address, operation and operands of each instruction, by kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        text = subprocess.run(
            [nvdisasm, "-c", file.name], capture_output=True, text=True, check=True
        ).stdout
    found: dict[str, list[tuple[int, str, str]]] = collections.defaultdict(list)
    labels: dict[str, int] = {}
    name, waiting = "", list[str]()
    for line in text.splitlines():
        if match := re.match(r"\.text\.(\w+):", line):
            name = match[1]
        elif match := re.match(r"(\.L_\w+):", line):
            waiting.append(match[1])
        elif match := re.match(r"\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][\w.]*)(.*)", line):
            address = int(match[1], 16)
            labels.update(dict.fromkeys(waiting, address))
            waiting.clear()
            found[name].append((address, match[2], match[3]))
    return {
        kernel: [
            (address, op, re.sub(r"\.L_\w+", lambda m: hex(labels.get(m[0], 1 << 40)), operands))
            for address, op, operands in listing
        ]
        for kernel, listing in found.items()
    }


def _widths(listing: list[tuple[int, str, str]], what: str) -> dict[int, int]:
    """Return the number of instructions by bits."""
    counts: collections.Counter[int] = collections.Counter()
    for _, op, _ in listing:
        if op.split(".")[0] in (what, f"{what}STS"):
            bits = re.search(r"\.(?:U|S)?(8|16|64|128)\b", op)
            counts[int(bits[1]) if bits else 32] += 1
    return dict(sorted(counts.items(), reverse=True))


def _inner_loop(listing: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Return the longest loop that has no loop inside."""
    spans = []
    for address, op, operands in listing:
        target = re.search(r"0x([0-9a-f]+)", operands) if op.startswith("BRA") else None
        if target and int(target[1], 16) < address:
            spans.append((int(target[1], 16), address))
    inner = [
        (a, b) for a, b in spans
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)
    ]  # fmt: skip
    loops = [[i for i in listing if a <= i[0] <= b] for a, b in inner]
    return max(loops, key=len, default=[])


# -- the report --------------------------------------------------------------------------------


def rows_of(name: str, args: dict[str, Any], facts: list[KernelFacts]) -> list[Row]:
    """Return the figures of a case that have aims."""
    case = f"gpu_static.{name}.{'x'.join(str(v) for v in args.values())}"
    found = [row(f"{case}.spilled_bytes", max(f.spilled_bytes for f in facts), "B", 0, True)]
    found.append(row(f"{case}.conflict", max(f.conflict for f in facts), "ratio", 1, True))
    largest = max(facts, key=lambda f: f.blocks * f.per_multiprocessor)
    # A step of a recurrent cell needs all units of its row of the batch from the step before, and
    # blocks cannot wait for one another: there is work for a block per row and no more.
    most = min(1, args.get("batch", MULTIPROCESSORS) / MULTIPROCESSORS)
    found.append(row(f"{case}.waves", largest.waves, "waves", round(0.95 * most, 2)))
    if any(f.loads for f in facts):
        widest = sum(f.loads.get(128, 0) > 0 for f in facts if f.loads)
        found.append(row(f"{case}.kernels_with_wide_loads", widest, "kernels"))
        narrow = sum(f.is_narrow for f in facts)
        aim = None if _may_be_narrow(name, args) else 0
        found.append(row(f"{case}.narrow_kernels", narrow, "kernels", aim, True))
    if most == 1:
        crowded = sum(f.is_crowded for f in facts)
        found.append(row(f"{case}.crowded_kernels", crowded, "kernels", 0, True))
    if name in SERIAL_STEPS:
        found.append(row(f"{case}.steps", max(f.steps for f in facts), "steps", 512, True))
    placed = [f.prefetch for f in facts if f.prefetch is not None]
    if placed:
        found.append(row(f"{case}.prefetch", max(placed), "share", 0.1, True))
    return found


def _may_be_narrow(name: str, args: dict[str, Any]) -> bool:
    """Whether rows of a case are not whole numbers of vectors, and its kernels go down them."""
    is_odd = any(isinstance(n, int) and n > _WARP and n % _WIDEST for n in args.values())
    return is_odd and (name in NARROW_IF_ODD or args.get("axis") == 0)


def _nvdisasm() -> str | None:
    """Return the path of NVIDIA's disassembler; its wheel puts it where no PATH leads."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility as find
    except ImportError:
        return shutil.which("nvdisasm")
    return shutil.which("nvdisasm") or find("nvdisasm")


def main() -> None:
    """Compile every case and report."""
    options = parser(__doc__ or "")
    options.add_argument("--only", choices=CASES, metavar="NAME", help="one operator")
    options.add_argument("--nvdisasm", default=_nvdisasm(), metavar="PATH")
    args = options.parse_args()
    if args.save and args.only is not None:
        options.error("--save is for all operators: leave --only out")
    if args.nvdisasm is not None and shutil.which(args.nvdisasm) is None:
        options.error(f"--nvdisasm {args.nvdisasm}: there is no such program")
    if args.nvdisasm is None:
        missing = "widths and prefetch need nvdisasm: pip install nvidia-cuda-nvdisasm"
        if args.save:
            options.error(f"--save is for all figures: {missing}")
        print(missing, file=sys.stderr)
    table = sys.stderr if args.json == "-" else sys.stdout
    rows: list[Row] = []
    kernels: list[dict[str, Any]] = []
    columns = (
        "regs spill shared blocks threads per_sm waves conflict loads stores prefetch barriers "
        "steps instructions"
    )
    print(f"{'':44} {columns}", file=table)
    for name, cases in CASES.items():
        for case in cases if args.only in (None, name) else ():
            title = f"{name} {','.join(f'{k}={v}' for k, v in case.items())}"
            try:
                facts = facts_of(name, case, args.nvdisasm)
            except AutotuneError as error:
                print(f"{title}: {str(error).splitlines()[0]}", file=table)
                rows.append(row(f"gpu_static.{name}.built", 0, "kernels", 1))
                continue
            for own in facts:
                loads, stores = (
                    "+".join(f"{n}x{bits}" for bits, n in widths.items()) or "-"
                    for widths in (own.loads, own.stores)
                )
                print(
                    f"{title[:30]:30} {own.kernel[:13]:13} {own.registers} {own.spilled_bytes} "
                    f"{own.shared_bytes} {own.blocks} {own.threads} {own.per_multiprocessor} "
                    f"{own.waves} {own.conflict} {loads} {stores} {own.prefetch} {own.barriers} "
                    f"{own.steps} {own.instructions}",
                    file=table,
                    flush=True,
                )
                kernels.append({"operator": name, "arguments": case, **asdict(own)})
            rows += rows_of(name, case, facts) if facts else []
    missed = [r for r in rows if r.met is False]
    print(f"{sum(r.met is True for r in rows)} aims met, {len(missed)} missed", file=table)
    more = {"arch": ARCH, "kernels": kernels}
    report("gpu_static", rows, args.json, args.save, more=more, printed=missed)


if __name__ == "__main__":
    main()
