"""The one exception tree of autotune: every mistake a user can make has a type here.

A message is one clear line: what is wrong, where, what was expected, what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class AutotuneError(Exception):
    """Base of all errors raised on purpose by autotune."""


class UsageError(AutotuneError):
    """The user asked for something that does not exist or makes no sense (exit code 2)."""


class NoRecordError(UsageError):
    """A build was asked to use records, and none of them can be used."""


class IRError(AutotuneError):
    """An ill-formed expression, statement or function."""


class ScheduleError(AutotuneError):
    """A schedule primitive was used where its rule does not allow it."""


class LoweringError(AutotuneError):
    """A schedule that cannot be turned into loops."""


class TracingError(AutotuneError):
    """A template did something with a symbolic knob that has no symbolic meaning."""


class InstantiationError(AutotuneError):
    """A template refused the knob values of one configuration."""


class MissingCompilerError(InstantiationError):
    """A kernel names a compiler that is not on this machine; another one may have it."""


class TileError(UsageError):
    """A mistake in Tile code, or in the sizes and types it is used with.

    Attributes
    ----------
    name : str
        What the code was read from: a path, or "tile".
    line, column : int
        Where the mistake is, both counted from 1.
    problem : str
        What is wrong and what was expected, in one line.
    advice : str
        What to write instead, where that can be guessed; else "".
    """

    def __init__(
        self,
        problem: str,
        name: str,
        line: int,
        column: int,
        shown: str = "",
        caret: int = 0,
        advice: str = "",
    ) -> None:
        self.problem, self.name, self.line, self.column = problem, name, line, column
        self.advice = advice
        self._parts = (problem, name, line, column, shown, caret, advice)
        pointed = f"\n    {shown}\n    {' ' * caret}^" if shown else ""
        remedy = f"\n  {advice}" if advice else ""
        super().__init__(f"{name}:{line}:{column}: {problem}{pointed}{remedy}")

    def with_context(self, where: str) -> TileError:
        """Return the error with words before the place, such as the workload of a job file."""
        problem, name, line, column, shown, caret, advice = self._parts
        return TileError(problem, f"{where}{name}", line, column, shown, caret, advice)

    def __reduce__(self) -> tuple[type[TileError], tuple[str | int, ...]]:
        return TileError, self._parts


class TargetError(UsageError):
    """A target string that is not understood, or a target this machine cannot serve."""


class CodegenError(AutotuneError):
    """A lowered function that a backend cannot express, or that its compiler refused."""


class CompileError(CodegenError):
    """A source text that its compiler refused.

    Attributes
    ----------
    log : str
        All that the compiler said; it is also shown below the traceback.
    source : str
        The whole text.
    path : Path or None
        File that the text is saved in.
    """

    def __init__(self, message: str, log: str, source: str, path: Path | None) -> None:
        super().__init__(message)
        self.log = log
        self.source = source
        self.path = path
        self.add_note(log)


class ArgumentError(AutotuneError, ValueError):
    """An array argument of a built function has the wrong dtype, shape, strides or access."""


class LaunchError(UsageError):
    """A launch of a GPU kernel that the device or the kernel does not allow, or that failed."""


class LoadError(AutotuneError):
    """A saved function that cannot be used: damaged, of another format, or for another machine."""


class SaveError(AutotuneError):
    """A function that cannot be saved: where to, or how it was built."""


def error_text(error: BaseException) -> str:
    """Return the message of an exception; it may be empty, and its `__str__` may fail."""
    try:
        return str(error)
    except Exception as why:
        return f"(it cannot be printed: {type(why).__name__})"
