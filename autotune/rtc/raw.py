"""One configuration of a kernel as text: what is compiled, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import UsageError
from autotune.ir.expr import Const, Expr
from autotune.ir.stmt import Allocate, For, Function, Raw
from autotune.ir.visitor import walk
from autotune.rtc.functions import RTCFunction, get_function
from autotune.rtc.header import device_header
from autotune.runtime.gpu_program import GpuLaunch, GpuSource
from autotune.runtime.launch import LaunchSizes
from autotune.runtime.signature import Signature


@dataclass(frozen=True)
class RawLaunch:
    """One configuration of a kernel as text: what is compiled, and how it is launched.

    Attributes
    ----------
    name : str
        The kernel's name.
    macros : str
        Its knobs, as ``#define``s.
    text : str
        The kernel.
    sizes : LaunchSizes
    """

    name: str
    macros: str
    text: str
    sizes: LaunchSizes

    @classmethod
    def of(cls, function: Function) -> RawLaunch:
        """Return what an analysed function of a kernel as text says."""
        extents: dict[str, int] = {}
        shared = 0
        for stmt in walk(function.body):
            match stmt:
                case For(extent=extent, thread_tag=tag):
                    extents[tag] = _value(extent)
                case Allocate(buffer):
                    shared = _value(buffer.shape[0])
                case Raw() as raw:
                    break
        else:
            raise TypeError(f"{function.name} is no kernel as text")
        values = map(_value, raw.values)
        macros = "".join(f"#define {n} {v}\n" for n, v in zip(raw.defines, values, strict=True))
        grid, block = (
            [extents.get(f"{level}.{axis}", 1) for axis in "xyz"]
            for level in ("blockIdx", "threadIdx")
        )
        sizes = LaunchSizes.of(raw.name, grid, block, shared)
        return cls(raw.name, macros, raw.text, sizes)

    def compiled(self, device: int | str) -> RTCFunction:
        """Return the compiled kernel, whose launch is checked.

        Raises
        ------
        CompileError, LaunchError, TargetError
            If the compiler refuses it, or the device the launch; or either is missing.
        """
        made = get_function(self.macros, self.name, self.text, device)
        made.check(self.sizes.grid, self.sizes.block, self.sizes.shared_bytes)
        return made


def _value(expr: Expr) -> int:
    if not isinstance(expr, Const):
        raise UsageError(f"`{expr}` depends on more than knobs and the template's arguments")
    return int(expr.value)


def raw_source(function: Function) -> GpuSource:
    """Return an analysed function of a kernel as text with its launch; needs no compiler."""
    launch = RawLaunch.of(function)
    sizes = launch.sizes
    numbers = tuple(range(len(function.params)))
    return GpuSource(
        Signature.of(function),
        f"{launch.macros}\n{launch.text}",
        (GpuLaunch(launch.name, sizes.grid, sizes.block, sizes.shared_bytes, numbers),),
        header=f"{device_header()}\n",
    )
