"""What importing and starting costs, each in a process of its own."""

import importlib.metadata
import json
import resource
import subprocess
import sys

import pytest

HEAVY = {
    "ml_dtypes", "xgboost", "optuna", "pandas", "llvmlite", "cupy", "rich", "typer", "click",
    "yaml", "pyarrow", "sklearn", "lark", "islpy", "cuda", "pynvml",
    "torch", "jax", "ray",
}  # fmt: skip


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after running some code."""
    report = "import json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def command_after(*words: str) -> str:
    return f"from autotune.cli.main import main; main({list(words)!r})"


def test_import_autotune_loads_no_heavy_library():
    assert not loaded_by("import autotune") & (HEAVY | {"numpy"})


def test_import_autotune_loads_none_of_its_modules_until_a_name_is_used():
    code = (
        "import sys, autotune\n"
        "print([name for name in sys.modules if name.startswith('autotune.')])\n"
        "print(autotune.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", importlib.metadata.version("kernel-autotune")]


@pytest.mark.parametrize(
    "name", ["te", "lower", "build", "load", "Target", "tune", "autotuned", "torch_op"]
)
def test_names_of_the_face_load_no_heavy_library_until_something_is_built(name):
    assert not loaded_by(f"import autotune; autotune.{name}") & HEAVY


@pytest.mark.parametrize("package", ["features", "search_spaces", "records"])
def test_leaf_packages_load_neither_autotune_nor_a_heavy_library(package):
    assert not loaded_by(f"import {package}") & (HEAVY | {"autotune"})


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"], ["frobnicate"]])
def test_help_loads_no_library_but_the_option_parser(words):
    loaded = loaded_by(command_after(*words))
    assert not loaded & (HEAVY - {"typer", "click"} | {"numpy"}) - _imported_by_typer()


def _imported_by_typer() -> set[str]:
    """Rich, if this version of Typer imports it by itself."""
    return loaded_by("import typer") & {"rich"}


def test_listing_templates_and_showing_loops_loads_no_compiler_and_no_model():
    assert not loaded_by(command_after("templates")) & (HEAVY - {"typer", "click"})
    words = ["show", "softmax", "--set", "m=8", "--set", "n=64"]
    for view in ("--space", "--ir"):
        assert not loaded_by(command_after(*words, view)) & (HEAVY - {"typer", "click"})


def least_cpu_seconds(*words: str, tries: int = 7) -> float:
    """Return the least of several tries; waiting for a machine that is busy does not count."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(seconds() for _ in range(tries))


@pytest.fixture(scope="module")
def slowness() -> float:
    """How much longer than 20 ms the interpreter alone takes here; 1 if it does not."""
    return max(1.0, least_cpu_seconds("-c", "pass") / 0.02)


def test_import_autotune_takes_less_than_150_ms(slowness):
    assert least_cpu_seconds("-c", "import autotune") < 0.15 * slowness


def test_help_takes_less_than_half_a_second(slowness):
    assert least_cpu_seconds("-m", "autotune", "--help") < 0.5 * slowness
