"""Logging: the library is silent, warnings are one line, --verbose shows the rest with times."""

import logging
import re
import subprocess
import sys

import pytest

from autotune.cli.main import main
from autotune.cli.terminal.output import LIBRARIES
from autotune.errors import UsageError


def test_the_library_prints_nothing_of_what_it_logs():
    code = (
        "import logging, autotune, records\n"
        "for name in ('autotune.x', 'records.storage.append_only_log'):\n"
        "    logging.getLogger(name).error('loud')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.fixture
def logs_while_listing(monkeypatch):
    """Let `autotune templates` log and print nothing."""

    def command(*_):
        logging.getLogger("autotune.x").debug("a\ndetail")
        logging.getLogger("records.y").info("an event")
        logging.getLogger("autotune.x").warning("careful")
        logging.getLogger("stranger").info("of no interest")
        return []

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", command)


@pytest.mark.parametrize(
    "words", [["-v", "templates"], ["templates", "--verbose"], ["templates", "-v", "-v"]], ids=str
)
def test_verbose_shows_details_with_their_times_wherever_it_stands(
    words, logs_while_listing, capsys
):
    levels = [logging.getLogger(name).level for name in LIBRARIES]
    assert main(words) == 0
    lines = capsys.readouterr().err.splitlines()
    clock = r"\d\d:\d\d:\d\d\.\d{3}"
    assert re.fullmatch(rf"{clock} debug autotune\.x: a detail", lines[0])
    assert re.fullmatch(rf"{clock} info records\.y: an event", lines[1])
    assert lines[2:] == ["autotune: warning: careful"]
    assert [logging.getLogger(name).level for name in LIBRARIES] == levels


def test_without_verbose_only_warnings_are_shown(logs_while_listing, capsys):
    assert main(["templates"]) == 0
    assert capsys.readouterr().err == "autotune: warning: careful\n"


def test_verbose_tells_where_a_mistake_was_met(monkeypatch, capsys):
    def fail(*_):
        raise UsageError("not so")

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", fail)
    assert main(["templates", "-v"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "autotune: not so"
    assert any(line.startswith("  Traceback") for line in lines)
    assert "autotune.errors.UsageError: not so" in lines[-2]
    assert main(["templates"]) == 2
    assert capsys.readouterr().err == "autotune: not so\n"


def test_a_current_folder_that_has_been_deleted_is_a_mistake(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert main(["templates"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err == "autotune: the current folder has been deleted; change to another one\n"


def test_what_the_system_refuses_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def fail(*_):
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr("autotune.cli.commands.templates.list_templates", fail)
    assert main(["templates"]) == 2
    assert capsys.readouterr().err == (
        "autotune: the system refuses to go on: Permission denied: /some/file\n"
    )
