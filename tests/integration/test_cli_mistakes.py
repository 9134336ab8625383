"""Wrong command lines and inputs: exit code 2 and exactly one plain line on the standard error.

Most are run in the process of the tests, every eighth in a pseudo-terminal, too, by a server that
forks. That is done with each that needs a process of its own, as code of templates or another
environment does: with pipes or in a pseudo-terminal, which alternate. The slow tests run each in
both ways; some are also run as processes that a user starts.
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
from support.slow_cases import slow

from autotune.cli.main import main
from autotune.errors import ScheduleError

PLAIN = [mistake for mistake in MISTAKES if not (mistake.setup or mistake.unprivileged)]
AS_PROCESSES = PLAIN[:: len(PLAIN) // 3]


def needs_process(mistake: Mistake) -> bool:
    """Whether a mistake may change the process that makes it, or may be another one in ours."""
    own = mistake.setup or mistake.unprivileged or mistake.variables or mistake.printed
    return bool(own) or any(".py" in word for word in mistake.words)


HERE = [mistake for mistake in MISTAKES if not needs_process(mistake)]


def ways() -> Iterator[Any]:
    """Yield the mistakes with the ways to run them as processes: whether in a terminal."""
    alone = cycle([False, True])
    for number, mistake in enumerate(MISTAKES):
        usual = next(alone) if needs_process(mistake) else True if number % 8 == 0 else None
        for terminal in (False, True):
            case = (mistake, terminal)
            yield case if terminal is usual else slow(case)


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


@pytest.mark.parametrize("mistake", HERE, ids=str)
def test_a_mistake_is_one_line_and_an_exit_code(mistake, folder, unchanged, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    unchanged.update(mistake.leaves)
    code = main(mistake.words)
    assert_one_line(mistake, Ended(code, *capsys.readouterr()), terminal=False)


@pytest.mark.parametrize(("mistake", "terminal"), list(ways()), ids=str)
def test_a_process_says_it_in_a_pipe_and_in_a_terminal(
    mistake, terminal, server, folder, unchanged
):
    unchanged.update(mistake.leaves)
    command = server.start(
        mistake.words,
        folder,
        terminal=terminal,
        setup=mistake.setup,
        variables=mistake.variables,
        unprivileged=mistake.unprivileged,
    )
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
@pytest.mark.parametrize("alone", [False, slow(True)], ids=["forked", "alone"])
def test_a_stream_that_is_closed_or_full_is_one_line_or_none(
    words, streams, code, said, alone, server, folder, unchanged
):
    if alone:
        ended = run_process(words, folder, streams=streams)
    else:
        ended = server.start(words, folder, streams=streams).ended()
    assert ended.code == code
    assert "Traceback" not in ended.err
    assert "Exception" not in ended.err
    assert ended.err.count("\n") == bool(said)
    assert re.search(said, ended.err)


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        (["frobnicate"], (CLOSED, CLOSED, CLOSED), 2, ""),
        (["templates"], (os.devnull, CLOSED, PIPE), 2, "cannot write the output: it is closed"),
        (["--help"], (os.devnull, FULL, PIPE), 2, "No space left"),
    ],
    ids=str,
)
def test_a_process_whose_streams_are_closed_or_full_does_the_same(
    words, streams, code, said, folder
):
    ended = run_process(words, folder, streams=streams)
    assert (ended.code, ended.err.count("\n")) == (code, bool(said))
    assert said in ended.err


@pytest.mark.parametrize(
    "words", [["templates"], slow(["--help"]), slow(["cache", "info"])], ids=str
)
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
