"""Data that builders pass to runners: the workload and its candidates, or an error."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import AutotuneError, MissingCompilerError, error_text
from autotune.measure.checks.input_uses import InputUse
from autotune.measure.result import MeasureErrorNo
from autotune.runtime.device import Binary
from autotune.runtime.signature import Signature

_LONGEST_MESSAGE = 500


class CandidateError(Exception):
    """A failed candidate: error code, stage, message, and the error of a wrong answer.

    If it is `fatal`, the process cannot run another candidate.
    """

    def __init__(
        self,
        code: MeasureErrorNo,
        stage: str,
        message: str,
        max_error: float | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stage = stage
        self.message = message
        self.max_error = max_error
        self.fatal = fatal

    @property
    def lacks_compiler(self) -> bool:
        """Whether it is this machine that lacks what the candidate needs."""
        cause = self.__cause__
        while cause is not None and not isinstance(cause, MissingCompilerError):
            cause = cause.__cause__
        return cause is not None


class ElsewhereError(Exception):
    """A candidate that this machine cannot build, while that of its runner can."""


def describe(error: BaseException) -> str:
    """Return an exception as one line of text, with its type unless it is one of our own errors."""
    text = " ".join(error_text(error).split())
    if not isinstance(error, AutotuneError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 3]}..."


@dataclass(frozen=True)
class WorkloadDescription:
    """Description of a workload for a runner, which never runs the template itself."""

    # Name of the template, and the arrays that every candidate takes; no sizes.
    signature: Signature
    target: str = "llvm"  # What candidates are compiled for.
    # Float types that sums and other intermediate values have, if the template says so.
    accumulator: str | None = None
    intermediate: str | None = None
    terms: int = 1  # Terms that one element of an output accumulates.
    work: int = 0  # Elements computed, every term of a sum counted.
    uses: tuple[InputUse, ...] | None = None  # What each input is used for, if that is known.
    # Names of the functions that are applied, if they are known.
    functions: frozenset[str] | None = None
    # Positions of the inputs that do not change; candidates are `PreparedBinary` if there are any.
    constant: tuple[int, ...] = ()


@dataclass(frozen=True)
class Built:
    """A compiled candidate; it has no code if its code hash was measured already."""

    code_hash: str
    binary: Binary | None
