"""`kernel_tuner.util`: the markers of failed results, and older names of directive helpers.

A result whose configuration failed has one of these markers in place of its time.
"""

from __future__ import annotations

from autotune.compat.kernel_tuner.utils.directives import (
    Cxx,
    extract_directive_code,
    extract_directive_signature,
    extract_preprocessor,
    wrap_timing,
)

__all__ = [
    "CompilationFailedConfig", "ErrorConfig", "InvalidConfig", "RuntimeFailedConfig",
    "extract_directive_code", "extract_directive_signature", "extract_preprocessor",
    "wrap_cpp_timing",
]  # fmt: skip


class ErrorConfig(str):
    """What a configuration without a time has in its place: the name of the class."""

    __slots__ = ()

    def __new__(cls) -> ErrorConfig:
        """Return the text."""
        return super().__new__(cls, cls.__name__)


class InvalidConfig(ErrorConfig):
    """It was refused before it was compiled."""

    __slots__ = ()


class CompilationFailedConfig(ErrorConfig):
    """The compiler refused it, or took too long."""

    __slots__ = ()


class RuntimeFailedConfig(ErrorConfig):
    """It crashed, took too long, or its answer was wrong."""

    __slots__ = ()


def wrap_cpp_timing(code: str) -> str:
    """Return a body in C++ that returns the milliseconds that its statements take."""
    return wrap_timing(code, Cxx())
