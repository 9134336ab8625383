"""A region of a few lines at the bottom of a terminal that is redrawn.

The cursor stays visible on the line below them, so that the terminal is usable however the program
ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, cast

from autotune.report.display.panel import Line, TextStyle
from autotune.report.text_tables import cells_of
from autotune.system.words import printable

_CODES = {
    TextStyle.LABEL: "2",
    TextStyle.STRONG: "1",
    TextStyle.DONE: "36",
    TextStyle.GOOD: "32",
    TextStyle.REST: "2",
    TextStyle.BAD: "33",
}


class LiveRegion:
    """Lines that are written over at each drawing.

    A terminal that became narrower has wrapped the lines again, as most do; the number of lines to
    go up takes that into account.

    stream: the terminal.
    colour: whether to write codes of colour and weight.
    """

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self._stream = stream
        self._colour = colour
        self._lengths: list[int] = []
        self._columns = 0
        self._gone = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal, 80 and 24 where it does not say."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        return columns or 80, rows or 24

    def draw(self, lines: Sequence[Line]) -> None:
        """Overwrite the lines of the last drawing, in one write."""
        columns = self.size[0]
        # A terminal that broke lines when it became narrower joins them again when it becomes
        # wider, whatever is written there since, unless they are erased first.
        first = self._up() if columns == self._columns else f"{self._up()}\x1b[J"
        text = "".join(f"{self.coloured(line)}\x1b[K\n" for line in lines)
        self._write(f"{first}{text}\x1b[J")
        self._columns = columns
        self._lengths = [sum(cells_of(printable(p.text)) for p in line) for line in lines]

    def clear(self) -> None:
        """Remove the lines; the next text is written in their place."""
        if self._lengths:
            self._write(f"{self._up()}\x1b[J")
            self._lengths = []

    def _up(self) -> str:
        """Return the code that leads to the first line of the last drawing."""
        columns = self.size[0]
        rows = sum(max(1, -(-length // columns)) for length in self._lengths)
        return f"\r\x1b[{rows}A" if rows else "\r"

    def coloured(self, line: Line) -> str:
        """Return a line with codes for colour and weight if wanted, without other control codes."""
        texts = [printable(piece.text) for piece in line]
        if not self._colour:
            return "".join(texts)
        return "".join(
            f"\x1b[{_CODES[piece.tone]}m{text}\x1b[0m" if piece.tone in _CODES and text else text
            for piece, text in zip(line, texts, strict=True)
        )

    def _write(self, text: str) -> None:
        """Write to the terminal; one that is gone is written to no more."""
        if self._gone:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._gone = True


class _Above:
    """A stream that has the block cleared before each writing."""

    def __init__(self, stream: TextIO, clear: Callable[[], None]) -> None:
        self._stream = stream
        self._clear = clear

    def write(self, text: str) -> int:
        self._clear()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def print_above(block: LiveRegion) -> Iterator[None]:
    """Print text for the standard error of the same terminal above the block."""
    before = sys.stderr
    if before.isatty():
        sys.stderr = cast(TextIO, _Above(before, block.clear))
    try:
        yield
    finally:
        sys.stderr = before
