"""Parquet files, and texts as pyarrow keeps them; only this file imports pyarrow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from records.record_errors import TableError
from records.tables.table import Field, Values


def require_pyarrow() -> Any:
    """Return pyarrow; TableError, with the remedy, where it is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TableError(
            "Parquet needs pyarrow: pip install 'kernel-autotune[export]', or choose .csv or .npz"
        ) from error
    return pyarrow


class ParquetWriter:
    """A group of rows per batch; `pandas.read_parquet` gives the dtypes of the fields."""

    def __init__(self, path: Path, fields: Sequence[Field]) -> None:
        self._arrow = require_pyarrow()
        self._schema = self._schema_of(fields)
        self._file = self._arrow.parquet.ParquetWriter(path, self._schema, compression="zstd")

    def _schema_of(self, fields: Sequence[Field]) -> Any:
        arrow = self._arrow
        types = {
            "category": arrow.dictionary(arrow.int32(), arrow.string()),
            "string": arrow.string(),
            "bool": arrow.bool_(),
            "int64": arrow.int64(),
            "float64": arrow.float64(),
            "float32": arrow.float32(),
        }
        columns = [arrow.field(field.name, types[field.dtype]) for field in fields]
        return arrow.schema(columns, {"pandas": json.dumps(_for_pandas(fields))})

    def write(self, columns: Sequence[Values]) -> None:
        """Add rows."""
        arrays = [
            self._arrow.array(values, type=field.type)
            for field, values in zip(self._schema, columns, strict=True)
        ]
        self._file.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write the end of the file."""
        self._file.close()


def arrow_texts(pieces: Sequence[bytes]) -> Any:
    """Return texts as an array of pyarrow's, in a chunk per piece.

    `pieces`: texts in UTF-8, each with NUL behind it; an empty one is null.
    """
    import pyarrow

    chunks = []
    for piece in pieces:
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == 0)
        offsets = np.concatenate([np.zeros(1, np.int64), ends - np.arange(len(ends))])
        known = np.packbits(np.diff(offsets) > 0, bitorder="little")
        parts = map(pyarrow.py_buffer, (offsets, piece.replace(b"\0", b""), known))
        chunks.append(pyarrow.LargeStringArray.from_buffers(len(ends), *parts))
    return pyarrow.chunked_array(chunks, pyarrow.large_string())


def _for_pandas(fields: Sequence[Field]) -> dict[str, Any]:
    """Return what tells pandas that texts are of its type for texts, and that no index is kept."""
    texts = {"pandas_type": "unicode", "numpy_type": "string", "metadata": None}
    names = [field.name for field in fields if field.dtype == "string"]
    return {
        "index_columns": [],
        "column_indexes": [],
        "columns": [{"name": name, "field_name": name, **texts} for name in names],
        "pandas_version": "2.1.0",
    }
