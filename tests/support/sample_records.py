"""Records of a workload that exists nowhere, for tests of logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from records import Record, RecordStore

CPU = {"kind": "cpu", "name": "Some CPU", "threads": 4}


def made(index: int = 0, cost_s: float | None = 1e-3, **changes: Any) -> Record:
    """Return a record of a configuration; one without a cost has failed."""
    failure = {"code": "RUN_TIMEOUT", "stage": "run", "message": "too slow"}
    fields: dict[str, Any] = {
        "workload": {"template": "made", "args": {"n": 64}},
        "target": "llvm",
        "config": {"index": index, "values": {"k": index}},
        "costs_s": None if cost_s is None else (cost_s,),
        "error": failure if cost_s is None else None,
        "device": CPU,
        "seed": 0,
        "timestamp": 1000.0 + index,
        "fingerprints": {"space": "5", "template": "7"},
    }
    return Record(**{**fields, **changes})


def made_final(index: int, cost_s: float | None, rank: int, **changes: Any) -> Record:
    """Return a record of a final comparison."""
    final = {"comparison": "c", "rank": rank, "over_default": None, "range": None}
    return made(index, cost_s, **{"final": final, "timestamp": 5000.0 + index, **changes})


def log_of(path: Path, *records: Record) -> Path:
    """Write a log."""
    path.touch()
    RecordStore(path).append(records)
    return path
