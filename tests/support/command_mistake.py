"""A mistake in a command: a command line, and the required content of its one-line message."""

from __future__ import annotations

from dataclasses import dataclass, field

SIZE = ["--set", "m=8", "--set", "n=8", "--set", "k=8"]
MATMUL = ["run", "matmul", *SIZE]
N = ["--set", "n=4"]


@dataclass(frozen=True)
class Mistake:
    """A wrong command line or input.

    Attributes
    ----------
    words : list of str
        The command line.
    said : str
        Regular expression that the line matches.
    code : int
        Exit code.
    variables : dict of str to str
        More variables of the environment.
    setup : str
        Python that the command runs first, to lower a limit.
    unprivileged : bool
        Whether it needs a user who may not read and write everything.
    leaves : tuple of str
        Files that are there afterwards.
    printed : bool
        Whether something may be printed before, as a run says what it is about to do.
    """

    words: list[str]
    said: str
    code: int = 2
    variables: dict[str, str] = field(default_factory=dict)
    setup: str = ""
    unprivileged: bool = False
    leaves: tuple[str, ...] = ()
    printed: bool = False

    def __str__(self) -> str:
        where = "".join(f"{name}={value} " for name, value in self.variables.items())
        return f"{where}{' '.join(self.words)}"[:70] or "no words"


Row = Mistake | tuple[list[str], str]
"""Most rows of the tables are (words, what is said)."""
