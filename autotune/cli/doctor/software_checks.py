"""Checks of `autotune doctor`: libraries, the targets that they serve, and OpenMP."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import warnings
from collections.abc import Mapping
from typing import NamedTuple

from autotune.cli.doctor.finding import Check, Finding
from autotune.cli.doctor.probe import ProbeResult
from autotune.runtime.cpu.openmp import OpenMPWarning, find_openmp
from autotune.runtime.cuda.cuda_toolkit import REMEDY as NVRTC_REMEDY


class Library(NamedTuple):
    """A library that we use: its module, its package, and the features that need it."""

    module: str
    package: str
    least: str
    cost: str
    extra: str | None = None


# Those without an extra are required.
LIBRARIES = (
    Library("numpy", "numpy", "1.26", "nothing works"),
    Library("ml_dtypes", "ml_dtypes", "0.5", "there is no bfloat16"),
    Library("llvmlite", "llvmlite", "0.45", "nothing can be compiled"),
    Library("xgboost", "xgboost", "3.2", "the model tuner cannot rank"),
    Library("optuna", "optuna", "4.0", "there are no optuna:SAMPLER tuners and no --storage"),
    Library("typer", "typer", "0.12", "there is no command line"),
    Library("yaml", "pyyaml", "6.0", "job files in YAML cannot be read"),
    Library("platformdirs", "platformdirs", "4.0", "there is no cache folder"),
    Library("pandas", "pandas", "2.1", "data sets cannot be loaded"),
    Library("lark", "lark", "1.1", "Tile code cannot be read"),
    Library("islpy", "islpy", "2024.2", "Tile code cannot be checked"),
    Library("matplotlib", "matplotlib", "3.8", "--plot draws nothing", "report"),
    Library("pyarrow", "pyarrow", "15", "data sets cannot be Parquet files", "export"),
)

# Steps that another process probes, for the checks below.
STEPS = (
    *(f"import {library.module}" for library in LIBRARIES),
    *("llvm", "driver", "import cupy", "nvrtc", "cupy"),
)

Outcomes = Mapping[str, ProbeResult]


def libraries(outcomes: Outcomes) -> Check:
    """Report the versions of libraries, and the features that need missing ones."""
    versions, findings = {"python": platform.python_version()}, []
    for library in LIBRARIES:
        found = outcomes[f"import {library.module}"]
        version = _version(library.package) or found.found.get("version")
        amiss = None
        if found.error is not None:
            missing = "No module named" in found.error and repr(library.module) in found.error
            amiss = "is missing" if missing else f"cannot be imported ({found.error})"
        elif version is not None and _numbers(version) < _numbers(library.least):
            amiss = f"{version} is older than {library.least}"
        if found.error is None and version is not None:
            versions[library.module] = version
        if amiss is not None:
            what = f"kernel-autotune[{library.extra}]" if library.extra else library.package
            findings.append(
                Finding(
                    f"{library.module} {amiss}: {library.cost}",
                    f"pip install --upgrade '{what}'",
                    library.extra is None,
                )
            )
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Check("libraries", text, versions, tuple(findings))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def openmp() -> Check:
    """Report the OpenMP runtime of parallel loops, and where it was found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OpenMPWarning)
        library = find_openmp()
    if library is not None:
        return Check("openmp", library.path, {"path": library.path})
    finding = Finding(
        "no OpenMP runtime (libgomp) was found: parallel loops run on one thread",
        "pip install --force-reinstall xgboost, which brings one, or install libgomp1",
    )
    return Check("openmp", "none", {"path": None}, (finding,))


def llvm(outcomes: Outcomes) -> Check:
    """Report whether code for CPUs can be generated, and for which one."""
    found = outcomes["llvm"]
    if found.error is not None:
        finding = Finding(
            f"the target llvm does not work: {found.error}",
            "pip install --force-reinstall llvmlite",
        )
        return Check("llvm", "does not work", {"works": False}, (finding,))
    text = f"works: LLVM {found.found['version']}, for {found.found['cpu']}"
    return Check("llvm", text, {"works": True, **found.found})


# What errors say where something is not installed.
_ABSENT = ("No module named", "No such file", "cannot open", "is not installed")


def cuda(outcomes: Outcomes) -> Check:
    """Report the installed GPU software; drivers and CuPy are needed with a GPU only."""
    driver, devices = outcomes["driver"], outcomes["driver"].found.get("devices", [])
    names = ", ".join(f"{device['name']} ({device['arch']})" for device in devices)
    parts = {
        "a driver for CUDA": driver,
        "CuPy": outcomes["import cupy"],
        "NVRTC": outcomes["nvrtc"],
    }
    tried = {**parts, "CuPy on the GPU": outcomes["cupy"]} if devices else parts
    broken = {
        what: outcome.error
        for what, outcome in tried.items()
        if outcome.error is not None and not any(words in outcome.error for words in _ABSENT)
    }
    findings = [
        Finding(
            f"{what} is installed and does not work: {error}",
            NVRTC_REMEDY
            if what == "NVRTC"
            else "kernels for GPUs need it; nvidia-smi says whether the driver is well",
            problem=False,
        )
        for what, error in broken.items()
    ]
    if outcomes["nvrtc"].error is not None and "NVRTC" not in broken:
        findings.append(_no_compiler(outcomes["nvrtc"].error))
    here = [
        f"{what} {outcome.found['version']}"
        for what, outcome in parts.items()
        if outcome.error is None
    ]
    found = ", ".join([*here, names or "no GPU"])
    compiles = outcomes["nvrtc"].error is None
    runs = compiles and bool(devices) and all(outcome.error is None for outcome in tried.values())
    state = "compile and run" if runs else "compile" if compiles else "do not compile"
    facts = {
        "works": runs,
        "compiles": compiles,
        "devices": devices,
        "driver": driver.found.get("version"),
        "cupy": outcomes["import cupy"].found.get("version"),
        "nvrtc": outcomes["nvrtc"].found.get("version"),
    }
    return Check("cuda", f"kernels {state}; {found}", facts, tuple(findings))


def _no_compiler(error: str) -> Finding:
    """Report why kernels for GPUs cannot be compiled (this needs no GPU), and what to do."""
    reason = error.removeprefix("TargetError: ").removesuffix(f": {NVRTC_REMEDY}")
    return Finding(
        f"kernels for GPUs cannot be compiled, not even on a machine without one: {reason}",
        NVRTC_REMEDY,
        problem=False,
    )
