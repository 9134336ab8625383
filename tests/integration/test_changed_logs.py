"""Whole runs whose log is changed by others in between: said at once, and nothing more is lost.

What happens is in a table of docs/records.md. The run itself does what others would do, after its
second measurement: so that is in the middle of the run however fast the machine is.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.command_line import QUICK, SMALL, Ended
from support.sample_records import log_of, made

from records import Record, RecordStore
from records.storage.files import GZIP

# Run by the command: a record that the journal has acknowledged is noted.
SETUP = """
import gzip, os, shutil
from pathlib import Path
from records.storage.journal import Journal

log, old, other = Path("logs/log.jsonl"), Path("logs/old.jsonl"), Path("other.jsonl")
notes = open("notes", "a", buffering=1)
add_all = Journal.add_all

def unprivileged():
    if os.geteuid() == 0:
        os.seteuid(65534)

def noted(self, records):
    before = Path("notes").read_text().count("\\n")
    added = add_all(self, records)
    notes.writelines(record.to_json_line() + "\\n" for record in added)
    if before < 2 <= before + len(added):
        HARM
    return added

Journal.add_all = noted
"""

LOST = "the log was deleted, replaced or cut during this run: records that were in it are gone; .*"
AT_END = r"the log holds \d+ records? now: some that were in it during this run are gone"
RESTORED = (
    r"the log was cut, or something else written over it, during this run: {} of this run will be "
    r"added to it again"
)
TORN = r"line \d+ is torn \(a crash while appending\?\); skipped"


@dataclass(frozen=True)
class Change:
    """What others do to a log, and what the run does then.

    `code`: Python; it has the paths `log`, `old` (in the same folder) and `other` (another log).
    `warned`: regular expressions of the warnings, which all name the log.
    `ended`: regular expression of the line with which the run ends, if it does at once.
    `where`: the files that then hold what the run has measured; of `None`, some of it is gone.
    `others`: whether the log holds the records of the other log, too.
    """

    code: str
    warned: tuple[str, ...] = ()
    ended: str = ""
    where: tuple[str, ...] | None = ("log.jsonl",)
    others: bool = False


BOTH = ("log.jsonl", "old.jsonl")
RENAMED = "log.rename(old)"

CHANGES = {
    "renamed": Change(RENAMED, (LOST, AT_END), where=BOTH),
    "deleted": Change("log.unlink()", (LOST, AT_END), where=None),
    "deleted with its folder": Change("shutil.rmtree('logs')", (LOST, AT_END), where=None),
    "emptied": Change("os.truncate(log, 0)", (LOST, AT_END), where=None),
    "cut inside of its first line": Change(
        "os.truncate(log, 100)", (TORN, LOST, AT_END), where=None
    ),
    "cut": Change(
        "os.truncate(log, log.stat().st_size * 3 // 4)", (TORN, RESTORED.format("1 record"))
    ),
    "replaced by another log": Change(
        f"{RENAMED}; shutil.copy(other, log)", (RESTORED.format("2 records"),), others=True
    ),
    "written over with another log": Change(
        "log.write_bytes(other.read_bytes())", (RESTORED.format("2 records"),), others=True
    ),
    "replaced by a link to another log": Change(
        f"{RENAMED}; log.symlink_to(other.absolute())", (RESTORED.format("2 records"),), others=True
    ),
    "replaced by a link to where it is now": Change(f"{RENAMED}; log.symlink_to('old.jsonl')"),
    "replaced by a link to nothing": Change(
        f"{RENAMED}; log.symlink_to('new.jsonl')", (LOST, AT_END), where=BOTH
    ),
    "appended to": Change("log.open('ab').write(other.read_bytes())", others=True),
    "appended to, unfinished": Change("log.open('ab').write(other.read_bytes()[:300])", (TORN,)),
    "appended to with something else": Change(
        "log.open('ab').write(b'some text\\n\\xff\\xfe\\nno end')",
        (r"skipped 2 lines .*", r"skipped 1 line .*"),
    ),
    "appended to by a later version": Change(
        "log.open('ab').write(b'{\"schema\": 99}\\n')", ended="line 3: record of schema 99, .*"
    ),
    "replaced by a folder": Change(
        f"{RENAMED}; log.mkdir()", ended=".*: Is a directory", where=("old.jsonl",)
    ),
    "replaced by a pipe": Change(
        f"{RENAMED}; os.mkfifo(log)",
        ended=".*: it is a device or a pipe, and no regular file",
        where=("old.jsonl",),
    ),
    "replaced by a link to itself": Change(
        f"{RENAMED}; log.symlink_to('log.jsonl')",
        ended=".*: Too many levels of symbolic links",
        where=("old.jsonl",),
    ),
    "compressed": Change(
        "log.write_bytes(gzip.compress(log.read_bytes()))", ended=".* is not a log of records, .*"
    ),
    "made unreadable": Change("log.chmod(0); unprivileged()", ended=".*: Permission denied"),
    "made read-only": Change("log.chmod(0o444); unprivileged()", ended=".*: Permission denied"),
    "in a folder that may not be entered": Change(
        "log.parent.chmod(0); unprivileged()", ended=".*: Permission denied"
    ),
}
# Others do the same by other calls.
SLOW = {
    "emptied", "deleted", "replaced by a link to another log", "appended to with something else",
    "cut inside of its first line", "written over with another log", "replaced by a pipe",
    "replaced by a link to itself", "made read-only", "in a folder that may not be entered",
}  # fmt: skip


@pytest.fixture
def other(tmp_path: Path) -> list[Record]:
    """Another log, of another workload."""
    workload = {"template": "softmax", "args": {"m": 8, "n": 8}}
    log = log_of(tmp_path / "other.jsonl", *(made(n, workload=workload) for n in range(20)))
    return RecordStore(log).load()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CHANGES]
)
def test_a_run_whose_log_is_changed_says_so_and_loses_nothing_more(
    name: str, other: list[Record], tmp_path: Path, call: Callable[..., Ended]
) -> None:
    change = CHANGES[name]
    (tmp_path / "logs").mkdir()
    words = ["--trials", "4", "--tuner", "random", "--seed", "1", "--log", "logs/log.jsonl"]
    setup = SETUP.replace("HARM", change.code)
    done = call("run", "matmul", *SMALL, *words, *QUICK, setup=setup)
    (tmp_path / "logs").chmod(0o755)

    *warnings, last = done.err.split("\n")
    assert last == ""
    expected = [f"autotune: warning: logs/log.jsonl: {text}" for text in change.warned]
    expected += [f"autotune: .*logs/log.jsonl.*{change.ended}"] * bool(change.ended)
    assert len(warnings) == len(expected), done.err
    assert all(map(re.fullmatch, expected, warnings)), done.err
    assert done.code == (2 if change.ended else 0)

    acknowledged = (tmp_path / "notes").read_text().splitlines()
    assert len(acknowledged) >= (2 if change.ended else 4)
    held = lines_of(tmp_path / "logs", change.where or ("log.jsonl",))
    assert held.issuperset(acknowledged[2:] if change.where is None else acknowledged)
    if change.others:
        assert held.issuperset(record.to_json_line() for record in other)


def lines_of(folder: Path, names: tuple[str, ...]) -> set[str]:
    """Return the lines of some logs, compressed or not."""
    found = set[str]()
    for name in names:
        data = (folder / name).read_bytes()
        data = gzip.decompress(data) if data.startswith(GZIP) else data
        found |= set(data.decode(errors="replace").splitlines())
    return found


def test_the_changes_are_those_of_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    table = text[text.index("| during a run a log is |") :].split("\n\n")[0]
    told = {}
    for row in table.splitlines()[2:]:
        names, _, code = (cell.strip() for cell in row.strip("|").split(" | "))
        told |= dict.fromkeys(names.split("; "), int(code))
    assert told == {name: 2 if change.ended else 0 for name, change in CHANGES.items()}
