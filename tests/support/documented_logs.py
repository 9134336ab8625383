"""The logs that docs/record_tools.md uses in its examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from records import Record
from support.sample_records import log_of

_ARGS = {"m": 512, "n": 512, "k": 512, "dtype": "float32"}
_EPYC = {"kind": "cpu", "name": "AMD EPYC 9R14", "threads": 16}
_M1 = {"kind": "cpu", "name": "Apple M1", "threads": 8}
_FAILURE = {"code": "RUN_TIMEOUT", "stage": "run", "message": "more than 10 s"}
_BEGIN_S = 1795773600.0  # 2026-11-27 10:00 UTC


def _trial(number: int, cost_s: float | None, **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "workload": {"template": "matmul", "args": _ARGS},
        "target": "llvm",
        "config": {"index": 37 * number, "values": {"tile_rows": number}},
        "costs_s": None if cost_s is None else (cost_s,),
        "error": None if cost_s else _FAILURE,
        "device": _EPYC,
        "seed": 0,
        "timestamp": _BEGIN_S + 20 * number,
        "fingerprints": {"space": "3f5c", "template": "64c7"},
    }
    return Record(**{**fields, **changes})


def make_logs(folder: Path) -> None:
    """Write tuned.jsonl, of a run, and other.jsonl, of another one that begins like it."""
    costs_us = [880, 412, None, 395, 1210, 388, None, 640, 402, 391]
    trials = [_trial(n, us and 1e-6 * us) for n, us in enumerate(costs_us)]
    finals = [
        _trial(
            n,
            1e-6 * us,
            timestamp=_BEGIN_S + 300,
            final={"comparison": "e1", "rank": rank, "over_default": over, "range": spread},
        )
        for rank, (n, us, over, spread) in enumerate(
            [(3, 393, 2.25, [2.2, 2.3]), (5, 397, 2.23, [2.2, 2.3]), (0, 884, None, None)]
        )
    ]
    log_of(folder / "tuned.jsonl", *trials, *finals)
    changed = replace(trials[7], costs_s=(1e-6,))
    elsewhere = [
        replace(trials[n], device=_M1, costs_s=(us * 1e-6,), timestamp=_BEGIN_S + 400 + n)
        for n, us in ((0, 930), (1, 655), (3, 702))
    ]
    old = {"template": "old_conv", "args": {"n": 56}}
    gone = [_trial(n, us * 1e-6, workload=old) for n, us in ((20, 527), (21, 498))]
    log_of(folder / "other.jsonl", *trials[:7], changed, *elsewhere, *gone)
    first, second = trials[:2]
    lines = [first.to_json_line(), "[1]", second.to_json_line(), first.to_json_line()[:40]]
    (folder / "damaged.jsonl").write_text("\n".join(lines))
