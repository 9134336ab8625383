"""Machines that can be pretended, and how a process comes to see one; see `__main__.py`.

Only the standard library is imported here: every process of a pretended machine loads this.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import ModuleType
from typing import Any

VARIABLE = "PRETENDED_MACHINE"
"""Names the machine to all processes that are started on it."""

HOME = "{home}"
"""Stands in a variable for a folder of its own that is there."""

_AVX512 = ("avx512", "avx10", "amx", "X86_V4", "AVX512")
_AVX = ("avx", "fma", "f16c", "bmi", "vaes", "vpclmul", "gfni", "xop", "X86_V3", "AVX", "FMA")


@dataclass(frozen=True)
class Machine:
    """What is pretended; all else is as it is.

    Attributes
    ----------
    about : str
    processor : str, optional
        Name of the processor; "" where Linux tells none.
    arm : bool
        Linux tells implementer and part of the processor, and no family and model.
    max_mhz : int, optional
        Highest clock that Linux tells.
    lacks : tuple of str
        The processor has no features whose names begin so, neither Linux's names nor NumPy's.
    llvm : str, optional
        What LLVM takes the processor for.
    cores : int, optional
        CPUs that a process may use. Fewer than there are: all processes are kept on so many. More:
        the program is told so, and its parallel loops get 8 threads at most.
    quota : int, optional
        CPUs' worth of time that a control group grants.
    cache_bytes : int, optional
        Size of the largest cache.
    variables : mapping of str to str or None
        Of the environment; None are not set.
    umask : int, optional
    """

    about: str
    processor: str | None = None
    arm: bool = False
    max_mhz: int | None = None
    lacks: tuple[str, ...] = ()
    llvm: str | None = None
    cores: int | None = None
    quota: int | None = None
    cache_bytes: int | None = None
    variables: Mapping[str, str | None] = field(default_factory=dict)
    umask: int | None = None


MACHINES = {
    "short-name": Machine(
        "a processor with a name of 5 characters, and a known clock",
        processor="i9-9K",
        max_mhz=5300,
    ),
    "long-name": Machine(
        "a processor with a name of 80 characters",
        processor="Intel(R) Xeon(R) Platinum 8592+ CPU @ 1.90GHz,"
        " the second of the 2 in the server",
    ),
    "one-word": Machine(
        "a processor with a name of 80 characters without a space",
        processor="EPYC-9684X-" * 7 + "END",
    ),
    "brackets": Machine(
        "a processor with a name in which brackets, percent signs and escapes mean nothing",
        processor=r"[bold]X[/bold] (R) Xeon[R] {cpu} %s$a_{$ <b>&amp; \1 'q' \"",
    ),
    "no-name": Machine("a processor without a name, as on ARM", processor="", arm=True),
    "foreign-name": Machine(
        "a processor with a name beyond ASCII", processor="龙芯 3A6000™ - Größe 4"
    ),
    "avx2": Machine(
        "a processor with AVX2, and without AVX-512",
        processor="AMD Ryzen 7 5800X 8-Core Processor",
        lacks=_AVX512,
        llvm="znver3",
        variables={"OPENBLAS_CORETYPE": "Haswell"},
    ),
    "sse4": Machine(
        "a processor with SSE4.2, and without AVX",
        processor="Intel(R) Celeron(R) N4020 CPU @ 1.10GHz",
        lacks=(*_AVX512, *_AVX),
        llvm="nehalem",
        variables={"OPENBLAS_CORETYPE": "Nehalem"},
    ),
    "one-core": Machine("one CPU", cores=1),
    "64-cores": Machine("64 CPUs, and a cache of 320 MiB", cores=64, cache_bytes=320 << 20),
    "container": Machine(
        "64 CPUs, of which a control group grants the time of 3", cores=64, quota=3
    ),
    "elsewhere": Machine(
        "another home, temporary folder, time zone, terminal and file mode",
        variables={
            "HOME": f"{HOME}/ä home of [one's] own",
            "TMPDIR": f"{HOME}/ä home of [one's] own/tmp",
            "XDG_CACHE_HOME": f"{HOME}/kept",
            "TZ": "Pacific/Chatham",
            "LANG": None,
            "LC_ALL": "C",
            "TERM": "dumb",
            "COLUMNS": "37",
            "LINES": "7",
            "NO_COLOR": "1",
        },
        umask=0o077,
    ),
    "service": Machine(
        "no home, no time zone, no terminal: as for a system's service",
        variables={
            "HOME": "/dev/null",
            "USER": None,
            "LOGNAME": None,
            "SHELL": None,
            "LANG": None,
            "LC_ALL": None,
            "TERM": None,
            "TZ": "UTC",
            "XDG_CACHE_HOME": None,
            "XDG_CONFIG_HOME": None,
        },
    ),
}


def machine_named(names: str) -> Machine:
    """Return a machine; of several names, joined by "+", one with what is pretended by each.

    Raises
    ------
    KeyError
        If there is none of such a name.
    """
    machines = [MACHINES[name] for name in names.split("+")]
    found = machines[0]
    for other in machines[1:]:
        facts = {fact.name: getattr(other, fact.name) for fact in fields(Machine)}
        changed = {name: fact for name, fact in facts.items() if fact not in (None, (), {}, False)}
        changed["variables"] = {**found.variables, **other.variables}
        found = replace(found, **changed)
    return replace(found, about="; ".join(machine.about for machine in machines))


def pretend(name: str) -> None:
    """Let this process see a machine: each module that asks for a fact of it is told another."""
    machine = machine_named(name)
    sys.meta_path.insert(
        0,
        _Patches(
            {
                "autotune.system.host": lambda module: _processor(machine, module),
                "autotune.system.available_cpus": lambda module: _share(machine, module),
                "llvmlite.binding": lambda module: _llvm(machine, module),
            }
        ),
    )


def _processor(machine: Machine, module: Any) -> None:
    fields = module.cpuinfo()
    if machine.processor is not None:
        fields["model name"] = machine.processor
    if machine.arm:
        fields = {key: fields[key] for key in fields.keys() - {"cpu family", "model"}}
        fields |= {"CPU implementer": "0x41", "CPU part": "0xd0c"}
    flags = fields.get("flags", "").split()
    fields["flags"] = " ".join(flag for flag in flags if not flag.startswith(machine.lacks))
    _tell(module, "cpuinfo", fields)
    _tell(module, "cache_bytes", machine.cache_bytes)
    _tell(module, "max_mhz", machine.max_mhz)


def _share(machine: Machine, module: Any) -> None:
    _tell(module, "available_cpus", machine.cores)
    _tell(module, "quota_cpus", machine.quota)


def _llvm(machine: Machine, module: Any) -> None:
    _tell(module, "get_host_cpu_name", machine.llvm)


def _tell(module: Any, function: str, fact: object) -> None:
    """Let a function of a module return a fact, if there is one; not where it is told the place."""
    there = getattr(module, function)
    if fact is not None:
        setattr(module, function, lambda *place: there(*place) if place else fact)


class _Patches(importlib.abc.MetaPathFinder):
    """Changes modules as soon as they are loaded."""

    def __init__(self, changes: Mapping[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._changes:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load, change = spec.loader.exec_module, self._changes[name]

        def changed(module: ModuleType) -> None:
            load(module)
            change(module)

        spec.loader.exec_module = changed  # type: ignore[method-assign]
        return spec
