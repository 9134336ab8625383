"""Facts of the machine as Linux lists them; and machines that the tests can pretend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pretended.machines import MACHINES, VARIABLE, machine_named
from support.command_line import ROOT, environment
from support.slow_cases import slow_names

from autotune.system import host

X86 = "processor\t: 0\nmodel name\t: A: B (R)\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags: x\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("text", "name", "flags"), [(X86, "A: B (R)", {"fpu", "avx2"}), (ARM, None, {"fp", "asimd"})]
)
def test_the_first_processor_is_told(
    text: str, name: str | None, flags: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    there = host.cpuinfo(str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(host, "cpuinfo", lambda: there)
    assert host.cpu_flags() == flags
    if name is None:  # then Python says something
        assert host.processor_name()
    else:
        assert host.processor_name() == name


def test_where_linux_tells_nothing_there_is_still_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.cpuinfo(str(tmp_path / "missing")) == {}
    monkeypatch.setattr(host, "cpuinfo", dict)
    assert host.cpu_flags() == frozenset()
    assert host.processor_name()


@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({"cpu family": "6", "model": "85"}, "6/85"),
        ({"CPU implementer": "0x41", "CPU part": "0xd0c"}, "0x41/0xd0c"),
        ({"model": "85"}, None),
        ({}, None),
    ],
)
def test_processors_of_one_name_are_told_apart_by_their_numbers(
    fields: dict[str, str], model: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "cpuinfo", lambda: fields)
    assert host.processor_model() == model


def test_the_highest_clock_is_told_where_linux_knows_it(tmp_path: Path) -> None:
    assert host.max_mhz(str(tmp_path / "none")) is None
    (tmp_path / "clock").write_text("3500000\n")
    assert host.max_mhz(str(tmp_path / "clock")) == 3500


# -- pretended machines ----------------------------------------------------------------------------

DEVICE = """
import json
from autotune.runtime.environment import device
from autotune.system.host import cache_bytes
from autotune.target import Target
print(json.dumps({**device(Target("llvm")), "cache": cache_bytes()}))
"""
IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {DEVICE!r}])"


def on(machine: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a pretended machine, whatever machine the tests run on."""
    here = {name: value for name, value in environment().items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, str(ROOT / "tests/pretended"), machine, *command],
        capture_output=True,
        text=True,
        check=False,
        env=here,
    )


#: Those that differ from others in a name or a width alone.
ALIKE = {"short-name", "one-word", "brackets", "sse4", "elsewhere"}


@pytest.mark.parametrize("name", [*slow_names(ALIKE, MACHINES), "long-name+64-cores+container"])
def test_processes_of_a_pretended_machine_and_their_children_see_it(name: str) -> None:
    machine = machine_named(name)
    done = on(name, sys.executable, "-c", IN_A_CHILD)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    if machine.processor:
        assert found["name"] == machine.processor
    assert found["name"]
    if machine.arm:
        assert found["model"] == "0x41/0xd0c"
    if machine.max_mhz is not None:
        assert found["max_mhz"] == machine.max_mhz
    if machine.cores is not None:
        assert found["cores"] == machine.cores
    if machine.quota is not None:
        assert found["threads"] == machine.quota
    if machine.cache_bytes is not None:
        assert found["cache"] == machine.cache_bytes
    if machine.llvm is not None and host.architecture() == "x86_64":
        assert found["vector_bytes"] <= (32 if name == "avx2" else 16)


def test_an_unknown_machine_is_told_with_those_there_are() -> None:
    done = on("abacus", "true")
    assert done.returncode == 2
    assert all(name in done.stderr for name in MACHINES)
