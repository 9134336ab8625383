"""Record `autotune run` in a pseudo-terminal: an asciicast to play, and an SVG of key frames.

    python docs/record_terminal.py [--columns 80 40] [--name run] [-- WORDS OF THE COMMAND]
    python docs/record_terminal.py --name jobs --file docs/pictures/jobs.toml -- --job jobs.toml

The SVG shows the screen early, late and at the end, as an emulator of a terminal has it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

import pyte
import pyte.screens

ROOT = Path(__file__).parents[1]
COMMAND = (
    "conv2d_nchw --set n=1 --set c=512 --set h=7 --set w=7 --set o=512 --set kh=3 --set kw=3 "
    "--set pad=1 --trials 64 --seed 1"
)
ROWS = 24
SHARES = (0.25, 0.75, 1.0)
"""Moments of a recording that are shown, as shares of its length."""


@dataclass(frozen=True)
class Recording:
    """What a command wrote to a terminal, and when.

    Attributes
    ----------
    title : str
        The command.
    columns, rows : int
        Of the terminal.
    output : tuple of (float, str)
        Pieces of output with the seconds since the command began.
    """

    title: str
    columns: int
    rows: int
    output: tuple[tuple[float, str], ...]

    def cast(self) -> str:
        """Return the recording in the format asciicast v2."""
        head = {"version": 2, "width": self.columns, "height": self.rows, "title": self.title}
        lines = [json.dumps(head | {"env": {"TERM": "xterm-256color"}})]
        lines += [json.dumps([round(at, 3), "o", text]) for at, text in self.output]
        return "\n".join(lines) + "\n"

    def frame(self, at_s: float) -> Frame:
        """Return what the screen showed at some time."""
        screen = pyte.Screen(self.columns, self.rows)
        stream = pyte.Stream(screen)
        for at, text in self.output:
            if at <= at_s:
                # The emulator knows no faint text.
                stream.feed(text.replace("\x1b[2m", "\x1b[90m"))
        lines = [[screen.buffer[row][column] for column in range(self.columns)]
                 for row in range(self.rows)]  # fmt: skip
        while lines and not "".join(char.data for char in lines[-1]).strip():
            lines.pop()
        return Frame(at_s, lines)

    def key_frames(self) -> list[Frame]:
        """Return the screen at some moments, the last drawing before each."""
        end = self.output[-1][0]
        return [self.frame(share * end) for share in SHARES]


@dataclass(frozen=True)
class Frame:
    """A screen, row by row, without the empty rows at its end."""

    at_s: float
    lines: Sequence[Sequence[pyte.screens.Char]]


def record(
    words: Sequence[str], columns: int, rows: int = ROWS, files: Sequence[Path] = ()
) -> Recording:
    """Run `autotune run` with these words in a terminal of this size, in a folder of these files.

    Raises
    ------
    SystemExit
        If the command fails.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            shutil.copy(file, folder)
        with subprocess.Popen(
            [sys.executable, "-m", "autotune", "run", *words],
            stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder,
        ) as process:  # fmt: skip
            os.close(slave)
            output = tuple((time.monotonic() - begin, text) for text in _pieces(master))
            os.close(master)
    if process.returncode:
        raise SystemExit(f"autotune run ended with {process.returncode}")
    return Recording(f"autotune run {' '.join(words)}", columns, rows, output)


def _pieces(master: int) -> Iterator[str]:
    """Yield what comes from a terminal until its other side is closed, whole characters only."""
    rest = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # Linux says so at the end
            return
        if not data:
            return
        text = (rest + data).decode(errors="ignore")
        rest = (rest + data)[len(text.encode()) :]
        yield text


# -- the picture -----------------------------------------------------------------------------

CELL = (8.7, 18.0)
"""Width and height of a character."""
MARGIN = 16.0
GROUND, PAPER, INK = "#0d1117", "#161b22", "#c9d1d9"
INKS = {"brightblack": "#7d8590", "cyan": "#56c8d8", "green": "#7ee787", "brown": "#e3b341"}
FAINT, STRONG = "#7d8590", "#f0f6fc"

_SHAPES = "━─╋┼▁▂▃▄▅▆▇█"
"""Block characters differ much between fonts: they are drawn."""


def picture(recording: Recording) -> str:
    """Return key frames of a recording as an SVG, below one another, each with its time."""
    width = recording.columns * CELL[0] + 2 * MARGIN
    drawn, y = [], MARGIN
    prompt = [f'<tspan fill="{FAINT}">$ </tspan>', escape(recording.title)]
    for line in _wrapped(prompt[1], recording.columns - 2):
        drawn.append(_text(MARGIN, y, f"{prompt[0]}{line}", STRONG))
        prompt[0] = "  "
        y += CELL[1]
    y += 4
    for frame in recording.key_frames():
        said = "at the end" if frame.at_s >= recording.output[-1][0] else f"{frame.at_s:.0f} s"
        y += CELL[1] + 4
        drawn.append(_text(MARGIN, y - CELL[1] - 2, said, FAINT))
        height = len(frame.lines) * CELL[1] + MARGIN
        drawn.append(
            f'<rect x="{MARGIN / 2:g}" y="{y:g}" width="{width - MARGIN:g}" height="{height:g}" '
            f'rx="6" fill="{PAPER}"/>'
        )
        for number, line in enumerate(frame.lines):
            drawn += _line(line, y + MARGIN / 2 + number * CELL[1])
        y += height + MARGIN / 2
    y += MARGIN / 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {y:g}" width="{width:g}" '
        f'height="{y:g}" font-size="14" xml:space="preserve" '
        "font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\">"
    )
    title = f"<title>{escape(recording.title)}</title>"
    ground = f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>'
    return "\n".join([head, title, ground, *drawn, "</svg>\n"])


def _wrapped(text: str, columns: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _line(line: Sequence[pyte.screens.Char], y: float) -> Iterator[str]:
    """Draw one row of a screen: bars as bars, characters of one look as one text."""
    column = 0
    for look, group in groupby(line, key=lambda char: (_ink(char), char.data in _SHAPES)):
        chars = "".join(char.data for char in group)
        ink, shapes = look
        if shapes:
            for number, char in enumerate(chars):
                yield _shape(char, MARGIN + (column + number) * CELL[0], y, ink)
        elif chars.strip():
            weight = ' font-weight="bold"' if ink == STRONG else ""
            length = f' textLength="{len(chars) * CELL[0]:g}" lengthAdjust="spacingAndGlyphs"'
            yield _text(MARGIN + column * CELL[0], y, escape(chars), ink, weight + length)
        column += len(chars)


def _shape(char: str, x: float, y: float, ink: str) -> str:
    wide, high = CELL
    middle = y + high / 2
    if char in "━─╋┼":
        thick = 4.0 if char in "━╋" else 1.5
        bar = _rect(x, middle - thick / 2, wide, thick, ink)
        cross = _rect(x + wide / 2 - 1, middle - 6, 2.0, 12.0, STRONG) if char in "╋┼" else ""
        return bar + cross
    level = (_SHAPES.index(char) - _SHAPES.index("▁") + 1) / 8
    return _rect(x, y + high - 3 - level * (high - 4), wide - 1, level * (high - 4), ink)


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'


def _text(x: float, y: float, text: str, fill: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y + 13:g}" fill="{fill}"{more}>{text}</text>'


def _ink(char: pyte.screens.Char) -> str:
    return INKS.get(char.fg, STRONG if char.bold else INK)


def main(argv: Sequence[str] | None = None) -> None:
    """Record, and write `NAME-COLUMNS.cast` and `NAME-COLUMNS.svg`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[80, 40])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--name", default="run", help="what the files are called")
    parser.add_argument("--file", type=Path, nargs="*", default=[], help="files of the command")
    parser.add_argument("words", nargs="*", default=COMMAND.split())
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    for columns in options.columns:
        recording = record(options.words, columns, files=options.file)
        for end, text in (("cast", recording.cast()), ("svg", picture(recording))):
            (options.out / f"{options.name}-{columns}.{end}").write_text(text)


if __name__ == "__main__":
    main()
