"""config.toml: defaults of options by command, under what the command line says."""

import re

import pytest

from autotune.cli import app as commands
from autotune.cli.main import main
from autotune.cli.options.multi_value_options import Command


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Write the file, and return what commands are called with instead of running them."""
    monkeypatch.setenv("AUTOTUNE_CONFIG_DIR", str(tmp_path))

    def write(text: str) -> None:
        (tmp_path / "config.toml").write_text(text)

    return write


@pytest.fixture
def called(monkeypatch):
    """Collect the options that commands are called with."""
    calls = []
    monkeypatch.setattr(Command, "invoke", lambda self, context: calls.append(context.params))
    return calls


def test_defaults_of_a_command_hold_unless_the_command_line_says_otherwise(config, called):
    config('[best]\nlog = "mine.jsonl"\ntarget = "llvm -threads=1"\njson = true\nset = ["m=1"]\n')
    assert main(["best", "matmul"]) == 0
    assert main(["best", "matmul", "--log", "other.jsonl", "--set", "n=2"]) == 0
    names = ("template", "settings", "target", "logs", "as_json")
    assert [tuple(given[name] for name in names) for given in called] == [
        ("matmul", ["m=1"], "llvm -threads=1", ["mine.jsonl"], True),
        ("matmul", ["n=2"], "llvm -threads=1", ["other.jsonl"], True),
    ]
    assert not any(given["shapes"] for given in called)


def test_a_command_of_a_group_has_a_table_within(config, called):
    config('[replay.run]\nbudget = 7\ntuner = ["grid", "random"]\n')
    assert main(["replay", "run", "x.json"]) == 0
    assert (called[0]["budget"], called[0]["tuner"]) == (7, ["grid", "random"])


def test_help_shows_the_default_that_holds(config, capsys):
    config("[run]\ntrials = 4321\n")
    assert main(["run", "--help"]) == 0
    assert "4321" in capsys.readouterr().out


def test_no_file_is_no_mistake(config, called):
    assert main(["best", "matmul", "--log", "x"]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\ntrails = 3\n", r"config.toml: \[run\] has no option trails: .* 'trials'\?$"),
        ("[rnu]\n", "config.toml: there is no command rnu: did you mean 'run'"),
        ("[replay.rnu]\n", "there is no command replay.rnu"),
        ("[xyzzy]\n", "there is no command xyzzy: expected one of .*run"),
        ("best = 3\n", r"best must be a table, \[best\]"),
        ("[best\n", "config.toml is not valid TOML: .*line 1"),
        ('[best]\nlog = "a"\nlog = "b"\n', "is not valid TOML"),
        ("[best]\njson = 1\n", "best.json must be true or false, not 1"),
        ("[run]\nlog = [1]\n", r"run.log must be one value, not \[1\]"),
        ("[best]\nset = [true]\n", "best.set must be text or a number, not True"),
        ("[best]\nlog = {}\n", "best.log must be text or a number, not {}"),
        ("[replay.run]\nbudget = 0\n", r"'--budget'.*\(set in .*config.toml\)$"),
        ('[replay.run]\nbudget = "much"\n', r"'--budget'.*\(set in .*config.toml\)$"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_that_names_it(config, called, capsys, text, said):
    config(text)
    words = ["replay", "run", "x.json"] if "budget" in text else ["best", "matmul", "--log", "x"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(said, error.strip())
    assert called == []


def test_every_option_has_a_long_name_for_the_file():
    import typer

    def walk(command):
        for inner in getattr(command, "commands", {}).values():
            yield from walk(inner)
        yield command

    for command in walk(typer.main.get_command(commands.app)):
        for option in command.params:
            assert option.param_type_name == "argument" or any("--" in o for o in option.opts)
