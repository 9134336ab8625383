"""Reads tables and logs with pandas; only this file imports pandas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from records.log_set import Paths, log_files
from records.record_errors import TableError
from records.storage.files import open_to_read
from records.tables.parquet import arrow_texts
from records.tables.read_columns import read_columns
from records.tables.record_columns import FIELDS
from records.tables.table import SUFFIXES, Field, csv_options


def read_frame(path: Path, fields: Sequence[Field]) -> pd.DataFrame:
    """Return a table with the dtypes of its fields, equal for equal tables in any format.

    Categories are sorted and not ordered.

    Raises TableError if the file cannot be read, or does not hold these fields.
    """
    if path.suffix not in SUFFIXES:
        raise TableError(f"{path}: a data set ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    try:
        open_to_read(path).close()  # opening never waits for a pipe
        raw = _read(path, fields)
    except ImportError as error:
        raise TableError(
            f"{path} needs pyarrow to be read: pip install 'kernel-autotune[export]'"
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise TableError(f"cannot read {path} as its schema says: {error}") from error
    missing = [field.name for field in fields if field.name not in raw]
    if missing:
        raise TableError(f"{path} has no column {missing[0]!r}, which its schema names")
    return pd.DataFrame({field.name: _column(raw[field.name], field) for field in fields})


def frame_of(paths: Paths) -> pd.DataFrame:
    """Return the records of logs as a frame; see `records.to_frame`."""
    parts = [(str(path), part) for path in log_files(paths) for part in read_columns(path)]
    numbers: dict[str, int] = {}
    logs = [numbers.setdefault(name, len(numbers)) for name, _ in parts]
    rows = np.repeat(np.array(logs, np.int32), [part.count for _, part in parts])
    data: dict[str, Any] = {"log": _categories(list(numbers), rows)}
    for field in FIELDS[1:]:
        data[field.name] = _joined(field, [part.columns.pop(field.name) for _, part in parts])
    return pd.DataFrame(data, copy=False)


def _joined(field: Field, pieces: Sequence[Any]) -> Any:
    """Return the pieces of a column as one of the dtype of its field."""
    if field.dtype == "category":
        numbers: dict[str, int] = {}
        codes = []
        for texts, own in pieces:
            new = [numbers.setdefault(text, len(numbers)) for text in texts]
            codes.append(np.array([*new, -1], np.int32)[own])  # the last one is for none
        return _categories(list(numbers), np.concatenate([*codes, np.zeros(0, np.int32)]))
    if field.dtype == "string":
        return _strings(pieces)
    return np.concatenate([*pieces, np.zeros(0, field.dtype)])


def _strings(pieces: Sequence[bytes]) -> Any:
    """Return texts, each with NUL behind it, as pandas keeps them."""
    if pd.StringDtype().storage == "pyarrow":
        return pd.array(arrow_texts(pieces), dtype="string")
    found = [text or None for piece in pieces for text in piece.decode().split("\0")[:-1]]
    return pd.array(found, dtype="string")


def _categories(texts: Sequence[str], codes: npt.NDArray[np.int32]) -> pd.Categorical:
    """Return texts, given by their numbers (-1: none), as sorted categories."""
    order = sorted(range(len(texts)), key=lambda number: texts[number])
    places = np.full(len(texts) + 1, -1, np.int32)
    places[order] = np.arange(len(texts))
    categories = pd.Index([texts[number] for number in order], dtype=object)
    return pd.Categorical.from_codes(places[codes], categories=categories)


def _read(path: Path, fields: Sequence[Field]) -> Any:
    if path.suffix == ".parquet":
        return pd.read_parquet(path, engine="pyarrow")
    if path.suffix == ".csv":
        version = tuple(int(part) for part in pd.__version__.split(".")[:2])
        exact: Any = {"float_precision": "round_trip"} if version < (3, 1) else {}
        return pd.read_csv(path, **csv_options(fields), **exact)
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _column(values: Any, field: Field) -> Any:
    """Return a column of the dtype of its field."""
    if not field.is_text:
        return pd.Series(values, dtype=field.dtype)
    texts = [text if isinstance(text, str) and text else None for text in values]
    if field.dtype == "string":
        return pd.Series(texts, dtype="string")
    known = sorted({text for text in texts if text is not None})
    return pd.Series(pd.Categorical(texts, categories=pd.Index(known, dtype=object)))
