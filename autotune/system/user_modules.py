"""Loads code of users: files as modules, objects by where they are."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import linecache
import os
import sys
import threading
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from types import CodeType, ModuleType
from typing import Any

from autotune.errors import UsageError, error_text
from autotune.system.words import did_you_mean, one_line


def load_object(location: str, what: str) -> Any:
    """Return the object at ``module:name`` or ``path/to/file.py:name``.

    A file is loaded once, and again when its text has changed.

    what: what it is for, as messages begin.

    UsageError if it cannot be imported, whatever its module raises, or does not exist.
    """
    where, _, name = location.rpartition(":")
    try:
        is_file = where.endswith(".py")
        home = _module_of(os.path.abspath(where)) if is_file else importlib.import_module(where)
    except KeyboardInterrupt:
        raise
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from error
    except BaseException as error:
        meant = f"{where}.py:{name}" if os.path.isfile(f"{where}.py") else ""
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise UsageError(
            f"{what}: {location} cannot be loaded: {what_failed(error)}{hint}"
        ) from error
    try:
        return functools.reduce(getattr, name.split("."), home)
    except AttributeError as error:
        hint = did_you_mean(name, (n for n in vars(home) if not n.startswith("_")), "it has")
        raise UsageError(f"{what}: {where} has no {name!r}: {hint}") from error


class _Loading(threading.local):
    """The files that a thread is loading for their functions, the innermost last."""

    def __init__(self) -> None:
        self.paths: list[str] = []


_loading = _Loading()
_one_loads = threading.RLock()  # No thread sees a module before it is complete.


def refuse_while_loading(what: str) -> None:
    """Raise UsageError if this thread is loading a file for its functions.

    `what`: the function that was called, and that would begin work of its own.
    """
    if _loading.paths:
        raise UsageError(
            f"{what} is called while {_loading.paths[-1]} is loaded for its functions: put the "
            'call under `if __name__ == "__main__":`'
        )


class FileAsItIs(SourceFileLoader):
    """Always compiles a file: cached bytecode may be of an older text of the same size."""

    #: Content of the file, once it is read.
    text: bytes | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile the file's content."""
        if self.text is None:
            self.text = self.get_data(self.path)
        return self.source_to_code(self.text, self.path)

    def get_source(self, fullname: str) -> str:
        """Return the text for whoever looks for that of a function."""
        return decode_source(self.text or self.get_data(self.path))


def _module_of(path: str) -> ModuleType:
    """Return the module of a file, as `import_file` does, unless its text is loaded already."""
    with _one_loads:
        loaded = sys.modules.get(_name_of(path))
        loader = getattr(loaded, "__loader__", None)
        with contextlib.suppress(OSError):
            if isinstance(loader, FileAsItIs) and loader.text == loader.get_data(path):
                assert loaded is not None
                return loaded
        return import_file(path)


def _name_of(path: str) -> str:
    """Return the name of the module of a file."""
    return f"autotune_template_{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def import_file(path: str, text: bytes | None = None) -> ModuleType:
    """Run a Python file, or a text in its place, as a module that is named after its path.

    UsageError, with the line that fails, if it cannot be run.
    """
    name = _name_of(path)
    loader = FileAsItIs(name, path)
    loader.text = text
    if text is not None:
        linecache.cache.pop(path, None)  # an earlier text
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _loading.paths.append(path)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise UsageError(
            f"{place_of(error, path)}: the file cannot be loaded: {what_failed(error)}"
        ) from error
    finally:
        _loading.paths.pop()
    return module


def what_failed(error: BaseException) -> str:
    """Return the type of an exception and its message, in one line."""
    what = one_line(error.msg if isinstance(error, SyntaxError) else error_text(error))
    return f"{type(error).__name__}{f': {what}' if what else ''}"


def place_of(error: BaseException, path: str) -> str:
    """Return file:line where code of the file at `path` failed: its last line that was run."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return f"{path}:{lines[-1]}" if lines else path
