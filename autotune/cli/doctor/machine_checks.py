"""Checks of `autotune doctor`: the machine, its folders, the user's settings, a measurement."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import tempfile
import time
from typing import Any

from autotune.cli.doctor.finding import Check, Finding
from autotune.cli.options.config_file import config_file, load_defaults
from autotune.errors import AutotuneError
from autotune.report.units import Work, size_text, time_text
from autotune.runtime import environment
from autotune.runtime.object_cache import object_folder, use_of
from autotune.system.available_cpus import quota_cpus
from autotune.system.environment_variables import CACHE_VARIABLE, VARIABLES, changed_environment
from autotune.system.host import available_memory
from autotune.system.version import __version__
from autotune.system.words import closest, counted
from autotune.target import Target

MIN_MEMORY = 512 * 2**20  # Bytes below which runs are expected to fail.


def processor() -> Check:
    """Report its name, the width of its vectors, and the threads that parallel loops use."""
    facts = {**environment.device(Target.parse("llvm")), "quota_cpus": quota_cpus()}
    quota = "no quota" if facts["quota_cpus"] is None else f"a quota of {facts['quota_cpus']}"
    threads, cores = facts["threads"], facts["cores"]
    text = (
        f"{facts['name']}, {8 * facts['vector_bytes']}-bit vectors; "
        f"{counted(threads, 'thread')} ({counted(cores, 'CPU')} may be used, {quota})"
    )
    return Check("processor", text, facts)


def memory() -> Check:
    """Report the free main memory, with the limits of control groups."""
    free = available_memory()
    if free is None:
        return Check("memory", "it is not known how much is free")
    findings = []
    if free < MIN_MEMORY:
        findings.append(
            Finding(
                f"only {size_text(free)} of memory are free: measuring will fail",
                "end other programs, or raise the memory limit of the container",
            )
        )
    return Check("memory", f"{size_text(free)} free", {"free_bytes": free}, tuple(findings))


def folders() -> Check:
    """Report where compiled code is cached, and its size; find a folder that cannot be written."""
    folder, findings = object_folder(), []
    entries = size = 0
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(4096))
        use = use_of(folder)
        entries, size = use.entries, use.bytes
    except OSError as error:
        findings.append(
            Finding(
                f"the cache folder {folder} cannot be written ({error.strerror}): every process "
                "compiles anew",
                f"make it writable, or name another by {CACHE_VARIABLE}",
            )
        )
    text = f"{folder}: {entries} objects, {size_text(size)}"
    facts = {"folder": str(folder), "entries": entries, "bytes": size}
    return Check("cache", text, facts, tuple(findings))


def settings(command: Any) -> Check:
    """Read the user's config.toml, and find environment variables that are unknown or wrong."""
    path, findings = config_file(), []
    defaults = {}
    try:
        defaults = load_defaults(command)
    except AutotuneError as error:
        findings.append(Finding(str(error), "mend the file, or delete it"))
    for name in sorted(name for name in os.environ if name.startswith("AUTOTUNE_")):
        if name not in VARIABLES:
            meant = closest(name, VARIABLES) or ", ".join(VARIABLES)
            findings.append(Finding(f"the variable {name} means nothing", f"set {meant}", False))
    with contextlib.suppress(ImportError):  # it needs islpy, which may be missing
        from autotune.tile.binding.size_limits import operation_limit

        try:
            operation_limit()
        except AutotuneError as error:
            findings.append(Finding(str(error), "set it to such a number, or unset it"))
    text = f"{path}: {', '.join(f'[{name}]' for name in defaults) or 'no defaults'}"
    facts = {"file": str(path), "exists": path.exists(), "defaults": defaults}
    return Check("config", text, facts, tuple(findings))


def self_test(size: int = 128) -> Check:
    """Build, run and check a small matrix product, as a run does with every candidate."""
    # These load NumPy, which may be missing.
    from autotune.measure.local_measurer import LocalMeasurer
    from autotune.measure.result import MeasureInput
    from autotune.task.task import Task

    begin = time.monotonic()
    args = {"m": size, "n": size, "k": size}
    remedy = "mend what is said above; `autotune -v doctor` tells more"
    try:
        with (  # its processes compile for themselves
            tempfile.TemporaryDirectory(prefix="autotune-doctor-") as folder,
            changed_environment({CACHE_VARIABLE: folder}),
            LocalMeasurer("matmul", args, "llvm") as measurer,
        ):
            measurer.start()
            task = Task.from_reference("matmul", args, "llvm")
            config = task.space.config(task.default_index)
            ((_, result),) = measurer.measure([MeasureInput(config)])
            work = Work.of(task)
    except (AutotuneError, OSError) as error:
        finding = Finding(f"the self-test failed: {error}", remedy)
        return Check("self-test", "failed", {"works": False}, (finding,))
    if result.error is not None:
        error_text = f"{result.error.stage}: {result.error.message}"
        finding = Finding(f"the self-test failed, {error_text}", remedy)
        facts = {"works": False, "error": result.error.to_json()}
        return Check("self-test", "failed", facts, (finding,))
    assert result.cost_s is not None  # it has times where it has no error
    seconds = time.monotonic() - begin
    text = (
        f"matmul of {size} built, ran and was right: {time_text(result.cost_s)}, "
        f"{work.speed_text(result.cost_s)}; it took {seconds:.1f} s"
    )
    return Check("self-test", text, {"works": True, "cost_s": result.cost_s, "seconds": seconds})


def program() -> Check:
    """Report the version and the environment."""
    facts = {"version": __version__, "platform": platform.platform(), "python": sys.executable}
    return Check("autotune", f"{__version__} on {facts['platform']}", facts)
