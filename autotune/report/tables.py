"""Plain tables that fit the width they are given: columns aligned, the last one wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

GAP = "  "


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return rows under headers as text; the last column takes what room is left.

    Parameters
    ----------
    headers : sequence of str
        One per column; a header that ends in "#" has its column aligned to the right.
    rows : sequence of sequences of str
    width : int
        Columns of the terminal. A line is longer only if the columns but the last leave no room.
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
    """Return a text broken into lines of at most `width`, those after the first indented."""
    return "\n".join(
        textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]
    )
