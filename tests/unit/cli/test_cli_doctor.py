"""`autotune doctor`: its checks, and that a library or a driver that crashes or hangs is told."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.footprint import wait_for

from autotune.cli.commands import doctor
from autotune.cli.doctor import machine_checks, software_checks
from autotune.cli.doctor.finding import Check, Finding
from autotune.cli.doctor.probe import ProbeResult, probe_libraries
from autotune.cli.main import main
from autotune.errors import AutotuneError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.runtime.cuda import cuda_toolkit

ROOT = Path(__file__).parents[3]

FAKES = {
    "crashes": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "hangs": "import time\nopen(__file__ + '.begun', 'w').close()\ntime.sleep(300)\n",
    "leaves": "import os\nos._exit(0)\n",
    "raises": "raise RuntimeError('two\\nlines')\n",
    "chatters": "import os\nos.write(1, b'noise')\nprint('more')\n__version__ = '1.2'\n",
}


@pytest.fixture(autouse=True)
def no_variables_of_whoever_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AUTOTUNE_") and name != "AUTOTUNE_CONFIG_DIR":
            monkeypatch.delenv(name)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FAKES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)


def test_what_a_step_does_to_its_process_is_held_against_it_alone(fakes):
    names = ["chatters", "crashes", "raises", "leaves", "no_such_module", "json"]
    outcomes = probe_libraries([f"import {name}" for name in names])
    assert outcomes == {
        "import chatters": ProbeResult({"version": "1.2"}),
        "import crashes": ProbeResult(error="killed by SIGSEGV"),
        "import raises": ProbeResult(error="RuntimeError: two lines"),
        "import leaves": ProbeResult(error="exited with 0"),
        "import no_such_module": ProbeResult(
            error="ModuleNotFoundError: No module named 'no_such_module'"
        ),
        "import json": ProbeResult({"version": "2.0.9"}),
    }


def test_a_step_that_hangs_is_given_up(fakes, tmp_path, monkeypatch):
    class Begun(subprocess.Popen):
        """A process for which time counts from where it hangs."""

        def communicate(self, *args, timeout=None):
            if timeout is not None:
                wait_for((tmp_path / "hangs.py.begun").exists)
            return super().communicate(*args, timeout=timeout)

    monkeypatch.setattr(subprocess, "Popen", Begun)
    outcomes = probe_libraries(["import json", "import hangs"], timeout_s=0.25)
    assert outcomes["import json"].error is None
    assert outcomes["import hangs"].error == "did not come back within 0.25 s"


def outcomes_with(**changes: ProbeResult) -> dict[str, ProbeResult]:
    """Outcomes on a machine where everything is there, but for the changes."""
    good = dict.fromkeys(software_checks.STEPS, ProbeResult({"version": "99.0"}))
    device = {"name": "GPU 1", "arch": "sm_90", "bytes": 2**36}
    good["driver"] = ProbeResult({"version": "12.4", "devices": [device]})
    good["llvm"] = ProbeResult({"version": "20.1", "cpu": "znver4"})
    return good | {name.replace("import_", "import "): found for name, found in changes.items()}


def test_a_library_that_is_missing_or_broken_is_told_with_what_it_costs_and_the_remedy():
    gone = ProbeResult(error="ModuleNotFoundError: No module named 'xgboost'")
    broken = ProbeResult(error="ImportError: libLLVM.so: file too short")
    plots = ProbeResult(error="ModuleNotFoundError: No module named 'matplotlib'")
    check = software_checks.libraries(
        outcomes_with(import_xgboost=gone, import_llvmlite=broken, import_matplotlib=plots)
    )
    assert check.findings == (
        Finding(
            "llvmlite cannot be imported (ImportError: libLLVM.so: file too short): "
            "nothing can be compiled",
            "pip install --upgrade 'llvmlite'",
        ),
        Finding(
            "xgboost is missing: the model tuner cannot rank", "pip install --upgrade 'xgboost'"
        ),
        Finding(
            "matplotlib is missing: --plot draws nothing",
            "pip install --upgrade 'kernel-autotune[report]'",
            problem=False,
        ),
    )
    assert not {"xgboost", "llvmlite", "matplotlib"} & check.facts.keys()
    assert software_checks.libraries(outcomes_with()).findings == ()


def test_a_library_that_is_too_old_is_told(monkeypatch):
    monkeypatch.setattr(software_checks, "_version", lambda package: "3.1.9")
    found = {f.what.split(":")[0] for f in software_checks.libraries(outcomes_with()).findings}
    assert "xgboost 3.1.9 is older than 3.2" in found
    assert not any(what.startswith("numpy") for what in found)


def test_the_libraries_are_those_that_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = {*project["dependencies"], *extras["report"], *extras["export"]}
    listed = [f"{library.package}>={library.least}" for library in software_checks.LIBRARIES]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= declared


def test_a_gpu_is_told_with_what_its_software_is():
    check = software_checks.cuda(outcomes_with())
    assert check.text == (
        "kernels compile and run; a driver for CUDA 12.4, CuPy 99.0, NVRTC 99.0, GPU 1 (sm_90)"
    )
    assert check.findings == ()


def test_a_gpu_that_is_absent_is_no_finding():
    absent = ProbeResult(error="OSError: libcuda.so.1: cannot open shared object file")
    missing = ProbeResult(error="ModuleNotFoundError: No module named 'cupy'")
    check = software_checks.cuda(
        outcomes_with(driver=absent, import_cupy=missing, nvrtc=missing, cupy=missing)
    )
    assert check.text == "kernels do not compile; no GPU"
    assert [finding.problem for finding in check.findings] == [False]  # of the compiler, below
    no_driver = ProbeResult(error="CUDARuntimeError: cudaErrorInsufficientDriver")
    check = software_checks.cuda(outcomes_with(driver=absent, cupy=no_driver))
    assert check.text == "kernels compile; CuPy 99.0, NVRTC 99.0, no GPU"
    assert check.findings == ()
    assert (check.facts["compiles"], check.facts["works"]) == (True, False)


def test_without_nvrtc_it_says_why_nothing_compiles_and_what_to_install():
    error = cuda_toolkit._unusable("is not installed")
    check = software_checks.cuda(outcomes_with(nvrtc=ProbeResult(error=f"TargetError: {error}")))
    assert [(f.what, f.remedy, f.problem) for f in check.findings] == [
        (
            "kernels for GPUs cannot be compiled, not even on a machine without one: NVIDIA's "
            "runtime compiler NVRTC is not installed",
            "pip install 'kernel-autotune[cuda13]' or [cuda12], or set CUDA_PATH to a CUDA toolkit",
            False,
        )
    ]
    unusable = ProbeResult(error="TargetError: NVIDIA's runtime compiler NVRTC cannot be loaded "
                       f"(/a: cannot open shared object file): {cuda_toolkit.REMEDY}")  # fmt: skip
    (finding,) = software_checks.cuda(outcomes_with(nvrtc=unusable)).findings
    assert finding.what.endswith("cannot be loaded (/a: cannot open shared object file)")


def test_a_driver_or_a_compiler_that_crashes_is_told():
    crashed = software_checks.cuda(outcomes_with(driver=ProbeResult(error="killed by SIGSEGV")))
    assert [f.what for f in crashed.findings] == [
        "a driver for CUDA is installed and does not work: killed by SIGSEGV"
    ]
    lost = software_checks.cuda(
        outcomes_with(cupy=ProbeResult(error="CUDARuntimeError: device lost"))
    )
    assert not lost.facts["works"]
    assert [f.what for f in lost.findings] == [
        "CuPy on the GPU is installed and does not work: CUDARuntimeError: device lost"
    ]
    assert (
        software_checks.llvm(outcomes_with(llvm=ProbeResult(error="killed by SIGILL")))
        .findings[0]
        .problem
    )


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [("max", "5", 3 * 2**30), (str(2**30), str(2**29), 2**29), (None, None, 3 * 2**30)],
)
def test_free_memory_is_the_machines_or_the_control_groups(tmp_path, limit, used, free):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 9\nMemAvailable:  {3 * 2**20} kB\n")
    if limit is not None:
        (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
        (tmp_path / "sys/fs/cgroup/memory.max").write_text(limit)
        (tmp_path / "sys/fs/cgroup/memory.current").write_text(used)
    assert machine_checks.available_memory(str(tmp_path)) == free
    assert machine_checks.available_memory(str(tmp_path / "nowhere")) is None


def test_too_little_memory_is_a_problem(monkeypatch):
    monkeypatch.setattr(machine_checks, "available_memory", lambda: 2**20)
    assert "only 1.00 MiB of memory" in machine_checks.memory().findings[0].what


def test_variables_that_mean_nothing_are_noted(monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHEDIR", "/somewhere")
    monkeypatch.setenv("AUTOTUNE_CONFIG_DIR", "/nowhere")
    (finding,) = machine_checks.settings(None).findings
    assert finding == Finding(
        "the variable AUTOTUNE_CACHEDIR means nothing", "set AUTOTUNE_CACHE_DIR", False
    )


@pytest.mark.parametrize(("value", "told"), [("2^44", []), ("", []), ("many", ["problem"])])
def test_the_variable_of_operations_is_known_and_its_value_checked(monkeypatch, value, told):
    monkeypatch.setenv("AUTOTUNE_TILE_OPERATIONS", value)
    findings = machine_checks.settings(None).findings
    assert ["problem" if found.problem else "note" for found in findings] == told
    assert all("a whole number of at least 1" in found.what for found in findings)


def test_a_self_test_that_fails_is_a_problem_with_its_message(monkeypatch):
    error = MeasureError(MeasureErrorNo.WRONG_ANSWER, "check", "off by 3")

    def measure(self, inputs):
        for one in inputs:
            yield one, MeasureResult(error=error)

    monkeypatch.setattr(LocalMeasurer, "measure", measure)
    (finding,) = machine_checks.self_test().findings
    assert finding.what == "the self-test failed, check: off by 3"

    def refuse(self, inputs):
        raise AutotuneError("no process starts")

    monkeypatch.setattr(LocalMeasurer, "measure", refuse)
    (finding,) = machine_checks.self_test().findings
    assert finding.what == "the self-test failed: no process starts"


def test_problems_come_last_and_are_exit_code_1(monkeypatch, capsys):
    found = [
        Check("one", "well", {"x": 1}, (Finding("slow", "hurry"),)),
        Check("other", "so so", {}, (Finding("odd", "look", problem=False),)),
    ]
    monkeypatch.setattr(doctor, "_run_checks", lambda command: found)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "one    well",
        "other  so so",
        "note: odd; look",
        "problem: slow; hurry",
        "1 problem",
    ]
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "problems": [{"check": "one", "what": "slow", "remedy": "hurry"}],
        "notes": [{"check": "other", "what": "odd", "remedy": "look"}],
        "checks": {"one": {"x": 1}, "other": {}},
    }
    monkeypatch.setattr(doctor, "_run_checks", lambda command: found[1:])
    assert main(["doctor"]) == 0


def called(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("cpus", "told"),
    [(1, "1 thread (1 CPU may be used, "), (64, "64 threads (64 CPUs may be used, ")],
)
def test_the_processor_is_told_with_its_cpus(cpus, told, monkeypatch):
    facts = {"name": "[X]", "cores": cpus, "threads": cpus, "vector_bytes": 32}
    monkeypatch.setattr("autotune.runtime.environment.device", lambda target: facts)
    assert machine_checks.processor().text.startswith(f"[X], 256-bit vectors; {told}")


def test_it_looks_at_this_machine_and_measures_a_kernel(tmp_path):
    done = called("doctor", "--json", AUTOTUNE_CACHE_DIR=str(tmp_path / "cache"))
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["problems"]) == (0, True, [])
    found = report["checks"]
    assert found["self-test"]["works"]
    assert found["self-test"]["cost_s"] > 0
    assert found["llvm"]["works"]
    assert found["processor"]["threads"] >= 1
    assert found["libraries"].keys() >= {"python", "numpy", "llvmlite", "xgboost"}
    assert found["cache"]["folder"] == str(tmp_path / "cache/objects")
    assert found["cache"]["entries"] == 0  # the self-test keeps nothing


def test_what_is_amiss_is_told_in_80_columns_and_keeps_nothing_else_from_being_told(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "config.toml").write_text("[run]\ntrails = 3\n")
    done = called(
        "doctor", AUTOTUNE_CACHE_DIR=str(tmp_path / "file"), AUTOTUNE_CONFIG_DIR=str(tmp_path)
    )
    assert (done.returncode, done.stderr) == (1, "")
    text = " ".join(done.stdout.split())
    assert "cannot be written (Not a directory)" in text
    assert "[run] has no option trails: did you mean 'trials'?; mend the file" in text
    assert done.stdout.endswith("\n2 problems\n")
    assert "built, ran and was right" in text
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if " /" not in line)
