"""Commands are imported when they are called, and not before."""

import subprocess
import sys

import pytest
import typer

from autotune.cli.app import COMMANDS, app


def loaded_by(*words):
    """Return the modules that a command line has loaded at its end."""
    code = (
        "import sys\n"
        "from autotune.cli.main import main\n"
        f"assert main({list(words)!r}) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_import_no_command_and_nothing_large(word):
    loaded = loaded_by(word)
    assert not any(name.startswith("autotune.cli.commands.") for name in loaded)
    assert not loaded & {"numpy", "llvmlite", "rich", "yaml", "lark"}


def test_a_command_imports_no_other_and_a_run_nothing_large_before_its_processes_start():
    loaded = loaded_by("run", "--help")
    commands = {name for name in loaded if name.startswith("autotune.cli.commands.")}
    assert commands == {"autotune.cli.commands.run"}
    assert not loaded & {"numpy", "llvmlite", "yaml"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name):
    help_text = typer.main.get_command(app).commands[name].help
    assert help_text.partition("\n\n")[0].replace("\n", " ") == COMMANDS[name]
