"""Cache files in the format of Kernel Tuner, which several calls may write to at the same time."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.compat.kernel_tuner.arguments import SOURCE, path_of
from autotune.compat.kernel_tuner.problem import Problem, flat, key_of
from autotune.compat.kernel_tuner.restrictions import Restriction, is_legal
from autotune.compat.kernel_tuner.results import Result, has_time, read_entry
from autotune.errors import UsageError
from autotune.external.included_files import with_included
from records.formats.kernel_tuner import SCHEMA_VERSION, check_version, parse_document
from records.formats.malformed import MALFORMED, as_number, as_object
from records.formats.skipped import SkippedParts
from records.record_errors import RecordError
from records.storage.append_only_log import RecordStore
from records.storage.files import replacing

_SHARE = 0.1  # Of the time, at most, that is spent on writing.


class RecordedCache:
    """A cache file that is only read, from any program, device and version of the kernel's text.

    `path`: the file, whose ending .json may be left out.
    `problem`: whose name and parameters it must have.

    Raises UsageError if there is no such file, or it is of another kernel or problem.
    """

    def __init__(self, path: str | os.PathLike[str], problem: Problem, problem_size: Any) -> None:
        self.path = _path_of(path)
        self._problem = problem
        size = "callable" if callable(problem_size) else problem_size
        #: The fields of the file that identify its problem, with their required values.
        self._head: dict[str, Any] = {
            "kernel_name": problem.name,
            "problem_size": json.loads(json.dumps(size, default=_as_json)),
            "tune_params_keys": list(problem.parameters),
        }
        #: What it must say at least; what an older one leaves out of the rest may be anything.
        self._needed = ["device_name", "kernel_name", "tune_params_keys"]

    @property
    def device_name(self) -> str:
        """The name of the device in the file."""
        return str(self._document()["device_name"])

    def results(self, rules: Sequence[Restriction]) -> dict[str, Result]:
        """Return the results of the problem's legal configurations, by their keys.

        Entries that are no results are passed over with a `RecordWarning`.

        Raises UsageError if one is not of this problem.
        """
        found: dict[str, Result] = {}
        skipped = SkippedParts(str(self.path), "no results", "entry")
        choices = {n: {str(v): v for v in own} for n, own in self._problem.parameters.items()}
        for name, entry in self._entries().items():
            try:
                row = read_entry(as_object(entry, "it"))
                texts = {n: str(row[n]) for n in choices}
                if has_time(row) and as_number(row["time"], "time") <= 0:
                    raise RecordError(f"time must be above 0, not {row['time']}")
            except MALFORMED as error:
                skipped.add(name, error)
                continue
            skipped.found += 1
            if any(text not in choices[n] for n, text in texts.items()):
                continue
            values = {n: choices[n][text] for n, text in texts.items()}
            if is_legal(rules, values):
                key = key_of(values)
                self._check_source(key, row.pop(SOURCE, None))
                found[key] = {**row, **values}
        skipped.found = max(1, skipped.found)  # it need not have any
        skipped.tell()
        return found

    def _check_source(self, key: str, source: Any) -> None:
        """Raise UsageError if the recorded source of a result is not the one of this problem."""

    def _entries(self) -> Mapping[str, Any]:
        """Return the entries of the file; UsageError if it is a cache of another problem."""
        found = self._document()
        self._check_head(found)
        entries: Mapping[str, Any] = found["cache"]
        return entries

    def _check_head(self, found: Mapping[str, Any]) -> None:
        """Raise UsageError unless a file names its problem, and that is this one."""
        missing = [name for name in self._needed if name not in found]
        if missing:
            raise UsageError(f"cache: {self.path} does not say its {missing[0]}")
        for name, own in self._head.items():
            written = found.get(name, own)
            same = _listed(written) == _listed(own) if name == "problem_size" else written == own
            if not same:
                raise UsageError(
                    f"cache: {self.path} has the {name} {written!r}, not {own!r}: choose another "
                    "file"
                )

    def _document(self) -> Mapping[str, Any]:
        """Return what the file holds."""
        try:
            found = parse_document(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"cache: cannot read {self.path}: {why}") from error
        if not isinstance(found, dict) or not isinstance(found.get("cache"), dict):
            raise UsageError(f"cache: {self.path} is no cache of Kernel Tuner")
        try:
            check_version(found, str(self.path))
        except RecordError as error:
            raise UsageError(f"cache: {error}") from error
        return found


class Cache(RecordedCache):
    """A cache file, to which results are added as they come.

    `path`: the file, whose ending .json may be left out; it need not be there.
    `problem`: with its texts, which entries are compared with.

    Raises UsageError if there is another file, or one of another kernel, problem or device.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        problem: Problem,
        problem_size: Any,
        arguments: Sequence[Any],
        device_name: str,
        objective: str = "time",
    ) -> None:
        super().__init__(path, problem, problem_size)
        _check_place(self.path)
        self._head = {"device_name": device_name, **self._head}
        self._needed = list(self._head)
        self._objective = objective
        self._pending: dict[str, Result] = {}
        self._next_s = 0.0
        options: list[Any] = [problem.language, problem.compiler, problem.flags, problem.arguments]
        options += [problem.launch] if problem.launch else []
        self._options = hashlib.blake2b(json.dumps(options).encode(), digest_size=12)
        for n in problem.arrays:
            self._options.update(flat(arguments[n]).view(np.uint8).data)
        self._source_of_text = functools.cache(self._digest)
        self._entries()

    @property
    def is_written(self) -> bool:
        """Whether all that was added is in the file."""
        return not self._pending

    def add(self, results: Mapping[str, Result]) -> None:
        """Add results by their keys; they are written now unless that took long a moment ago."""
        for key, result in results.items():
            self._pending[key] = {**result, SOURCE: self._source(key)}
        if time.monotonic() >= self._next_s:
            self.flush()

    def flush(self) -> None:
        """Write what was added, beside what is in the file now."""
        if not self._pending:
            return
        begin = time.monotonic()
        try:
            self.path.touch()
            RecordStore(self.path).replacing(
                lambda _: self._write({**self._entries(), **self._pending})
            )
        except RecordError as error:
            raise UsageError(f"cache: {error}") from error
        except OSError as error:
            raise UsageError(f"cache: {self.path} cannot be written: {error.strerror}") from error
        self._pending = {}
        end = time.monotonic()
        self._next_s = end + (end - begin) / _SHARE

    def _check_source(self, key: str, source: Any) -> None:
        """Raise UsageError if a result is of another text, other options or arguments."""
        if source != self._source(key):
            raise UsageError(
                f"cache: {self.path} is of another text, other options or arguments: choose "
                "another file (arrays of random numbers stay the same with a seed)"
            )

    def _source(self, key: str) -> str:
        text = self._problem.text
        return self._source_of_text(text if isinstance(text, str) else text[key])

    def _digest(self, text: str) -> str:
        """Return a digest of a kernel's text, its options and its arguments."""
        whole = with_included(text, "text", self._problem.folder, f"kernel {self._problem.name!r}")
        digest = self._options.copy()
        digest.update(whole.encode())
        return digest.hexdigest()

    def _document(self) -> Mapping[str, Any]:
        """Return what the file holds; a new one has nothing."""
        is_new = not self.path.exists() or self.path.stat().st_size == 0
        return {**self._head, "cache": {}} if is_new else super()._document()

    def _write(self, entries: Mapping[str, Any]) -> None:
        # Kernel Tuner reads the end of a cache that nobody writes to as "}\n}".
        choices = {n: {str(v): v for v in own} for n, own in self._problem.parameters.items()}
        for name, own in choices.items():
            rows = (entry for entry in entries.values() if isinstance(entry, dict))
            own.update((str(row[name]), row[name]) for row in rows if name in row)
        every = {name: list(own.values()) for name, own in choices.items()}
        whole = {"schema_version": SCHEMA_VERSION, **self._head}
        whole |= {"tune_params": every, "objective": self._objective}
        head = json.dumps(whole, default=_as_json, indent="")
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(entry, default=_as_json)}"
            for key, entry in entries.items()
        )
        with replacing(self.path) as partial:
            text = f'{head.removesuffix("}").rstrip()},\n"cache": {{\n{lines}}}\n}}'
            partial.write_text(text, encoding="utf-8")


def _path_of(given: Any) -> Path:
    """Return the path of a cache; UsageError if it is the name of no file."""
    path = path_of("cache", given, "the path of a file")
    if path.is_dir():
        raise UsageError(f"cache: {str(given)!r} is a folder")
    name = os.fspath(given)
    whole = name if name.endswith(".json") else f"{name}.json"
    return path_of("cache", os.path.realpath(whole), "the path of a file")


def _check_place(path: Path) -> None:
    """Raise UsageError unless a cache can be written at a path."""
    if not path.parent.is_dir():
        raise UsageError(f"cache: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"cache: {path} is no file")
    # It is replaced as a whole, by another file of its folder.
    if not all(os.access(own, os.W_OK) for own in (path, path.parent) if own.exists()):
        raise UsageError(f"cache: {path} cannot be written")


def _listed(size: Any) -> Any:
    """Return a problem size as a list, as Kernel Tuner takes 4 and (4,) for the same."""
    return size if isinstance(size, list) else [size]


def _as_json(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's; the text of anything else."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
