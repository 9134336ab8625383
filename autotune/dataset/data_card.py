"""The files next to a data set: its schema for programs, and its card for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.dataset.dataset_columns import SPLITS
from autotune.dataset.scan_logs import LogIndex
from autotune.errors import UsageError
from autotune.reuse.task_finder import REASONS
from autotune.system.words import counted, printable
from features import FEATURE_VERSION
from records.storage.files import open_to_read
from records.tables.table import Field, csv_options

FORMAT = "autotune data set"
VERSION = 1  # Version of the schema file and of the columns other than features.


def schema_path(data: Path) -> Path:
    """Return where the schema of a data set is."""
    return data.with_name(f"{data.name}.schema.json")


def schema_text(data: Path, fields: Sequence[Field], layouts: Sequence[str], rows: int) -> str:
    """Return the content of the schema file."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "feature_version": FEATURE_VERSION,
        "file": data.name,
        "rows": rows,
        "layouts": list(layouts),
        "columns": [field.to_json() for field in fields],
    }
    if data.suffix == ".csv":
        content["read_csv"] = csv_options(fields)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read_schema(data: Path) -> list[Field]:
    """Return the columns of a data set, from the schema file next to it.

    UsageError if there is none, or it is not one that this version understands. RecordError if a
    column is not what it should be.
    """
    path = schema_path(data)
    try:
        with open_to_read(path) as file:
            content = json.loads(file.read())
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; the schema stands beside its data set"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{path} is not a schema of a data set: its format is not {FORMAT!r}")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{path} is of version {content.get('version')}, this autotune reads {VERSION}"
        )
    columns = content.get("columns")
    if not isinstance(columns, list):
        raise UsageError(f"{path} is not a schema of a data set: it has no list of columns")
    return [Field.from_json(column) for column in columns]


_MAX_WORKLOADS = 50  # Workloads that a card lists.


@dataclass
class ExportStatistics:
    """Counters that are updated while rows are written."""

    # Rows without features from loops, by reason and template.
    missing: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Rows by split.
    splits: Counter[str] = field(default_factory=Counter)
    device_splits: Counter[str] = field(default_factory=Counter)
    # Workloads' fingerprints by split.
    workloads: dict[str, set[str]] = field(default_factory=dict)


def card_path(data: Path) -> Path:
    """Return where the card of a data set is."""
    return data.with_name(f"{data.name}.card.md")


def card_text(
    data: Path,
    log_index: LogIndex,
    fields: Sequence[Field],
    layouts: Sequence[str],
    statistics: ExportStatistics,
) -> str:
    """Return the data card, in Markdown."""
    failed, further = sum(log_index.errors.values()), len(log_index.workloads()) - _MAX_WORKLOADS
    parts = [
        f"# {data.name}\n",
        f"{counted(len(log_index), 'measurement')} of "
        f"{counted(len(log_index.workloads()), 'workload')} "
        f"(each on one target), {failed} of them failures; {counted(len(fields), 'column')}. "
        f"Exported by autotune; features of version {FEATURE_VERSION} in the layout"
        f"{'s' if len(layouts) > 1 else ''} {', '.join(layouts)}. `{schema_path(data).name}` "
        "explains every column.\n",
        "## Where it is from\n",
        _table(("log", "rows"), log_index.lengths().items()),
        _table(("workload", "target", "rows", "fastest [s]"), _workloads(log_index)),
        f"... and {counted(further, 'more workload')}.\n" if further > 0 else "",
        _table(("device", "rows"), [(d or "not known", n) for d, n in log_index.devices.items()]),
        "## Failures and missing features\n",
        "A failed measurement keeps its row: `ok` is false, `throughput` 0, its costs NaN; the "
        "error columns say what happened.\n",
        _table(("error_code", "rows"), sorted(log_index.errors.items())) if failed else
        "No measurement failed.\n",
        _missing(statistics, len(log_index)),
        "## Splits\n",
        "A workload is in one split, chosen by a hash of its fingerprint: 80 % of the workloads "
        "train, 10 % validate, 10 % test. The choice is the same in every export; with few "
        "workloads a split may be empty.\n",
        _table(
            ("split", "workloads", "rows"),
            ((s, len(statistics.workloads.get(s, ())), statistics.splits[s]) for s in SPLITS),
        ),
        _device_splits(statistics),
        "## What to note\n",
        _notes(log_index),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def missing_text(statistics: ExportStatistics, rows: int) -> str:
    """Return one line on features that are missing; empty if none are."""
    lacking = sum(statistics.missing.values())
    if not lacking:
        return ""
    by_reason: dict[str, Counter[str]] = {}
    for (reason, template), n in statistics.missing.items():
        by_reason.setdefault(reason, Counter())[template] += n
    reasons = ", ".join(f"{n.total()} {reason} ({_some(n)})" for reason, n in by_reason.items())
    return f"{lacking} of {rows} rows have no features from loops: {reasons}"


def _some(templates: Counter[str], most: int = 3) -> str:
    names = [name for name, _ in templates.most_common(most)]
    return ", ".join(names) + (", ..." if len(templates) > most else "")


def _missing(statistics: ExportStatistics, rows: int) -> str:
    if not statistics.missing:
        return "Every row has its features.\n"
    found = [(*key, n, REASONS[key[0]]) for key, n in sorted(statistics.missing.items())]
    lacking = sum(statistics.missing.values())
    return (
        f"{lacking} of {rows} rows have no features from loops: they are NaN there. Knob features, "
        "times and all else are kept.\n\n"
        + _table(("features_missing", "template", "rows", "meaning"), found)
    )


def _workloads(log_index: LogIndex) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for names, groups in list(log_index.workloads().items())[:_MAX_WORKLOADS]:
        best_s = [cost for group in groups for cost in group.best_s.values()]
        fastest = f"{min(best_s):.3g}" if best_s else "none"
        found.append((*names, sum(group.records for group in groups), fastest))
    return found


def _device_splits(statistics: ExportStatistics) -> str:
    if not statistics.device_splits:
        return ""
    return "`device_split` holds out devices instead of workloads.\n\n" + _table(
        ("device_split", "rows"), ((s, statistics.device_splits[s]) for s in SPLITS)
    )


def _notes(log_index: LogIndex) -> str:
    raced = (
        f"{counted(log_index.raced, 'row')} (`raced`) stopped early, as clearly slower than the "
        "best: fewer repeats. "
        if log_index.raced
        else ""
    )
    return (
        f"{raced}A tuner chose what was measured, so fast configurations are over-represented. "
        "Times of one machine at one time compare with one another only; `relative_throughput` "
        "is made for learning across workloads. `cost_s` is a median; `noise` says how far to "
        "trust it.\n"
    )


def _table(headers: Sequence[str], rows: Any) -> str:
    lines = [[str(cell) for cell in row] for row in rows]
    out = [headers, ["---"] * len(headers), *lines]
    cells = [[printable(c).replace("|", "\\|").replace("\n", " ") for c in line] for line in out]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"
