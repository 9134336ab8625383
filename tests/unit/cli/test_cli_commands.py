"""Commands are imported when they are called, and not before."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

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


DOCS = Path(__file__).parents[3] / "docs"
# Commands with more options than a row holds: those are in the pages to which it leads.
LONG = ("bench", "records", "replay", "tile")


def commands(command, name=""):
    """Yield the commands that can be called, by name."""
    if not isinstance(command, TyperGroup):
        yield name, command
        return
    for word in command.commands:
        yield from commands(command.commands[word], f"{name} {word}".strip())


def rows_of_docs():
    """Return the row of each command, and what it leads to, by the commands' names."""
    text = (DOCS / "commands.md").read_text()
    table, rest = text[text.index("|---|") :].split("\n\n", 1)
    found = {}
    for row in table.splitlines()[1:]:
        pages = re.findall(r"\]\((\w+\.md)", row)
        for name in re.findall(r"`autotune ([a-z]+(?: [a-z\\|]+)?)", row):
            first, _, others = name.partition(" ")
            for other in others.split("\\|"):
                found[f"{first} {other}".strip()] = row, pages
    return found, rest


def section(text, title):
    return text[text.index(f"## {title}") :].split("\n## ")[0]


OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def test_the_page_of_commands_tells_every_option_of_every_command_and_no_other():
    called = dict(commands(typer.main.get_command(app)))
    rows, rest = rows_of_docs()
    assert rows.keys() == called.keys()
    with_json = rest.split("\n\n")[0]
    for name, command in called.items():
        row, pages = rows[name]
        first = name.split()[0]
        options = [set(p.opts) for p in command.params if p.param_type_name == "option"]
        prints_json = f"`{name}`" in with_json or f"`{first}`" in with_json
        assert ({"--json"} in options) == prints_json, name

        told = row + with_json + section(rest, "Template and target")
        if first == "run":
            told += section(rest, "Options of `autotune run`")
        if first in LONG:
            told += "".join((DOCS / page).read_text() for page in pages)
        words = set(OPTION.findall(told))
        assert not [names for names in options if words.isdisjoint(names)], name
        if "`, `" not in row:  # else its options are those of several commands
            assert set(OPTION.findall(row.split(" | ")[0])) <= set().union(*options), name
