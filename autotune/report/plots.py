"""Draws curves into a picture: the one home of Matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.errors import UsageError
from autotune.report.replay import Curve


def check_picture(path: Path) -> None:
    """Raise UsageError unless a picture can be written there: before work that is to be drawn."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise UsageError(
            "--plot needs Matplotlib: pip install 'kernel-autotune[report]'"
        ) from error
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lstrip(".").lower() not in known:
        raise UsageError(
            f"--plot {path}: a picture's suffix says its format, one of {', '.join(known)}"
        )
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"--plot {path}: it is a folder")


def draw_curves(panels: Mapping[str, Mapping[str, Curve]], path: Path) -> None:
    """Write a picture with one panel per axis and one line per tuner; see `check_picture`.

    Parameters
    ----------
    panels : mapping of str to (mapping of str to Curve)
        By the axis's label, then by tuner.
    path : Path
        Its suffix says the format: .png, .svg, .pdf.

    Raises
    ------
    UsageError
        If Matplotlib cannot write the file.
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
    try:
        figure.savefig(path)
    except (ValueError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot write the picture {path}: {why}") from error
