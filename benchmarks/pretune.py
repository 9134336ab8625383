"""Makes the records that ship from the logs of runs: the best of each workload.

    python benchmarks/pretune.py LOGS... [--trials 3] [--out FOLDER]

Writes a file per device, named after it and the day of its last record. See
records/pretuned/README.md.
"""

from __future__ import annotations

import argparse
import getpass
import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import here

from autotune.operators.template_lookup import list_templates
from records import Record, RecordStore, config_key, finals, ranked, workload_key
from records.formats import load_own
from records.groups import group_key
from records.record import canonical

PRETUNED = here.ROOT / "records" / "pretuned"

PATH = re.compile(r"(^|[\s'\"=:(])(~|/[\w.+-]+)/[\w.+-]")


def best_of(records: Iterable[Record], trials: int) -> list[Record]:
    """Return what ships of some records: see records/pretuned/README.md."""
    known = {entry.name for entry in list_templates()}
    groups: dict[Any, list[Record]] = {}
    for record in records:
        if record.template in known and record.device.get("name"):
            groups.setdefault(group_key(record), []).append(record)
    found = [record for group in groups.values() for record in _best_of_group(group, trials)]
    return sorted(found, key=_order)


def _best_of_group(records: list[Record], trials: int) -> list[Record]:
    """Return the latest final comparison, without failures, and the fastest trials."""
    usable = {config_key(record) for record in ranked(records)}
    compared = [r for r in finals(records) if r.ok and config_key(r) in usable]
    return compared + ranked(record for record in records if record.is_trial)[:trials]


def _order(record: Record) -> tuple[Any, ...]:
    rank = -1 if record.final is None else record.final["rank"]
    return workload_key(record), record.is_trial, rank, record.cost_s, record.timestamp


def private_text(record: Record, names: Iterable[str]) -> str | None:
    """Return a text in a record that has a path or one of some names; None if there is none."""
    for text in _texts(record.to_json()):
        words = set(re.split(r"[^\w.-]+", text))
        if PATH.search(text) or words & {name for name in names if name}:
            return text
    return None


def _texts(data: Any) -> Iterator[str]:
    """Yield all texts in plain data, keys too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        data = list(data.values())
    if isinstance(data, list):
        for value in data:
            yield from _texts(value)


def file_name(records: list[Record]) -> str:
    """Return the name of the file of one device's records: device, threads, day."""
    device = records[0].device
    words = [str(device["name"]), str(device.get("model", ""))]
    if "threads" in device:
        words.append(f"{device['threads']} threads")
    name = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")
    day = time.strftime("%Y-%m-%d", time.gmtime(max(record.timestamp for record in records)))
    return f"{name}-{day}.jsonl"


def write(folder: Path, records: Iterable[Record]) -> list[Path]:
    """Write a file per device, in place of one of that name; return the files."""
    devices: dict[str, list[Record]] = {}
    for record in records:
        devices.setdefault(canonical(record.device), []).append(record)
    paths = []
    for found in devices.values():
        path = folder / file_name(found)
        partial = path.with_name(f".{path.name}.part")
        partial.unlink(missing_ok=True)
        RecordStore(partial).append(found)
        paths.append(partial.rename(path))
    return paths


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("logs", nargs="+", metavar="LOG")
    options.add_argument("--trials", type=int, default=3, help="trials of each workload")
    options.add_argument("--out", type=Path, default=PRETUNED, metavar="FOLDER")
    given = options.parse_args()
    records = [record for log in given.logs for record in load_own(RecordStore(log))]
    kept = best_of(records, given.trials)
    if not kept:
        sys.exit("no record of these logs can ship: none succeeded, or their templates do not ship")
    for record in kept:
        if (text := private_text(record, (socket.gethostname(), getpass.getuser()))) is not None:
            sys.exit(
                f"a record of {record.template} has a path or a name of this machine: {text!r}"
            )
    for path in write(given.out, kept):
        print(f"{path}: {len(RecordStore(path).load())} of {len(records)} records")


if __name__ == "__main__":
    main()
