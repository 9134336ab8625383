"""Tables on disk: what goes in comes back, in every format, with the dtypes that are documented."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from records.record_errors import TableError
from records.tables.frame import read_frame
from records.tables.table import SUFFIXES, Field, as_text, csv_options, new_table

FIELDS = [
    Field("kind", "category", "", "a few texts"),
    Field("message", "string", "", "any text"),
    Field("ok", "bool", "", "a flag"),
    Field("index", "int64", "1", "a whole number"),
    Field("cost_s", "float64", "s", "a time"),
    Field("itervar.v1:0/x, y/attr/length", "float32", "iterations", "a feature", "feature"),
]
TEXTS = [
    "plain", None, "NA", "nan", "None", "null", "16", "True", " spaces ", 'quo"ted', "a,b",
    "two\nlines", "three\r\nmore", "\rfour", "#no comment", "日本語 🚀", "\u2028", "\\N", "'", "-",
]  # fmt: skip
N = len(TEXTS)
TINY, HUGE = np.finfo(np.float64).tiny, np.finfo(np.float64).max


def columns_of(seed):
    rng = np.random.default_rng(seed)
    floats = np.concatenate(
        [
            [np.nan, np.inf, -np.inf, 0.1, 5e-324, TINY, HUGE],
            rng.standard_normal(N - 7) * 10.0 ** rng.integers(-30, 30, N - 7),
        ]
    )
    return [
        [TEXTS[k] for k in rng.permutation(N)],
        TEXTS,
        rng.random(N) < 0.5,
        rng.integers(-(2**63), 2**63 - 1, N),
        floats,
        floats.astype(np.float32),
    ]


def write(path, batches):
    with np.errstate(over="ignore"), new_table(path, FIELDS) as table:
        for columns in batches:
            table.write(columns)


@pytest.fixture(scope="module")
def batches():
    with np.errstate(over="ignore"):
        return [columns_of(seed) for seed in range(3)]


@pytest.fixture(scope="module", params=SUFFIXES)
def written(request, batches, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / f"data{request.param}"
    write(path, batches)
    return path


def assert_same(frame, batches):
    for k, field in enumerate(FIELDS):
        expected = [value for columns in batches for value in columns[k]]
        found = frame[field.name].tolist()
        if field.is_text:
            assert [None if pd.isna(value) else value for value in found] == expected
        else:
            dtype = np.dtype(field.dtype)
            assert np.array(found, dtype).tobytes() == np.array(expected, dtype).tobytes()


def test_every_value_comes_back_with_its_documented_dtype(written, batches):
    frame = read_frame(written, FIELDS)
    assert [str(dtype) for dtype in frame.dtypes] == [field.dtype for field in FIELDS]
    assert_same(frame, batches)
    assert frame["kind"].cat.categories.tolist() == sorted(filter(None, TEXTS))
    assert written.stat().st_mode & 0o444


def test_pandas_alone_reads_it_as_the_documentation_says(written, batches):
    if written.suffix == ".parquet":
        frame = pd.read_parquet(written)
    elif written.suffix == ".csv":
        frame = pd.read_csv(written, **json.loads(json.dumps(csv_options(FIELDS))))
    else:
        with np.load(written) as arrays:
            frame = pd.DataFrame(dict(arrays)).replace({"": None})
    assert_same(frame, batches)
    if written.suffix != ".npz":
        assert [str(dtype) for dtype in frame.dtypes] == [field.dtype for field in FIELDS]


def test_the_formats_read_equal(batches, tmp_path):
    frames = []
    for suffix in SUFFIXES:
        write(tmp_path / f"x{suffix}", batches)
        frames.append(read_frame(tmp_path / f"x{suffix}", FIELDS))
    for other in frames[1:]:
        pd.testing.assert_frame_equal(frames[0], other)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_of_no_rows_has_its_columns(suffix, tmp_path):
    path = tmp_path / f"empty{suffix}"
    write(path, [])
    frame = read_frame(path, FIELDS)
    assert len(frame) == 0
    assert [str(dtype) for dtype in frame.dtypes] == [field.dtype for field in FIELDS]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_fails_half_way_leaves_what_was_there(suffix, batches, tmp_path):
    path = tmp_path / f"data{suffix}"
    path.write_text("older")
    with pytest.raises(ValueError, match="zip"):
        write(path, [batches[0], batches[1][:-1]])
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_texts_too_long_to_be_padded_are_refused_by_npz(monkeypatch, batches, tmp_path):
    monkeypatch.setattr("records.tables.table.MAX_PADDED", 100)
    with pytest.raises(TableError, match=r"'kind' would take .* choose \.parquet or \.csv"):
        write(tmp_path / "data.npz", batches)
    assert not list(tmp_path.iterdir())


def test_a_format_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(TableError, match=r"ends in \.parquet, \.csv or \.npz"):
        write(tmp_path / "data.xlsx", [])
    with pytest.raises(TableError, match=r"ends in \.parquet, \.csv or \.npz"):
        read_frame(tmp_path / "data.xlsx", FIELDS)


def test_parquet_without_pyarrow_is_refused_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r"pip install 'kernel-autotune\[export\]', or choose"):
        write(tmp_path / "data.parquet", [])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_not_what_its_name_says_is_refused(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    path.write_bytes(b"\x00\xff\x00")
    with pytest.raises(TableError, match="data"):
        read_frame(path, FIELDS)
    with pytest.raises(TableError, match="missing"):
        read_frame(tmp_path / f"missing{suffix}", FIELDS)


def test_a_column_that_the_file_lacks_is_named(tmp_path, batches):
    path = tmp_path / "data.npz"
    write(path, batches)
    with pytest.raises(TableError, match="no column 'gone', which its schema names"):
        read_frame(path, [*FIELDS, Field("gone", "bool", "", "")])


def test_texts_that_a_format_cannot_hold_are_escaped():
    assert as_text("a\0b\ud800") == "a\\x00b\\ud800"
    assert as_text("") is None
    assert as_text(None) is None


def test_a_field_is_plain_data():
    assert [Field.from_json(json.loads(json.dumps(f.to_json()))) for f in FIELDS] == FIELDS
    with pytest.raises(TableError, match="a column of a schema has name"):
        Field.from_json({"name": "x"})
