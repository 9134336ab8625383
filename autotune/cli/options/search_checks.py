"""Checks of search options that `autotune run` and `autotune replay` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from autotune.cli.options.input_files import check_logs
from autotune.errors import UsageError
from autotune.tuner.factory import estimates_gain
from autotune.tuner.model.transfer import TransferError


def check_search(tuners: Sequence[str], patience: float | None, transfer: Sequence[str]) -> None:
    """Raise UsageError if a tuner has no use for --patience, or a log to learn from is missing."""
    if patience is not None and not all(map(estimates_gain, tuners)):
        raise UsageError("patience needs a tuner that estimates its gain: use --tuner model")
    check_logs(transfer, "--transfer")


@contextmanager
def transfer_errors() -> Iterator[None]:
    """Name the option --transfer in errors about logs from which nothing can be learnt."""
    try:
        yield
    except TransferError as error:
        raise UsageError(f"--transfer: {error}") from error
