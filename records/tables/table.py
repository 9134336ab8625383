"""Tables of records and features on disk: their columns, and writers for each format.

Rows are written in batches and then freed. A table appears under its name only when it is complete.
"""

from __future__ import annotations

import contextlib
import csv
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from records.record_errors import TableError
from records.storage.files import replacing

DType = Literal["category", "string", "bool", "int64", "float64", "float32"]
# Values of a column: texts, None where there is none, or an array of its dtype.
Values = Sequence[str | None] | npt.NDArray[Any]

SUFFIXES = (".parquet", ".csv", ".npz")

MAX_PADDED = 1 << 30  # Bytes that a column of texts may take in an .npz file.


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table."""

    name: str
    #: What pandas calls it. "category" and "string" are texts, None where there is none, and an
    #: empty text counts as none. A float that is not known is NaN. The others are always known.
    dtype: DType
    #: "1" for a plain number, "" for what is none.
    unit: str
    meaning: str
    #: "record", "label", "split", "feature" or "program".
    role: str = "record"

    @property
    def is_text(self) -> bool:
        """Whether its values are texts."""
        return self.dtype in ("category", "string")

    def to_json(self) -> dict[str, str]:
        """Return it as a schema file has it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Any) -> Field:
        """Return what `to_json` was made from; TableError if it is no such thing."""
        try:
            return cls(**{name: str(data[name]) for name in cls.__slots__})  # type: ignore[arg-type]
        except (KeyError, TypeError):
            raise TableError(f"a column of a schema has {', '.join(cls.__slots__)}") from None


def csv_options(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the arguments of `pandas.read_csv` for the dtypes of the fields.

    Plain data, for schema files. Before pandas 3.1 the last bit of a float needs
    ``float_precision="round_trip"``, too.
    """
    return {
        "dtype": {field.name: field.dtype for field in fields},
        "keep_default_na": False,
        "na_values": [""],
    }


class TableWriter(Protocol):
    """Takes batches of rows."""

    def write(self, columns: Sequence[Values]) -> None:
        """Add rows: the values of every field, in order, of one length."""

    def close(self) -> None:
        """Write what is left to write."""


def check_table(path: Path) -> None:
    """Raise TableError unless a table can be written there; call it before long work."""
    if path.suffix not in SUFFIXES:
        raise TableError(f"{path}: a data set ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if path.suffix == ".parquet":
        from records.tables.parquet import require_pyarrow

        require_pyarrow()


@contextlib.contextmanager
def new_table(path: Path, fields: Sequence[Field]) -> Iterator[TableWriter]:
    """Open a table for writing; it replaces the file at `path` once all is written.

    Raises TableError if the suffix is of no known format, or the format lacks its library or a
    column's room.
    """
    check_table(path)
    with replacing(path) as partial, contextlib.ExitStack() as files:
        writer = _writer(partial, fields, files)
        yield writer
        writer.close()


def _writer(path: Path, fields: Sequence[Field], files: contextlib.ExitStack) -> TableWriter:
    if path.suffix == ".csv":
        return CsvWriter(files.enter_context(path.open("w", encoding="utf-8", newline="")), fields)
    if path.suffix == ".npz":
        spool = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115, `files` closes it
        return NpzWriter(path, fields, files.enter_context(spool))
    from records.tables.parquet import ParquetWriter

    return ParquetWriter(path, fields)


class CsvWriter:
    """Comma-separated values in UTF-8, a header line, nothing where a value is not known.

    Floats have the fewest digits that give them back.
    """

    def __init__(self, file: IO[str], fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._csv = csv.writer(file)  # lines end as RFC 4180 says, so that a lone \r is quoted
        self._csv.writerow([field.name for field in fields])

    def write(self, columns: Sequence[Values]) -> None:
        """Add rows."""
        texts = [_as_texts(f, values) for f, values in zip(self._fields, columns, strict=True)]
        self._csv.writerows(zip(*texts, strict=True))

    def close(self) -> None:
        """Do nothing: all is written."""


def _as_texts(field: Field, values: Values) -> Sequence[str | None]:
    if field.is_text:
        return cast(Sequence[str | None], values)
    # Features take few different values, and each is printed once.
    distinct, inverse = np.unique(cast(npt.NDArray[Any], values), return_inverse=True)
    printed = ["" if value != value else str(value) for value in distinct]
    return [printed[k] for k in inverse.tolist()]


class NpzWriter:
    """One array per column; texts are padded to the longest, empty where there is none."""

    def __init__(self, path: Path, fields: Sequence[Field], spool: IO[bytes]) -> None:
        self._path = path
        self._fields = tuple(fields)
        self._pieces: list[list[tuple[int, int, np.dtype[Any]]]] = [[] for _ in fields]
        self._spool = spool
        self._rows = 0

    def write(self, columns: Sequence[Values]) -> None:
        """Store rows temporarily; a column is written when it is complete."""
        for field, pieces, values in zip(self._fields, self._pieces, columns, strict=True):
            if field.is_text:
                array = np.array([value or "" for value in values], np.str_)
            else:
                array = np.asarray(values, field.dtype)
            pieces.append((self._spool.tell(), len(array), array.dtype))
            self._spool.write(array.tobytes())
        self._rows += len(columns[0])

    def close(self) -> None:
        """Write the columns.

        Raises TableError if the texts of a column are too long to be padded.
        """
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for field, pieces in zip(self._fields, self._pieces, strict=True):
                dtype = self._dtype(field, pieces)
                with archive.open(f"{field.name}.npy", "w", force_zip64=True) as member:
                    header = {
                        "descr": np.lib.format.dtype_to_descr(dtype),
                        "fortran_order": False,
                        "shape": (self._rows,),
                    }
                    np.lib.format.write_array_header_1_0(member, header)
                    for start, length, own in pieces:
                        self._spool.seek(start)
                        data = self._spool.read(length * own.itemsize)
                        member.write(np.frombuffer(data, own).astype(dtype).tobytes())

    def _dtype(self, field: Field, pieces: list[tuple[int, int, np.dtype[Any]]]) -> np.dtype[Any]:
        if not field.is_text:
            return np.dtype(field.dtype)
        dtype = np.dtype(f"<U{max((own.itemsize // 4 for *_, own in pieces), default=1)}")
        if self._rows * dtype.itemsize > MAX_PADDED:
            size = self._rows * dtype.itemsize / (1 << 30)
            raise TableError(
                f"column {field.name!r} would take {size:.1f} GiB in an .npz file, where texts are "
                "padded to the longest: choose .parquet or .csv"
            )
        return dtype


def as_text(value: str | None) -> str | None:
    """Return a text that every format can hold: escapes for NUL and what is not Unicode.

    An empty text is none.
    """
    if not value:
        return None
    if value.isascii() and "\0" not in value:
        return value
    clean = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return clean.replace("\0", "\\x00")
