"""What a kernel is built for: "llvm -mcpu=native", "cuda -arch=sm_90", as data.

A target is a kind and its options; nothing here loads a compiler or touches a device.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import TargetError, UsageError
from autotune.system import host

MAX_THREADS = 1024
"""Of a parallel loop: no machine has more, and systems refuse to start many thousands."""


#: Options by kind: the form of their values, and that in words. Flags stand without a value, which
#: is the empty text.
_OPTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "llvm": {
        "mcpu": (r"[A-Za-z0-9_.-]{1,64}", "native, or a name such as znver3"),
        "threads": (r"0*[1-9]\d{0,3}", f"a whole number from 1 to {MAX_THREADS}"),
        "fast-math": ("", "no value"),
    },
    "cuda": {
        "arch": (r"sm_\d+[a-z]?", "a name such as sm_90"),
        "on": ("cpu", "cpu"),
        "device": (r"\d+", "the number of a GPU, from 0 on"),
    },
}

#: Kinds of targets that are built in.
KINDS = tuple(_OPTIONS)

# What a kind of device of a user has to have: the functions of `autotune.runtime.device.Backend`.
_BACKEND = (
    "preload", "facts", "compile_binary", "build_function", "empty", "contiguous", "take_device",
)  # fmt: skip


@functools.cache
def installed_devices() -> dict[str, str]:
    """Return the places of the kinds of devices that installed packages have, by name."""
    from autotune.system.plugins import entry_points  # not needed for what is built in

    return entry_points("device")


@functools.cache
def device_of_user(kind: str) -> Any:
    """Return the kind of device that an installed package has; docs/extend.md describes it.

    Records have targets, too, and no file or module is imported because a record names it:
    therefore a name is the only way to give a device.

    Raises
    ------
    UsageError
        If there is none, it cannot be imported, or it lacks a function of a `Backend`.
    """
    from autotune.system.user_modules import load_object  # not needed for what is built in
    from autotune.system.words import did_you_mean

    known = installed_devices()
    if kind not in known:
        hint = did_you_mean(kind, [*KINDS, *known])
        raise UsageError(f"unknown target kind {kind!r}: {hint}")
    found = load_object(known[kind], f"device {kind!r}")
    for name in _BACKEND:
        if not callable(getattr(found, name, None)):
            raise UsageError(f"device {kind!r} has no function {name!r}")
    return found


def _of_user(kind: str, name: str, default: Any) -> Any:
    """Return an attribute of a user's kind of device; the default for the built-in kinds."""
    return default if kind in KINDS else getattr(device_of_user(kind), name, default)


_VECTOR_BYTES_BY_MCPU = {
    "x86-64": 16, "x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64,
    "haswell": 32, "broadwell": 32, "skylake": 32, "alderlake": 32,
    "skylake-avx512": 64, "cascadelake": 64, "icelake-client": 64, "icelake-server": 64,
    "sapphirerapids": 64, "graniterapids": 64,
    "znver1": 32, "znver2": 32, "znver3": 32, "znver4": 64, "znver5": 64,
}  # fmt: skip


@dataclass(frozen=True)
class GpuLimits:
    """Limits of a launch on a GPU.

    The defaults are those that CUDA documents for all architectures from sm_70 on (CUDA C++
    Programming Guide, "Technical Specifications per Compute Capability"); an unknown one gets the
    shared memory that every kernel may have without asking for more.

    Attributes
    ----------
    threads : int
        Most threads of a block.
    block, grid : tuple of int
        Most threads of a block, and blocks of a grid, along x, y and z.
    shared_bytes : int
        Most shared memory of a block.
    thread_registers, block_registers : int
        Most registers of 32 bits of a thread, and of the threads of a block together.
    warp : int
        Threads that run together; registers are given out to as many.
    vector_bytes : int
        Most bytes that one instruction of a thread loads or stores.
    """

    threads: int = 1024
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_bytes: int = 48 * 1024
    thread_registers: int = 255
    block_registers: int = 64 * 1024
    warp: int = 32
    vector_bytes: int = 16


#: Kibibytes of shared memory that a block may have, dynamic memory included, by architecture.
_SHARED_KIB = {
    "sm_70": 96, "sm_72": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99,
    "sm_90": 227, "sm_100": 227, "sm_101": 227, "sm_103": 227, "sm_120": 99, "sm_121": 99,
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A kind of device and the options of its code generator.

    Attributes
    ----------
    kind : str
        "llvm" (the CPU), "cuda", or a kind of device of your own; options may follow it, as in the
        text that `parse` reads.
    options : mapping of str to str
        Options given, without the leading dash. For "llvm": `mcpu` (an LLVM CPU name, default
        native), `threads` (most threads a parallel loop may use) and the flag `fast-math` (see
        `fast_math`). For "cuda": `arch` (sm_90, ...), `device` (which GPU measures, by default 0,
        of those that CUDA_VISIBLE_DEVICES leaves) and `on` ("cpu": run the kernel on the CPU with
        thread semantics kept). The value of a flag is "".

    Examples
    --------
    >>> str(Target("llvm  -threads=2 -mcpu=native"))
    'llvm -mcpu=native -threads=2'

    Raises
    ------
    TargetError
        If the kind or an option is not known, or a value is not what the option takes.
    """

    kind: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kind, options = _read(self.kind, self.options)
        object.__setattr__(self, "kind", kind)
        known = _known_options(kind)
        checked = {}
        for name, value in sorted(options.items()):
            if not isinstance(value, str):
                raise TargetError(f"target option -{name} is {value!r}: expected a text")
            if name not in known:
                forms = (f"-{n}=" if form else f"-{n}" for n, (form, _) in known.items())
                raise TargetError(
                    f"target {self.kind!r} has no option -{name}: "
                    f"expected one of {', '.join(forms)}"
                )
            form, expected = known[name]
            wrong = not re.fullmatch(form, value)
            if wrong or (name == "threads" and int(value) > MAX_THREADS):
                raise TargetError(f"target option -{name} is {value!r}: expected {expected}")
            number = kind in KINDS and name in ("threads", "device")
            checked[name] = str(int(value)) if number else value
        object.__setattr__(self, "options", checked)

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target string: a kind, then options of the form -name=value, and flags -name.

        Raises
        ------
        TargetError
            If the kind or an option is not known, or a value is not what the option takes.
        """
        return cls(text)

    @classmethod
    def of(cls, target: str | Target) -> Target:
        """Return `target` itself, or the target that a text describes.

        Raises
        ------
        TargetError
            If it is neither, or the text is not understood.
        """
        if isinstance(target, Target):
            return target
        return cls(target)

    def __str__(self) -> str:
        """Canonical text: options in alphabetical order."""
        options = (f"-{name}={value}".removesuffix("=") for name, value in self.options.items())
        return " ".join([self.kind, *options])

    def __hash__(self) -> int:
        return hash((self.kind, *self.options.items()))

    @property
    def recorded(self) -> str:
        """Its text in records: without the number of the device, which does not affect the code."""
        options = {name: value for name, value in self.options.items() if name != "device"}
        return str(Target(self.kind, options))

    @property
    def device(self) -> int:
        """Number of the GPU that measures, among the GPUs that this process may use."""
        return int(self.options.get("device", "0"))

    @property
    def mcpu(self) -> str:
        """LLVM CPU name, or "native" for the machine that runs this."""
        return self.options.get("mcpu", "native")

    @property
    def threads(self) -> int | None:
        """Most threads a parallel loop may use, None for as many as the process has."""
        return int(self.options["threads"]) if "threads" in self.options else None

    @property
    def fast_math(self) -> bool:
        """Whether float arithmetic of kernels may be rearranged for speed.

        Sums and products may then be taken in any order, a division may become a multiplication by
        the reciprocal, and the sign of a zero may be lost: results differ by rounding errors. NaNs
        and infinities keep their meaning, and functions such as exp their accuracy. Otherwise
        nothing but a multiplication and the addition of its result are taken together.
        """
        return "fast-math" in self.options

    @property
    def gpu(self) -> GpuLimits | None:
        """Limits of a launch; None for a target without GPU threads."""
        if self.kind != "cuda":
            limits: GpuLimits | None = _of_user(self.kind, "gpu", None)
            return limits
        arch = self.options.get("arch", "").rstrip(string.ascii_lowercase)
        if arch not in _SHARED_KIB:
            return GpuLimits()
        return GpuLimits(shared_bytes=_SHARED_KIB[arch] * 1024)

    @property
    def memory_bytes(self) -> int:
        """Memory that a call may take for its temporaries on a CPU: all of this machine's."""
        return host.memory_bytes()

    @property
    def on_cpu(self) -> bool:
        """Whether this machine's processor runs the built code, with GPU threads as loops."""
        is_own: bool = _of_user(self.kind, "on_cpu", False)
        return self.kind == "llvm" or (self.kind == "cuda" and "on" in self.options) or is_own

    @property
    def host(self) -> Target:
        """Target of the processor that runs or serves this one: itself, or plain llvm."""
        return self if self.kind == "llvm" else Target("llvm")

    @property
    def max_num_threads(self) -> int:
        """Most threads of one block (GPU); 1 where there are no blocks."""
        return 1 if self.gpu is None else self.gpu.threads

    @property
    def vector_bytes(self) -> int:
        """Width of a vector register in bytes: 64 with AVX-512F, 32 with AVX2, else 16."""
        if self.kind != "llvm":
            own: int = _of_user(self.kind, "vector_bytes", 16)
            return own
        if self.mcpu == "native":
            return host.vector_bytes()
        return _VECTOR_BYTES_BY_MCPU.get(self.mcpu, 16)


def _known_options(kind: str) -> Mapping[str, tuple[str, str]]:
    """Return the options of a kind of target; TargetError if there is no such kind."""
    if kind in _OPTIONS:
        return _OPTIONS[kind]
    try:
        own: Mapping[str, tuple[str, str]] = _of_user(kind, "options", {})
    except UsageError as error:
        raise TargetError(str(error)) from error
    return own


def _read(text: Any, given: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the kind at the beginning of a target's text, and its options with the given ones."""
    if not isinstance(text, str):
        raise TargetError(f"target must be a text such as 'llvm', or a Target, got {text!r}")
    kind, *words = text.split() or [""]
    options = dict(given)
    for word in words:
        name, equals, value = word.removeprefix("-").partition("=")
        flag = _known_options(kind).get(name, ("?", ""))[0] == ""
        if not word.startswith("-") or not (value or (flag and not equals)):
            raise TargetError(f"cannot read {word!r} in target {text!r}: expected -name=value")
        if name in options:
            raise TargetError(f"target {text!r} gives the option -{name} twice")
        options[name] = value
    return kind, options
