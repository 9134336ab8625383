"""Ctrl-C while the command is being imported: one line and exit code 130, wherever it hits."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

INTERRUPT_AT = """
import os, signal, sys, time

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AUTOTUNE_TEST_INTERRUPT_AT"]:
            sys.meta_path.remove(self)
            if os.environ["AUTOTUNE_TEST_INTERRUPT_IN"] == "import":
                os.kill(os.getpid(), signal.SIGINT)
            Dying()  # what is raised there nobody can catch
            time.sleep(60)

sys.meta_path.insert(0, Interrupting())
"""


def console_script():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["autotune"].split(":")
    return ["-c", f"from {module} import {function}; {function}()"]


@pytest.mark.parametrize("command", [["-m", "autotune"], console_script()], ids=["-m", "script"])
@pytest.mark.parametrize(
    ("module", "where"),
    [
        ("autotune.cli.main", "import"),
        ("autotune.cli.main", "destructor"),
        ("records.record_errors", "import"),
        ("typer", "destructor"),
    ],
)
def test_ctrl_c_during_imports_is_one_line(tmp_path, command, module, where):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT_AT)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *command, "--version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "AUTOTUNE_TEST_INTERRUPT_AT": module,
             "AUTOTUNE_TEST_INTERRUPT_IN": where},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "autotune: interrupted\n")
