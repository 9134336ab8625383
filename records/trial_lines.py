"""Decodes lines of trials without making records; only this file imports msgspec.

What neighbouring lines have in common, such as the workload and the device, is checked by making a
record of the first of them, and then only compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import DecodeError, Meta, Raw, Struct
from msgspec.json import Decoder

from records.json_lines import may_have_long_integer
from records.record import MAX_S, MIN_S, Record


class Shared(NamedTuple):
    """What many records share; the same object for lines with the same text."""

    workload: Mapping[str, Any]
    target: str
    policy: Mapping[str, Any]
    device: Mapping[str, Any]
    versions: Mapping[str, Any]

    @classmethod
    def of_record(cls, record: Record) -> Shared:
        """Return what a record shares with others."""
        return cls(*(getattr(record, name) for name in cls._fields))


# Larger numbers are left to `Record.from_line`.
_Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Cost = Annotated[float, Meta(ge=MIN_S, lt=MAX_S)]
_Scalar = _Int | float | str | bool | None


class TrialConfig(Struct, forbid_unknown_fields=True, gc=False):
    """A configuration, as `Record.config`."""

    index: _Int
    values: dict[str, _Scalar | list[_Scalar]]


class Trial(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """The line of a trial; `Raw` is text that is known to be JSON, but for the size of numbers."""

    schema: Literal[1]
    workload: Raw
    target: Raw
    policy: Raw
    device: Raw
    versions: Raw
    config: TrialConfig
    costs_s: Annotated[list[_Cost], Meta(min_length=1)] | None = None
    error: dict[str, str] | None = None
    seed: _Int
    timestamp: _Int | float
    fingerprints: dict[str, str] | None = None
    build_s: float | None = None
    run_s: float | None = None
    max_error: float | None = None
    raced: bool = False
    noise: float | None = None
    kernels: list[dict[str, _Scalar]] | None = None
    clocks: dict[str, _Scalar] | None = None
    steps: list[list[_Scalar | list[_Scalar]]] | None = None
    final: None = None


_decoder = Decoder(Trial)
_shared: dict[bytes, Shared] = {}  # By their texts.

_ERROR_KEYS = {"code", "stage", "message"}
_MOST_REMEMBERED = 1 << 16


def read_trial(line: bytes) -> tuple[Shared, Trial] | Record:
    """Return the fields of a trial in a line, or a `Record` if this fast decoder cannot read it.

    ValueError or RecursionError as `Record.from_line`.
    """
    trial = _decoded(line)
    if trial is None:
        return Record.from_line(line)
    texts = b"\0".join((trial.workload, trial.target, trial.policy, trial.device, trial.versions))
    shared = _shared.get(texts)
    if shared is None:
        shared = Shared.of_record(Record.from_line(line))
        if len(_shared) >= _MOST_REMEMBERED:
            _shared.clear()
        _shared[texts] = shared
    return shared, trial


def _decoded(line: bytes) -> Trial | None:
    """Return the trial in a line; None if it is not a trial, or this decoder may misread it.

    Fields that it shares with other lines are not checked.
    """
    if not line.isascii() or may_have_long_integer(line):  # Raw text may be no UTF-8.
        return None
    try:
        trial = _decoder.decode(line)
    except (DecodeError, RecursionError):
        return None
    if (trial.costs_s is None) == (trial.error is None):
        return None
    if trial.error is not None and not trial.error.keys() >= _ERROR_KEYS:
        return None
    if not "".join(trial.config.values).isprintable():
        return None
    trial.steps = None  # checked; lists of many texts would fill the caches
    return trial
