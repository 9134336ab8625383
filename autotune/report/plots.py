"""Draws curves, speeds and maps of knobs into pictures; only this file imports Matplotlib."""

from __future__ import annotations

import itertools
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import UsageError
from autotune.report.bench_speeds import BEST, Grid, Speed, Speeds, axis_text
from autotune.report.replay_scores import Curve
from autotune.report.units import three_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.figure import Figure


def check_picture(path: Path) -> None:
    """Raise UsageError unless a picture can be written there; call it before measuring."""
    known = sorted(_canvas().get_supported_filetypes())
    if path.suffix.lstrip(".").lower() not in known:
        raise UsageError(
            f"the picture {path}: its suffix says the format, one of {', '.join(known)}"
        )
    if not path.parent.is_dir():
        raise UsageError(f"the picture {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"the picture {path}: it is a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"the picture {path}: it may not be written; choose another file")


def _canvas() -> type[FigureCanvasBase]:
    """Return what draws figures; UsageError if Matplotlib is not installed."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise UsageError(
            "a picture needs Matplotlib: pip install 'kernel-autotune[report]'"
        ) from error
    return FigureCanvasBase


def draw_curves(panels: Mapping[str, Mapping[str, Curve]], path: Path) -> None:
    """Write a picture with one panel per axis and one line per tuner; see `check_picture`.

    panels: by the axis's label, then by tuner.
    path: its suffix says the format: .png, .svg, .pdf.

    UsageError if Matplotlib cannot write the file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(panels), 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    for number, (label, curves) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(1, len(panels), number)
        for tuner, curve in curves.items():
            (line,) = axes.plot(curve.x, curve.mean, label=tuner)
            axes.fill_between(curve.x, curve.low, curve.high, color=line.get_color(), alpha=0.12)
        axes.set_xlabel(label)
        axes.set_xscale("log")
        axes.set_ylabel("share of the optimum")
        axes.set_ylim(top=1.01)
        axes.grid(alpha=0.3)
        axes.legend()
    _save(figure, path)


def draw_speeds(found: Speeds | Grid, path: Path) -> None:
    """Write a picture of speeds; see `check_picture`.

    found: lines over the size of the data, both logarithmic; or a map over two knobs for each
        panel, where the fastest cell is framed, and those without a time are hatched.
    path: its suffix says the format.

    UsageError if Matplotlib cannot write the file.
    """
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # a dollar sign is part of a name
        _save(_maps(found) if isinstance(found, Grid) else _lines(found), path)


# -- lines over sizes ----------------------------------------------------------------------------

# Told apart also by colour-blind eyes (Okabe and Ito, "Color Universal Design", 2008).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933", "#882255")

_MARKERS = ("o", "s", "^", "D", "v", "P", "h", "<")


def _lines(found: Speeds) -> Figure:
    """Return a picture with a line for each way to compute it, and one for the baseline."""
    figure = _figure(7.6, 5.0, found)
    axes = figure.add_subplot()
    sizes = [1e-6 * setting.work.bytes for setting in found.settings]
    looks = itertools.cycle(zip(_COLOURS, _MARKERS, strict=True))
    for name in found.lines:
        colour, marker = ("black", "*") if name == BEST else next(looks)
        _line(axes, sizes, found.line(name), name, color=colour, marker=marker)
    if any(found.baseline):
        look: Any = {"color": "0.45", "marker": "x", "linestyle": "--"}
        _line(axes, sizes, found.baseline, found.subject.baseline, **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("data (MB)")
    axes.set_ylabel(found.unit)
    axes.grid(which="major", alpha=0.3)
    _plain_ticks(axes.xaxis, sizes)
    speeds = [found.baseline, *map(found.line, found.lines)]
    _plain_ticks(axes.yaxis, [speed for line in speeds for speed in line if speed])
    axes.legend(frameon=False)
    return figure


def speed_figure(
    sizes: Sequence[float], lines: Mapping[str, Sequence[Speed]], label: str
) -> Figure:
    """Return a picture of speeds in GFLOP/s over sizes, both logarithmic, without subject.

    lines: speeds at each size, by name.
    label: what the sizes are.

    UsageError if Matplotlib is not installed.
    """
    _canvas()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel=label, ylabel="GFLOP/s")
    looks = itertools.cycle(zip(_COLOURS, _MARKERS, strict=True))
    for (name, speeds), (colour, marker) in zip(lines.items(), looks, strict=False):
        _line(axes, sizes, speeds, name, color=colour, marker=marker)
    axes.grid(which="major", alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _line(
    axes: Axes, sizes: Sequence[float], speeds: Sequence[Speed], name: str, **look: Any
) -> None:
    """Draw a line, with gaps where there is no speed."""
    values = [math.nan if speed is None else speed for speed in speeds]
    axes.plot(sizes, values, label=name, linewidth=1.8, markersize=5.5, **look)


def _plain_ticks(axis: Axis, values: Sequence[float], logarithmic: bool = True) -> None:
    """Label an axis with plain numbers, a logarithmic one with closer ones where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if logarithmic:
        decades = math.log10(max(values) / min(values)) if values else 1.0
        axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 3 else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


# -- maps over two knobs -------------------------------------------------------------------------

_COLOUR_MAP = "viridis"
_LONG = 6  # Labels of an axis with more characters are rotated.
_MAX_WRITTEN = 16  # Cells side by side up to which each shows its number.


def _maps(found: Grid) -> Figure:
    """Return a picture with a map for each panel, on one scale of colours."""
    from matplotlib.cm import ScalarMappable

    norm = _norm([s for name in found.panels for row in found.panel(name) for s in row if s])
    across, down = len(found.columns), len(found.rows)
    width = 2.0 + len(found.panels) * max(2.4, 0.55 * across)
    figure = _figure(width, 2.0 + max(2.4, 0.42 * down), found)
    panels = figure.subplots(1, len(found.panels), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, found.panels, strict=True):
        _map(axes, found, name, norm)
    panels[0].set_ylabel(found.down)
    bar = figure.colorbar(ScalarMappable(norm, _COLOUR_MAP), ax=list(panels), label=found.unit)
    _plain_ticks(bar.ax.yaxis, [norm.vmin, norm.vmax], bar.ax.get_yscale() == "log")
    if found.baseline is not None and norm.vmin <= found.baseline <= norm.vmax:
        bar.ax.axhline(found.baseline, color="black", linewidth=2)
        look: Any = {"xytext": (-4, 0), "textcoords": "offset points", "fontsize": "small"}
        where = (0, found.baseline)
        bar.ax.annotate(found.subject.baseline, where, ha="right", va="center", **look)
    return figure


def _norm(speeds: Sequence[float]) -> Any:
    """Return the scale of colours: logarithmic where speeds differ by more than ten times."""
    from matplotlib.colors import LogNorm, Normalize

    low, high = min(speeds), max(speeds)
    return LogNorm(low, high) if high > 10.0 * low else Normalize(low, high)


def _map(axes: Axes, found: Grid, name: str, norm: Any) -> None:
    """Draw one panel: colours, numbers, hatched gaps, a frame around the fastest cell of all."""
    from matplotlib.patches import Rectangle

    values = [[math.nan if speed is None else speed for speed in row] for row in found.panel(name)]
    axes.imshow(values, cmap=_COLOUR_MAP, norm=norm, origin="lower", aspect="auto")
    columns = list(map(axis_text, found.columns))
    axes.set_xticks(range(len(columns)), columns)
    if max(map(len, columns)) > _LONG:
        axes.tick_params(axis="x", rotation=90)
    axes.set_yticks(range(len(found.rows)), list(map(axis_text, found.rows)))
    axes.tick_params(length=0)
    axes.set_title(name, fontsize="medium")
    axes.set_xlabel(found.across)
    gap: Any = {"facecolor": "0.93", "edgecolor": "0.75", "hatch": "////", "linewidth": 0}
    frame: Any = {"fill": False, "edgecolor": "#D55E00", "linewidth": 2.2}
    for y, points in enumerate(found.panels[name]):
        for x, point in enumerate(points):
            corner, value = (x - 0.5, y - 0.5), values[y][x]
            if math.isnan(value):
                axes.add_patch(Rectangle(corner, 1, 1, **gap))
            elif len(points) <= _MAX_WRITTEN:
                look: Any = {"color": "black" if norm(value) > 0.6 else "white", "fontsize": 6.5}
                axes.text(x, y, three_digits(value), ha="center", va="center", **look)
            if point is found.best:
                axes.add_patch(Rectangle(corner, 1, 1, **frame))


# -- shared by all pictures ----------------------------------------------------------------------


def _figure(width: float, height: float, found: Speeds | Grid) -> Figure:
    """Return a figure without axes, in inches, with the subject above and conditions below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    subject, letters, conditions = found.subject, round(12 * width), found.conditions
    if isinstance(found, Grid) and any(found.missing()):
        conditions += "; hatched: refused, or failed"
    title, knobs, place = (
        textwrap.fill(text, letters) for text in (subject.title, conditions, subject.place)
    )
    line = 0.17 / height
    head, foot = (line * (1.5 + text.count("\n")) for text in (f"{title}\n{knobs}", place))
    layout = ConstrainedLayoutEngine(rect=(0.0, foot, 1.0, 1.0 - head - foot))
    figure = Figure(figsize=(width, height), layout=layout, dpi=150)
    FigureCanvasAgg(figure)
    colour = "#B00000" if subject.times_mean_nothing else "0.35"
    below = 1.0 - line * (1.25 + title.count("\n"))
    figure.text(0.012, 0.99, title, va="top", fontsize="medium", fontweight="bold")
    figure.text(0.012, below, knobs, va="top", fontsize="small", color="0.35")
    figure.text(0.012, 0.01, place, va="bottom", fontsize="small", color=colour)
    return figure


def _save(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path)
    except (ValueError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write the picture {path}: {why}") from error
