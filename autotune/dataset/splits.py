"""Splits rows into training, validation and test by hashes, without random choice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)


def split_of(fingerprint: str) -> str:
    """Return the split of a workload: 80 % of them are for training, 10 % each for the others.

    It depends on the workload's fingerprint alone, so that a workload is in the same split in
    every export.
    """
    tenth = _number(fingerprint) % 10
    return VALIDATION if tenth == 8 else TEST if tenth == 9 else TRAIN


def device_splits(devices: Iterable[str]) -> dict[str, str]:
    """Return the split of each device.

    In order of their names' hashes, the last tenth, at least one, is for the test and, if there are
    three or more, as many before it for validation. Empty for fewer than two devices.
    """
    ordered = sorted(set(devices), key=lambda name: (_number(name), name))
    if len(ordered) < 2:
        return {}
    held = max(1, len(ordered) // 10)
    validation = held if len(ordered) > 2 else 0
    train = len(ordered) - held - validation
    kinds = [TRAIN] * train + [VALIDATION] * validation + [TEST] * held
    return dict(zip(ordered, kinds, strict=True))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="backslashreplace")).digest()[:8])
