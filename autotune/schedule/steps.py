"""Schedule steps as data: what was done to which stage, to log, print and fingerprint."""

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
        Label of the stage, unique in its schedule.
    args : tuple of str
        Axes as name#position among all axes of their stage, as names repeat; stages and tensors
        by label, sizes as text.
    """

    primitive: str
    stage: str
    args: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.stage}.{self.primitive}({', '.join(self.args)})"
