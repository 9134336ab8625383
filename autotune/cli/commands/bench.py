"""`autotune bench`: compares the speed of schedules, over sizes or over two knobs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from autotune.cli.bench.bench_measurements import Measurements
from autotune.cli.bench.bench_plan import (
    BenchOptions,
    along_axis,
    fixed_knobs,
    grid_knobs,
    line_knob,
    sizes_of,
)
from autotune.cli.options.input_files import check_log, open_log
from autotune.cli.options.multi_value_options import OptionalHeatmap
from autotune.cli.options.run_plans import check_target
from autotune.cli.options.shared_options import command_app, options_of, parse_settings
from autotune.cli.options.task_arguments import task_with, template_of
from autotune.cli.terminal.output import NOTHING_FOUND, StopError, print_line, width
from autotune.cli.terminal.signals import ending_signals, exit_code
from autotune.errors import UsageError
from autotune.report.bench_speeds import BEST, Grid, Point, Setting, Speeds, value_text
from autotune.report.bench_tables import as_json, as_text
from autotune.report.plots import check_picture, draw_speeds
from autotune.target import Target
from autotune.task.task import Task
from records.log_set import log_name
from search_spaces import Knob, KnobValue

DEFAULT = "default"  # Name of the only line there is.

Values = Mapping[str, KnobValue]


app = command_app()


@app.command(cls=OptionalHeatmap)
@options_of(BenchOptions)
def bench(options: BenchOptions) -> None:
    """Compare schedules with one another and with NumPy or CuPy, over sizes or over two knobs.

    autotune bench broadcast_add --target cuda --plot speeds.png

    Speeds are in GFLOPS, where operations are known. What is measured is checked and logged as by
    `autotune run`; what the log holds is not measured again.
    """
    with ending_signals(), redirect_stdout(sys.stderr):  # a template's output is not the result
        if options.plot is not None:
            check_picture(Path(options.plot))
        found = _measured(options)
    _show(found, options)


def _measured(options: BenchOptions) -> Speeds | Grid:
    tasks, varied = _tasks(options)
    usual = log_name(tasks[0].workload.template)
    log = check_log(usual if options.log is None else options.log)
    runs = Measurements(open_log(log), options.policy, options.timeout_s, varied)
    try:
        if options.heatmap is None:
            return _speeds(options, tasks, runs)
        return _grid(options, tasks[0], runs, options.heatmap)
    except KeyboardInterrupt as interrupt:
        if not log.exists():  # nothing was measured yet
            raise
        rest = f"what was measured is in {log}, and is not measured again"
        raise StopError(exit_code(interrupt), f"interrupted; {rest}") from None


def _tasks(options: BenchOptions) -> tuple[list[Task], list[str]]:
    """Return a task for each size, and the names of the arguments that vary."""
    target = Target.parse(options.target)
    check_target(target)
    template = template_of(options.template, target, options.timeout_s)
    sizes = sizes_of(options, template, target)
    if options.heatmap is not None and len(sizes) > 1:
        raise UsageError("--heatmap shows one size: give one value to each of --sizes, or --set")
    settings = parse_settings(options.settings)
    shapes = parse_settings(options.shapes, "--shape")
    tasks = [
        task_with(template, options.template, settings | size, shapes, target, options.timeout_s)
        for size in sizes
    ]
    return tasks, list(sizes[0])


def _show(found: Speeds | Grid, options: BenchOptions) -> None:
    """Print and draw the results; raise StopError if there are none."""
    print_line(json.dumps(as_json(found)) if options.as_json else as_text(found, width()))
    points = list(found.points())
    if all(point.cost_s is None for point in points):
        raise StopError(NOTHING_FOUND, f"nothing valid was measured: {points[0].why}")
    if options.plot is None:
        return
    draw_speeds(found, Path(options.plot))
    if not options.as_json:
        print_line(f"drawn into {options.plot}")


def _speeds(options: BenchOptions, tasks: Sequence[Task], runs: Measurements) -> Speeds:
    """Measure a configuration for each line at each size."""
    fixed = fixed_knobs(options.knobs, tasks[0].space)
    wanted = _ways(line_knob(tasks[0].space, options.by, fixed), fixed)
    lines: dict[str, list[Point | None]] = {name or DEFAULT: [] for name in wanted}
    settings: list[Setting] = []
    bests: list[Point | None] = []
    for task in tasks:
        setting, points, best = runs.of(task, wanted)
        settings.append(setting)
        bests.append(best)
        for name, point in points.items():
            lines[name or DEFAULT].append(point)
    if any(_betters(best, at) for best, *at in zip(bests, *lines.values(), strict=True)):
        lines[BEST] = bests
    return Speeds(runs.subject(), settings, lines)


def _grid(options: BenchOptions, task: Task, runs: Measurements, words: str) -> Grid:
    """Measure a configuration for each pair of values of two knobs."""
    fixed = fixed_knobs(options.knobs, task.space)
    across, down = grid_knobs(task.space, words, fixed)
    knob = line_knob(task.space, options.by, fixed)
    ways = _ways(None if knob in (across, down) else knob, fixed)
    columns, rows = along_axis(across), along_axis(down)
    wanted = {
        (panel, row, column): {**own, across.name: column, down.name: row}
        for panel, own in ways.items()
        for row in rows
        for column in columns
    }
    setting, points, _ = runs.of(task, wanted)
    panels = {
        panel: [[points[panel, row, column] for column in columns] for row in rows]
        for panel in ways
    }
    return Grid(runs.subject(), setting, across.name, down.name, columns, rows, panels)


def _ways(knob: Knob | None, fixed: Values) -> dict[str, Values]:
    """Return the knobs to set, by name of the way; one without a name if no knob makes any."""
    if knob is None:
        return {"": fixed}
    return {_label(knob.name, value): {**fixed, knob.name: value} for value in along_axis(knob)}


def _label(knob: str, value: KnobValue) -> str:
    """Return the label of a configuration: the value of its knob, if that is clear by itself."""
    return value if isinstance(value, str) else f"{knob}={value_text(value)}"


def _betters(best: Point | None, others: Sequence[Point | None]) -> bool:
    """Whether a point is faster than all of others."""
    if best is None or best.cost_s is None:
        return False
    costs = [point.cost_s for point in others if point is not None and point.cost_s is not None]
    return best.cost_s < min(costs, default=math.inf)
