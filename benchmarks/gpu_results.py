"""Results of `gpu.py`, kept between calls: figures of rows, and their tuning."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_rows import COPY, Kernel
from here import ROOT

ABOUT_BEST = 1.01
"""A time that is at most so many times the best one counts as found."""


class Results:
    """Results of one device in a folder, which may hold those of others too.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    facts : mapping
        "device" and "versions".

    Attributes
    ----------
    path, log : Path
        Of the results, and of the measurements.
    facts : mapping
        As given.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", facts["device"]["name"]).strip("-")
        self.path, self.log = folder / f"{name}.json", folder / f"{name}.jsonl"
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self._data = {"copy": None, "tuning": {}, "rows": {}, **kept, **facts}

    def met(self, row: Kernel) -> bool:
        """Whether a row has reached its aim."""
        return bool(self._data["rows"].get(row.name, {}).get("ratio", 0.0) >= row.aim)

    def search(self, row: Kernel) -> dict[str, Any]:
        """Return the course of a row's tuning, to be added to.

        The latest "tuner", "seconds" and "trials" in all, "failed" ones among them, and "bests":
        for each time that was better than all before, the seconds and trials until then, and it.
        """
        empty = {"tuner": None, "seconds": 0.0, "trials": 0, "failed": 0, "bests": []}
        course: dict[str, Any] = self._data["tuning"].setdefault(row.name, empty)
        return course

    def put(self, row: Kernel, figures: Mapping[str, Any]) -> None:
        """Keep the figures of a row."""
        search = self.search(row)
        bests = search["bests"]
        found = next((b for b in bests if b[2] <= ABOUT_BEST * bests[-1][2]), [None, None, None])
        self._data["rows"][row.name] = {
            "workload": {"template": Path(row.template).name, "args": dict(row.args)},
            "against": row.against,
            "amount": row.amount,
            "aim": row.aim,
            "met": figures["ratio"] >= row.aim,
            **figures,
            "seconds_to_best": found[0],
            "trials_to_best": found[1],
            "tuner": search["tuner"],
            "tuning_s": search["seconds"],
            "trials": search["trials"],
            "failed": search["failed"],
            "date": _now(),
        }

    def put_copy(self, speeds: Mapping[str, float]) -> None:
        """Keep the copy bandwidth, in bytes per second, by bytes moved."""
        self._data["copy"] = dict(speeds)

    def save(self) -> None:
        """Write the results."""
        self._data.update(date=_now(), commit=_commit())
        self.path.write_text(json.dumps(self._data, indent=1) + "\n")

    def table(self, rows: Sequence[Kernel]) -> str:
        """Return the figures as lines of text, a row each."""
        name = self._data["device"].get("name")
        versions = ", ".join(f"{k} {v}" for k, v in self._data["versions"].items())
        copies = (f"{1e-9 * v:.0f} GB/s at {k} MiB" for k, v in (self._data["copy"] or {}).items())
        head = f"{'':19} {'ratio':>6} {'aim':>5}  {'speed':>12} {'against':>12}"
        lines = [f"{name}; {versions}", f"{self._data['date']}, commit {self._data['commit']}"]
        lines += [f"copy {', '.join(copies)}", f"{head}  {'trials':>6} {'seconds':>7}"]
        return "\n".join([*lines, *(self._line(row) for row in rows)])

    def _line(self, row: Kernel) -> str:
        found = self._data["rows"].get(row.name)
        if found is None:
            return f"{row.name:19} {'-':>6} {row.aim:5}"
        other = found["speed"] / found["ratio"]
        speeds = (f"{value:.0f} {row.unit}" for value in (found["speed"], other))
        effort = (found["trials_to_best"], found["seconds_to_best"])
        trials, seconds = ("-" if value is None else f"{value:.0f}" for value in effort)
        figures = " ".join(f"{text:>12}" for text in speeds)
        verdict = "met" if found["met"] else "missed"
        what = "" if row.against == COPY else row.against
        line = f"{row.name:19} {found['ratio']:6.3f} {row.aim:5}  {figures}"
        return f"{line}  {trials:>6} {seconds:>7}  {verdict} {what}".rstrip()


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _commit() -> str | None:
    """Return the commit that is checked out, with a + if files differ from it; None without git."""
    try:
        told = [
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "-uno"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    commit, changes = (done.stdout.strip() for done in told)
    return f"{commit}+" if changes else commit
