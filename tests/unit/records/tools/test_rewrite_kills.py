"""A log that is rewritten while others append to it loses nothing, also if that is killed."""

import random
import subprocess
import sys

from support.command_line import environment
from support.sample_records import log_of, made

from records import RecordStore

REWRITE = """
import sys
from pathlib import Path
from records.tools.new_logs import rewrite

print("begun", flush=True)
while True:
    rewrite(Path(sys.argv[1]), lambda lines: lines())
"""

KILLS = 12


def start(log):
    """Start a process that rewrites a log again and again, and wait until it does."""
    process = subprocess.Popen(
        [sys.executable, "-c", REWRITE, str(log)],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    process.stdout.read(5)
    return process


def test_nothing_that_was_appended_is_lost_by_rewriting_that_is_killed(tmp_path):
    log, draw = log_of(tmp_path / "log.jsonl"), random.Random(0)
    store, appended = RecordStore(log), 0
    for _ in range(KILLS):
        with start(log) as process:
            for _ in range(draw.randrange(1, 12)):
                store.append([made(appended)])
                appended += 1
            process.kill()
    assert [record.index for record in store.load()] == list(range(appended))
