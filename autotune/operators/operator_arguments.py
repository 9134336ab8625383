"""Checks the arguments of the built-in templates."""

from __future__ import annotations

from autotune.errors import UsageError

LARGEST = 2**31 - 1
"""Loops count in int32."""


def check_arguments(template: str, dtype: str, known: tuple[str, ...], **sizes: int) -> None:
    """Raise `UsageError` if a dtype is not one of `known`, or a size cannot be one."""
    if dtype not in known:
        raise UsageError(f"{template}: dtype must be one of {', '.join(known)}, got {dtype}")
    for name, size in sizes.items():
        if size < 1:
            raise UsageError(f"{template}: {name} must be at least 1, got {size}")
        if size > LARGEST:
            raise UsageError(f"{template}: {name} must be at most {LARGEST}, got {size}")
