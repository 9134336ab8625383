"""Schedule steps as data: what was done to which stage, to log, print, fingerprint and replay."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One primitive applied to one stage.

    Attributes
    ----------
    primitive : str
        Its name, such as "split".
    stage : str
        Name of the stage.
    args : tuple of str
        Axes by name, sizes as text.
    """

    primitive: str
    stage: str
    args: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.stage}.{self.primitive}({', '.join(self.args)})"
