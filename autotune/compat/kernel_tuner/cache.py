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

from autotune.compat.kernel_tuner.arguments import SOURCE, check_type
from autotune.compat.kernel_tuner.problem import Problem, flat, key_of
from autotune.compat.kernel_tuner.restrictions import Restriction, is_legal
from autotune.compat.kernel_tuner.results import Result, read_entry
from autotune.compat.kernel_tuner.util import ErrorConfig
from autotune.errors import UsageError
from autotune.external.included_files import with_included
from records.formats.kernel_tuner import SCHEMA_VERSION, parse_document
from records.formats.malformed import MALFORMED, as_number, as_object
from records.formats.skipped import SkippedParts
from records.storage.append_only_log import RecordStore
from records.storage.files import replacing

_SHARE = 0.1  # Of the time, at most, that is spent on writing.


class Cache:
    """A cache file, to which results are added as they come.

    `path`: the file, whose ending .json may be left out.
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
        self.path = _checked(path)
        self._problem = problem
        self._head = {
            "schema_version": SCHEMA_VERSION,
            "device_name": device_name,
            "kernel_name": problem.name,
            "problem_size": "callable" if callable(problem_size) else problem_size,
            "tune_params_keys": list(problem.parameters),
            "objective": objective,
        }
        self._pending: dict[str, Result] = {}
        self._next_s = 0.0
        options: list[Any] = [problem.language, problem.compiler, problem.flags, problem.arguments]
        options += [problem.launch] if problem.launch else []
        self._options = hashlib.blake2b(json.dumps(options).encode(), digest_size=12)
        for n in problem.arrays:
            self._options.update(flat(arguments[n]).view(np.uint8).data)
        self._source_of_text = functools.cache(self._digest)
        self._read()

    def results(self, rules: Sequence[Restriction]) -> dict[str, Result]:
        """Return the results of the problem's legal configurations, by their keys.

        Entries that are no results are passed over with a `RecordWarning`.

        Raises UsageError if one is of another text, other options or arguments.
        """
        found: dict[str, Result] = {}
        skipped, count = SkippedParts(str(self.path), "no results", "entry"), 0
        choices = {n: {str(v): v for v in own} for n, own in self._problem.parameters.items()}
        for name, entry in self._read().items():
            try:
                row = read_entry(as_object(entry, "it"))
                texts = {n: str(row[n]) for n in choices}
                if not isinstance(row["time"], ErrorConfig):
                    as_number(row["time"], "time")
            except MALFORMED as error:
                skipped.add(name, error)
                continue
            count += 1
            if any(text not in choices[n] for n, text in texts.items()):
                continue
            values = {n: choices[n][text] for n, text in texts.items()}
            if is_legal(rules, values):
                key = key_of(values)
                if row.pop(SOURCE, None) != self._source(key):
                    raise UsageError(
                        f"cache: {self.path} is of another text, other options or arguments: "
                        "choose another file"
                    )
                found[key] = {**row, **values}
        skipped.tell(max(1, count))
        return found

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
        self.path.touch()
        RecordStore(self.path).replacing(lambda _: self._write({**self._read(), **self._pending}))
        self._pending = {}
        end = time.monotonic()
        self._next_s = end + (end - begin) / _SHARE

    def _source(self, key: str) -> str:
        text = self._problem.text
        return self._source_of_text(text if isinstance(text, str) else text[key])

    def _digest(self, text: str) -> str:
        """Return what tells the text of a kernel, its options and its arguments from others."""
        whole = with_included(text, "text", self._problem.folder, f"kernel {self._problem.name!r}")
        digest = self._options.copy()
        digest.update(whole.encode())
        return digest.hexdigest()

    def _read(self) -> Mapping[str, Any]:
        """Return the entries of the file, if it is the one that it should be."""
        try:
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cache: cannot read {self.path}: {error}") from error
        if not text:
            return {}
        found = parse_document(text)
        if not isinstance(found, dict) or not isinstance(found.get("cache"), dict):
            raise UsageError(f"cache: {self.path} is no cache of Kernel Tuner")
        own = json.loads(json.dumps(self._head, default=_as_json))
        for name in ("device_name", "kernel_name", "problem_size", "tune_params_keys"):
            if found.get(name) != own[name]:
                raise UsageError(
                    f"cache: {self.path} has the {name} {found.get(name)!r}, not {own[name]!r}: "
                    "choose another file"
                )
        entries: Mapping[str, Any] = found["cache"]
        return entries

    def _write(self, entries: Mapping[str, Any]) -> None:
        # Kernel Tuner reads the end of a cache that nobody writes to as "}\n}".
        choices = {n: {str(v): v for v in own} for n, own in self._problem.parameters.items()}
        for name, own in choices.items():
            rows = (entry for entry in entries.values() if isinstance(entry, dict))
            own.update((str(row[name]), row[name]) for row in rows if name in row)
        every = {name: list(own.values()) for name, own in choices.items()}
        head = json.dumps({**self._head, "tune_params": every}, default=_as_json, indent="")
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(entry, default=_as_json)}"
            for key, entry in entries.items()
        )
        with replacing(self.path) as partial:
            text = f'{head.removesuffix("}").rstrip()},\n"cache": {{\n{lines}}}\n}}'
            partial.write_text(text, encoding="utf-8")


def _checked(given: Any) -> Path:
    """Return the path of a cache; UsageError if no file can be there."""
    check_type("cache", given, (str, os.PathLike), "the path of a file")
    name = os.fspath(given)
    if not name or os.path.isdir(name):
        raise UsageError(f"cache: {name!r} is no name of a file")
    path = Path(os.path.realpath(name if name.endswith(".json") else f"{name}.json"))
    if not path.parent.is_dir():
        raise UsageError(f"cache: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"cache: {path} is no file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"cache: {path} cannot be written")
    return path


def _as_json(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's; the text of anything else."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)
