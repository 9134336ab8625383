"""Kills writers of one log at random, and checks that nothing acknowledged is lost.

    python benchmarks/records_kill.py --minutes 10 [--writers 8] [--killed 3] [--every 2] [--save]

Half of the writers append batches of records; the others claim and add them as runs do. A writer
notes a record in a file of its own when the append has returned: the record is acknowledged. Every
few seconds some writers are killed (SIGKILL) and replaced; some of their lines are larger than what
is written at once, so that lines are torn. Meanwhile a reader loads the log again and again.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import here
from common import Row, parser, report, row

from records import Entry, Journal, Record, RecordError, RecordStore, RecordWarning

LARGE = 1_000_000
"""Bytes of the larger lines; one in 50."""

READ_EVERY_S = 1.0

EXPECTED = ("is torn", "has locked it: waiting")
"""What may be warned of: a reader sees what a kill has left, a slow disk keeps a lock for long."""

Name = tuple[int, int]
"""Writer, or -1 for those that share; number of the record."""


def make(writer: int, number: int) -> Record:
    """Return a record of some size; `writer` is -1 for those that any journal may add."""
    padding = LARGE if number % 50 == 7 else 1000
    return Record(
        workload={"template": "killed", "args": {"writer": writer}},
        target="llvm",
        config={"index": number, "values": {"k": number, "padding": "x" * padding}},
        costs_s=[1e-3 + 1e-9 * number],
        seed=0,
        fingerprints={"template": "aa"},
    )


def name_of(record: Record) -> Name:
    """Return how a writer notes a record."""
    return record.args["writer"], record.index


# -- a writer ----------------------------------------------------------------------------------


def write(log: str, writer: int) -> None:
    """Append for ever, and note on the standard output what is acknowledged."""
    if writer % 2:
        append_batches(RecordStore(log), writer)
    else:
        add_claimed(Journal(RecordStore(log)))


def append_batches(store: RecordStore, writer: int) -> None:
    """Append records of this writer's own, one to three at a time."""
    numbers = itertools.count()
    for size in itertools.cycle((1, 2, 3)):
        records = [make(writer, next(numbers)) for _ in range(size)]
        store.append(records)
        acknowledge(records)


def add_claimed(journal: Journal) -> None:
    """Claim and add the next records that nobody has, as a run does."""
    number = max((r.index for r in journal.new_records() if r.args["writer"] < 0), default=-1)
    while True:
        number += 1
        record = make(-1, number)
        if journal.claim(Entry.of(record)) and journal.add(record):
            acknowledge([record])


def acknowledge(records: list[Record]) -> None:
    """Note records; what a process has written survives it."""
    lines = "".join(f"{writer} {number}\n" for writer, number in map(name_of, records))
    os.write(1, lines.encode())


# -- who kills and reads -----------------------------------------------------------------------


class Writers:
    """Processes that write one log, each with a file of what it has acknowledged."""

    def __init__(self, folder: Path, log: Path, count: int) -> None:
        self._folder, self._log = folder, log
        self._started = 0
        self._running = [self._start(slot) for slot in range(count)]
        self.killed = 0
        self.ended: list[str] = []  # what those said that ended on their own

    def _start(self, slot: int) -> subprocess.Popen[bytes]:
        # Even numbers add what they claim, odd ones append.
        number = 2 * self._started + slot % 2
        self._started += 1
        words = [sys.executable, __file__, "--write", str(self._log), str(number)]
        with (
            open(self._folder / f"acknowledged-{number}", "wb") as output,
            open(self._folder / f"errors-{number}", "wb") as errors,
        ):
            return subprocess.Popen(words, stdout=output, stderr=errors, env=here.environment())

    def kill(self, slots: list[int], replace: bool = True) -> None:
        """Kill some, and start others in their place."""
        for slot in slots:
            process = self._running[slot]
            if process.poll() is not None:
                self.ended.append(f"a writer ended with {process.returncode}")
            process.kill()
            process.wait()
            self.killed += 1
            if replace:
                self._running[slot] = self._start(slot)

    def acknowledged(self) -> set[Name]:
        """Return what all of them have acknowledged; a line that is cut is none."""
        texts = [path.read_bytes() for path in self._folder.glob("acknowledged-*")]
        lines = [line for text in texts for line in text.split(b"\n")[:-1]]
        return {(int(writer), int(number)) for writer, number in map(bytes.split, lines)}

    def complaints(self) -> list[str]:
        """Return what writers warned of or failed with, but for torn lines and waiting."""
        texts = [path.read_text() for path in self._folder.glob("errors-*")]
        lines = [line for text in texts for line in text.splitlines() if not line.startswith(" ")]
        return self.ended + [line for line in lines if not is_expected(line)]


def is_expected(text: str) -> bool:
    """Whether a warning is one of those that kills, or a busy machine, give rise to."""
    return any(word in text for word in EXPECTED)


def read_all(log: Path, until: threading.Event, problems: list[str]) -> None:
    """Load the log again and again; what is expected is no problem, anything else is."""
    while not until.wait(READ_EVERY_S):
        problems += problems_of(log)[1]


def problems_of(log: Path) -> tuple[list[Record], list[str]]:
    """Return the records of the log, and what was wrong but for torn lines and waiting."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", RecordWarning)
        try:
            records = RecordStore(log).load()
        except RecordError as error:
            return [], [str(error)]
    texts = [str(warning.message) for warning in told]
    return records, [text for text in texts if not is_expected(text)]


def run(seconds: float, writers: int, killed: int, every_s: float, seed: int) -> list[Row]:
    """Let processes write and be killed for so long, and judge what the log holds."""
    rng, problems, done = random.Random(seed), list[str](), threading.Event()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log.jsonl"
        running = Writers(folder, log, writers)
        reader = threading.Thread(target=read_all, args=(log, done, problems))
        reader.start()
        try:
            end = time.monotonic() + seconds
            while (left_s := end - time.monotonic()) > 0:
                time.sleep(min(left_s, every_s * rng.uniform(0.5, 1.5)))
                running.kill(rng.sample(range(writers), killed))
        finally:
            done.set()
            reader.join()
            running.kill(list(range(writers)), replace=False)
        RecordStore(log).append([make(-2, 0)])  # heals what the last kills have torn
        records, found = problems_of(log)
        problems += found + running.complaints()
        there, acknowledged = Counter(map(name_of, records)), running.acknowledged()
        size_mb = log.stat().st_size / 1e6
    for problem in problems[:5]:
        print(problem, file=sys.stderr)
    unread = sum("skipped" in problem for problem in problems)
    return [
        row("time", seconds / 60, "min"),
        row("writers at a time", writers, "processes"),
        row("killed", running.killed, "processes"),
        row("records", len(records), "records"),
        row("size of the log", size_mb, "MB"),
        row("acknowledged", len(acknowledged), "records", 1),  # else nothing was shown
        row("acknowledged and lost", len(acknowledged - there.keys()), "records", 0, True),
        row("in the log twice", sum(n > 1 for n in there.values()), "records", 0, True),
        row("readings that skipped a line", unread, "readings", 0, True),
        row("other problems of readers and writers", len(problems) - unread, "lines", 0, True),
    ]


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--writers", type=int, default=8)
    options.add_argument("--killed", type=int, default=3, help="killed at a time")
    options.add_argument("--every", type=float, default=2.0, help="seconds between, on average")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--write", nargs=2, metavar=("LOG", "NUMBER"), help="be a writer")
    given = options.parse_args()
    if given.write:
        write(given.write[0], int(given.write[1]))
    rows = run(given.minutes * 60, given.writers, given.killed, given.every, given.seed)
    report("records_kill", rows, given.json, given.save)
    sys.exit(any(r.met is False for r in rows))


if __name__ == "__main__":
    main()
