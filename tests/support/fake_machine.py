"""A machine with a GPU that there is not: an environment in which processes find one.

Drivers and NVRTC are stand-ins (`fake_gpu/libraries.c`), CuPy is `fake_gpu/cupy`. Kernels are
compiled by the real NVRTC, which needs no GPU, and once more for the CPU, which runs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autotune.runtime.cuda.cuda_toolkit import load_toolkit

FOLDER = Path(__file__).parent / "fake_gpu"
ROOT = Path(__file__).parents[2]

COMPILER = shutil.which("gcc") or shutil.which("clang")


@dataclass(frozen=True)
class FakeMachine:
    """A folder with libraries, and what processes have to be told to find them.

    Attributes
    ----------
    folder : Path
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> FakeMachine:
        """Compile the libraries into a folder."""
        toolkit = load_toolkit()[0]
        (folder / "driver").mkdir()
        (folder / "toolkit" / "lib").mkdir(parents=True)
        (folder / "kernels").mkdir()
        driver = folder / "driver" / "libcuda.so.1"
        for library in (driver, folder / "toolkit" / "lib" / "libnvrtc.so.12"):
            # A compiler that is loaded is found again by the name that it says it has.
            command = [COMPILER, "-shared", "-fPIC", "-w", f"-Wl,-soname,{library.name}"]
            command += ["-o", str(library), str(FOLDER / "libraries.c"), "-ldl"]
            subprocess.run(command, check=True)
        (folder / "driver" / "libnvidia-ml.so.1").symlink_to(driver)
        # Some versions of NVRTC do not look beside themselves for what they need.
        for builtins in Path(toolkit.library).parent.glob("libnvrtc-builtins.so*"):
            (folder / "driver" / builtins.name).symlink_to(builtins)
        if toolkit.include is not None:
            (folder / "toolkit" / "include").symlink_to(toolkit.include)
        return cls(folder)

    @property
    def log(self) -> Path:
        """File in which each process says that it has made a context."""
        return self.folder / "log"

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python on this machine with some words, in a folder."""
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment()},
            cwd=cwd,
            check=False,
        )

    def environment(self, **more: str) -> dict[str, str]:
        """Return variables of a process on this machine; further ones are FAKE_GPU_ settings."""
        return {
            "PYTHONPATH": _before("PYTHONPATH", FOLDER, ROOT),
            "LD_LIBRARY_PATH": _before("LD_LIBRARY_PATH", self.folder / "driver"),
            "CUDA_PATH": str(self.folder / "toolkit"),
            "FAKE_GPU_NVRTC": load_toolkit()[0].library,
            "FAKE_GPU_FOLDER": str(self.folder / "kernels"),
            "FAKE_GPU_LOG": str(self.log),
            "AUTOTUNE_CACHE_DIR": str(self.folder / "cache"),
            **{f"FAKE_GPU_{name}": value for name, value in more.items()},
        }


def _before(variable: str, *folders: Path) -> str:
    """Return a list of folders that begins with these."""
    return os.pathsep.join(filter(None, [*map(str, folders), os.environ.get(variable)]))
