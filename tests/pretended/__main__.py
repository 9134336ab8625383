"""Runs a command as on another machine: ``python tests/pretended MACHINE COMMAND ...``.

Its processes, and all that they start, see the machine, as far as they run Python and inherit the
environment. ``long-name+avx2`` is a machine with what is pretended by both; where they disagree,
the second counts. Without a command the machines are listed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from machines import HOME, MACHINES, VARIABLE, Machine, machine_named

MOST_THREADS = "8"
"""Of a parallel loop where CPUs are pretended."""

FOLDER = Path(__file__).resolve().parent


def main(words: list[str]) -> int:
    """Run the command and return its exit code; 2 if there is no such machine."""
    if len(words) < 2 or not {*words[0].split("+")} <= MACHINES.keys():
        print("usage: python tests/pretended MACHINE COMMAND ...", file=sys.stderr)
        for name, machine in MACHINES.items():
            print(f"  {name:13}{machine.about}", file=sys.stderr)
        return 2
    name, *command = words
    machine = machine_named(name)
    with tempfile.TemporaryDirectory(prefix="pretended-") as home:
        environment = _environment(name, machine, home)
        if machine.umask is not None:
            os.umask(machine.umask)
        usable = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, usable[: machine.cores])
        return subprocess.call(command, env=environment)


def _environment(name: str, machine: Machine, home: str) -> dict[str, str]:
    """Return what a process on the machine has to be told."""
    changes = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")])),
        VARIABLE: name,
        "NPY_DISABLE_CPU_FEATURES": _numpy_lacks(machine),
        # More threads than there are CPUs only take turns; these suffice for tests with -threads.
        "OMP_THREAD_LIMIT": None if machine.cores is None else MOST_THREADS,
        "OMP_WAIT_POLICY": None if machine.cores is None else "passive",  # others need the CPUs
        **machine.variables,
    }
    environment = dict(os.environ)
    for variable, value in changes.items():
        environment.pop(variable, None)
        if value is not None:
            environment[variable] = value.replace(HOME, home)
            if HOME in value:
                Path(environment[variable]).mkdir(parents=True, exist_ok=True)
    return environment


def _numpy_lacks(machine: Machine) -> str | None:
    """Return the features for which NumPy has code that it shall not use."""
    from numpy._core import _multiarray_umath as compiled

    found = [name for name in compiled.__cpu_dispatch__ if name.startswith(machine.lacks)]
    return " ".join(found) or None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
