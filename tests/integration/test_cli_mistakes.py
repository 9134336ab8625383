"""Wrong command lines and inputs: exit code 2 and exactly one plain line on the standard error.

Each is run with pipes and in a pseudo-terminal, by a server that forks; some as processes, too.
Those that start code of templates take a while: each is run in one of these ways, which alternate,
and in the other one by the slow tests.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from support.command_line import CLOSED, PIPE, Ended, run_process
from support.command_mistake import MATMUL, Mistake, N
from support.command_mistakes import MISTAKES
from support.mistaken_files import TEMPLATES, make_files

from autotune.cli.main import main
from autotune.errors import ScheduleError

PLAIN = [mistake for mistake in MISTAKES if not (mistake.setup or mistake.unprivileged)]
AS_PROCESSES = PLAIN[:: len(PLAIN) // 5]


def ways() -> list[Any]:
    """Return the mistakes, each with the ways to run it: whether in a terminal."""
    cases, terminal = [], False
    for mistake in MISTAKES:
        if mistake.printed or any(".py:" in word for word in mistake.words):
            cases.append(pytest.param(mistake, [terminal], id=f"{mistake}"))
            other = pytest.param(mistake, [not terminal], marks=pytest.mark.slow, id=f"{mistake}")
            cases.append(other)
            terminal = not terminal
        else:
            cases.append(pytest.param(mistake, [False, True], id=f"{mistake}"))
    return cases


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder of files, which nobody may enter too: it is not one of pytest's."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    make_files(place)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def unchanged(folder: Path) -> Iterator[set[str]]:
    """Check that a command leaves no files, but for those that are added to the set."""
    before = names(folder)
    allowed: set[str] = set()
    yield allowed
    left = names(folder) - before
    for name in left:
        (folder / name).unlink()
    assert left <= allowed


def names(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if "__pycache__" not in name}


def assert_one_line(mistake: Mistake, ended: Ended, terminal: bool) -> None:
    assert ended.code == mistake.code
    text = ended.out.replace("\r\n", "\n") if terminal else ended.err
    assert "Traceback" not in text
    if mistake.printed and terminal:
        text = "autotune: " + text.rpartition("autotune: ")[2]
    assert text.startswith("autotune: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert re.search(mistake.said, text.strip())
    assert text.strip().isprintable()
    assert not re.search("[\u2500-\u257f]", text)  # no box is drawn around it
    if not terminal and not mistake.printed:
        assert ended.out == ""


def test_the_table_is_long_enough():
    assert len(MISTAKES) >= 250
    assert len({(*m.words, *m.variables.items(), m.setup) for m in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize(("mistake", "terminals"), ways())
def test_a_mistake_is_one_line_and_an_exit_code(mistake, terminals, server, folder, unchanged):
    unchanged.update(mistake.leaves)
    running = [
        server.start(
            mistake.words,
            folder,
            terminal=terminal,
            setup=mistake.setup,
            variables=mistake.variables,
            unprivileged=mistake.unprivileged,
        )
        for terminal in terminals
    ]
    for terminal, command in zip(terminals, running, strict=True):
        assert_one_line(mistake, command.ended(), terminal)


@pytest.mark.parametrize(
    ("mistake", "terminal"), list(zip(AS_PROCESSES, cycle([False, True]))), ids=str
)
def test_a_process_of_its_own_says_the_same(mistake, terminal, server, folder, unchanged):
    unchanged.update(mistake.leaves)
    how = {"terminal": terminal, "variables": mistake.variables}
    alone = run_process(mistake.words, folder, **how)
    assert_one_line(mistake, alone, terminal)
    assert server.start(mistake.words, folder, **how).ended() == alone


FULL = "/dev/full"


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        (["frobnicate"], (CLOSED, PIPE, PIPE), 2, "No such command"),
        (["frobnicate"], (os.devnull, CLOSED, PIPE), 2, "No such command"),
        (["frobnicate"], (os.devnull, PIPE, CLOSED), 2, ""),
        (["frobnicate"], (CLOSED, CLOSED, CLOSED), 2, ""),
        (["frobnicate"], (os.devnull, PIPE, FULL), 2, ""),
        (["frobnicate"], (os.devnull, FULL, PIPE), 2, "No such command"),
        (["templates"], (os.devnull, CLOSED, PIPE), 2, "cannot write the output: it is closed"),
        (["templates"], (os.devnull, FULL, PIPE), 2, "cannot write the output: No space left"),
        (["--help"], (os.devnull, FULL, PIPE), 2, "No space left"),
        (["run", "--help"], (os.devnull, CLOSED, PIPE), 2, "closed"),
        (["--version"], (os.devnull, FULL, PIPE), 2, "No space left"),
        (["cache", "info", "--json"], (os.devnull, FULL, PIPE), 2, "No space left"),
        (["records", "summary", "good.jsonl"], (os.devnull, FULL, FULL), 2, ""),
        (MATMUL, (CLOSED, FULL, PIPE), 2, "No space left"),
        (["run", "templates.py:asks_for_keyboard", *N], (CLOSED, PIPE, PIPE), 2, "keyboard|input"),
    ],
    ids=str,
)
def test_a_stream_that_is_closed_or_full_is_one_line_or_none(
    words, streams, code, said, folder, unchanged
):
    ended = run_process(words, folder, streams=streams)
    assert ended.code == code
    assert "Traceback" not in ended.err
    assert "Exception" not in ended.err
    assert ended.err.count("\n") == bool(said)
    assert re.search(said, ended.err)


@pytest.mark.parametrize("words", [["templates"], ["--help"], ["cache", "info"]], ids=str)
def test_a_reader_that_has_gone_away_is_no_mistake(words, folder):
    ours, theirs = os.pipe()
    os.close(ours)
    ended = run_process(words, folder, streams=(os.devnull, f"/dev/fd/{theirs}", PIPE))
    os.close(theirs)
    assert (ended.code, ended.err) == (0, "")


def test_a_configuration_that_a_rule_rejects_is_named_with_the_rule_and_a_way_out(
    tmp_path, capsys
):
    (tmp_path / "rule.py").write_text(
        TEMPLATES + "\n@template('rule')\ndef rule(cfg, n: int):\n"
        "    k = cfg.define_knob('k', [1, 2, 4])\n"
        "    cfg.add_constraint(k < 4, 'k is small')\n"
        "    return add_one(n)\n"
    )
    assert main(["show", f"{tmp_path}/rule.py:rule", "--set", "n=4", "--config", "2"]) == 2
    said = capsys.readouterr().err
    assert re.search("configuration 2: 'k is small'.*nearest one allowed is 1", said)


def test_an_error_of_our_own_that_is_no_usage_error_is_one_line_too(monkeypatch, capsys):
    def fail(*_: object) -> None:
        raise ScheduleError("split: no such axis")

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", fail)
    assert main(["templates"]) == 2
    assert capsys.readouterr().err == "autotune: split: no such axis\n"


def test_a_bug_is_not_dressed_up_as_a_mistake(monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", fail)
    with pytest.raises(ZeroDivisionError):
        main(["templates"])


def test_interrupting_a_command_is_exit_code_130(monkeypatch, capsys):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", stop)
    assert main(["templates"]) == 130
    assert capsys.readouterr().err == "autotune: interrupted\n"
