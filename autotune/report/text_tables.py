"""Plain tables that fit the width they are given: columns aligned, the last one wrapped."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

GAP = "  "


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return rows under headers as text; the last column takes the remaining width.

    headers: one per column; a header that ends in "#" has its column aligned to the right.
    width: columns of the terminal. A line is longer only if the columns but the last leave no room.
    """
    names = [header.rstrip("#") for header in headers]
    lines = [names, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    room = max(16, width - sum(w + len(GAP) for w in widths[:-1]))
    out = []
    for line in lines:
        cells = [
            cell.rjust(w) if header.endswith("#") else cell.ljust(w)
            for header, cell, w in zip(headers, line, widths, strict=True)
        ]
        first = GAP.join(cells[:-1]) + GAP if len(cells) > 1 else ""
        wrapped = textwrap.wrap(line[-1], room, break_on_hyphens=False) or [""]
        if headers[-1].endswith("#"):
            wrapped = [cells[-1]]
        out.append((first + wrapped[0]).rstrip())
        out += [" " * len(first) + more for more in wrapped[1:]]
    return "\n".join(out)


def wrap(text: str, width: int, indent: str = "") -> str:
    """Return a text broken into lines of at most `width`; all but the first are indented."""
    return "\n".join(
        textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    )


def wrap_clauses(text: str, width: int) -> str:
    """Break a text like `wrap`, but behind commas and semicolons where that will do."""
    first, *clauses = re.split(r"(?<=[,;]) ", text)
    lines = [first]
    for clause in clauses:
        if len(lines[-1]) + 1 + len(clause) <= width:
            lines[-1] += f" {clause}"
        else:
            lines.append(f"  {clause}")
    return "\n".join(wrap(line, width, "  ") for line in lines)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table that leaves columns out where there is no room."""

    header: str
    cells: Sequence[str]  # One per row; cells of the first column may have several lines.
    rank: int  # The higher, the sooner it is left out; the column of rank 0 stays.
    right: bool = True  # Whether it is aligned to the right.

    @property
    def width(self) -> int:
        """Columns of the terminal it takes."""
        texts = (self.header, *self.cells)
        return max(cells_of(line) for text in texts for line in text.split("\n"))

    def folded(self, width: int) -> TableColumn:
        """Return it with cells of several lines where they are wider."""
        return replace(self, cells=[wrap(cell, width, "  ") for cell in self.cells])


def cells_of(text: str) -> int:
    """Return the columns of a terminal that a text takes: two for East Asian wide characters."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    """Return as much of a text as fits into a number of columns."""
    while cells_of(text) > width:
        text = text[:-1]
    return text


def fitted(columns: Sequence[TableColumn], width: int) -> list[str]:
    """Return a table as lines no longer than `width`, headers first.

    Columns without anything in them are left out, then those of the highest rank until the rest
    fits; what is still too long is cut off.
    """
    kept = [column for column in columns if any(column.cells)]
    while sum(column.width + len(GAP) for column in kept) - len(GAP) > width:
        least = max(kept, key=lambda column: column.rank)
        if least.rank == 0:
            break
        kept.remove(least)
    lines = []
    for name, *cells in zip(*((column.header, *column.cells) for column in kept), strict=True):
        first, *more = name.split("\n")
        padded = []
        for cell, column in zip((first, *cells), kept, strict=True):
            space = " " * (column.width - cells_of(cell))
            padded.append(space + cell if column.right else cell + space)
        lines += [cut(line, width) for line in (GAP.join(padded).rstrip(), *more)]
    return lines
