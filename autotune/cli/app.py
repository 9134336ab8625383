"""Commands and their options, as the command line declares them; the work is done elsewhere.

Each command imports its module when it runs, so that `autotune --help` stays quick.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from autotune.cli.command_groups import cache_app, features_app, records_app, replay_app, tile_app
from autotune.cli.options.multi_value_options import Command, ListOptions, OptionalHeatmap
from autotune.cli.options.shared_options import (
    TEMPLATE_HELP,
    Flush,
    Json,
    MinRepeat,
    Patience,
    Set,
    Shape,
    TargetText,
    TemplateName,
    Timeout,
    Transfer,
)

app = typer.Typer(
    name="autotune",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(records_app, name="records")
app.add_typer(cache_app, name="cache")
app.add_typer(replay_app, name="replay")
app.add_typer(features_app, name="features")
app.add_typer(tile_app, name="tile")


def _print_version(wanted: bool) -> None:
    if wanted:
        from autotune import __version__
        from autotune.cli.terminal.output import print_line

        print_line(f"autotune {__version__}")
        raise typer.Exit


def _say_more(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.obj.say_more()


@app.callback()
def _autotune(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            callback=_say_more,
            help="Log to the standard error; may stand after the command, too.",
        ),
    ] = False,
) -> None:
    """Tune kernels for this machine, and use what was measured.

    autotune run matmul --set m=512 --set n=512 --set k=512

    Exit codes: 0 done, 2 a mistake in the command or its inputs (one line says which),
    3 nothing valid was found, 130 interrupted (128 + its number for another signal).
    `autotune doctor`: 0 all is well, 1 it found a problem.
    """
    if context.invoked_subcommand != "doctor":  # it tells by itself what is wrong there
        from autotune.cli.options.config_file import load_defaults

        context.default_map = load_defaults(context.command)


def _option(help_text: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(metavar=metavar, help=help_text, **more)


@app.command(cls=ListOptions)
def run(
    context: typer.Context,
    template: Annotated[
        str | None,
        typer.Argument(metavar="TEMPLATE", help=TEMPLATE_HELP),
    ] = None,
    set_: Set = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    job: Annotated[
        str | None, _option("Tune the workloads of a TOML or YAML file.", "FILE")
    ] = None,
    trials: Annotated[
        int | None,
        _option("Measurements wanted in the log.  [64; no limit with --time]", "N", min=1),
    ] = None,
    time: Annotated[
        str | None, _option("Begin no measurement after 90s, 30m or 1h30m.", "TIME")
    ] = None,
    until: Annotated[
        str | None,
        _option("Stop at '0.9 of copy', '0.8 of peak', '200 GFLOPS' or '1.2 ms'.", "GOAL"),
    ] = None,
    patience: Patience = None,
    batch: Annotated[int | None, _option("Candidates asked for at once.  [8]", "N", min=1)] = None,
    tuner: Annotated[
        str, _option("model, random, grid, genetic, local or optuna:SAMPLER.", "TUNER")
    ] = "model",
    transfer: Transfer = None,
    log: Annotated[str | None, _option("Log of measurements.  [TEMPLATE.jsonl]", "FILE")] = None,
    seed: Annotated[
        int | None, _option("Seed of every random choice.  [chosen and printed]", "N", min=0)
    ] = None,
    timeout: Timeout = 10.0,
    repeats: Annotated[
        int | None, _option("Times to take of a candidate; their median counts.  [5]", "N", min=1)
    ] = None,
    warmup: Annotated[
        int | None, _option("Calls before the first timed one.  [1]", "N", min=1)
    ] = None,
    min_repeat_ms: MinRepeat = None,
    flush: Flush = None,
    race: Annotated[
        float | None,
        _option("Give up what is so many times slower than the best; 0: never.  [1.5]", "FACTOR"),
    ] = None,
    storage: Annotated[
        str | None,
        _option(
            "Mirror trials to an Optuna storage, such as sqlite:///run.db, for its dashboard.",
            "URL",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing but the last line.")
    ] = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print events as lines of JSON, nothing else.")
    ] = False,
) -> None:
    """Search for the fastest configuration; log measurements.

    Run it again and nothing is measured twice; a larger --trials continues. Ctrl-C keeps what was
    measured.
    """
    from autotune.cli.commands.run import run_command, view_of
    from autotune.cli.options.explicit_options import given_options

    view = view_of(quiet, json_lines)
    run_command(*given_options(context, leave_out=("quiet", "json-lines")), view)


@app.command(cls=ListOptions)
def best(
    template: TemplateName,
    log: Annotated[list[str], typer.Option(metavar="FILE ...", help="Logs of measurements.")],
    set_: Set = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    as_json: Json = False,
) -> None:
    """Print the configuration that logs have shown to be best."""
    from autotune.cli.commands.best import best_command

    best_command(template, set_ or [], shape or [], target, log, as_json)


@app.command(cls=OptionalHeatmap)
def bench(
    template: TemplateName,
    set_: Set = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    sizes: Annotated[
        list[str] | None,
        _option(
            "Sizes to compare at, such as n=256,512 or m=n=k=256,512; repeat it for others that "
            "go with them.  [powers of two]",
            "NAME=N,N,...",
        ),
    ] = None,
    by: Annotated[
        str | None,
        _option("The knob whose values are the lines.  [the first without numbers]", "KNOB"),
    ] = None,
    knob: Annotated[
        list[str] | None, _option("Fix a knob, else at its default; repeat it.", "NAME=VALUE")
    ] = None,
    heatmap: Annotated[
        str | None,
        _option("Compare the values of two knobs at one size instead.  [the first two]", "[K,K]"),
    ] = None,
    plot: Annotated[
        str | None, _option("Draw it into a picture, whose suffix says its format.", "FILE")
    ] = None,
    log: Annotated[
        str | None, _option("Log of measurements, which are used again.  [TEMPLATE.jsonl]", "FILE")
    ] = None,
    timeout: Timeout = 10.0,
    repeats: Annotated[int | None, _option("Times to take; their median counts.  [5]", "N")] = None,
    min_repeat_ms: MinRepeat = None,
    flush: Flush = None,
    as_json: Json = False,
) -> None:
    """Compare schedules with one another and with NumPy or CuPy, over sizes or over two knobs.

    autotune bench broadcast_add --target cuda --plot speeds.png

    Speeds are in GFLOPS, where operations are known. What is measured is checked and logged as by
    `autotune run`; what the log holds is not measured again.
    """
    from autotune.cli.commands.bench import bench_command
    from autotune.cli.commands.bench_plan import BenchOptions

    policy = {"repeats": repeats, "min-repeat-ms": min_repeat_ms, "flush": flush}
    words = (sizes or [], by, knob or [], heatmap, plot, log, timeout, policy, as_json)
    bench_command(BenchOptions(template, set_ or [], shape or [], target, *words))


@app.command(cls=ListOptions)
def build(
    template: TemplateName,
    set_: Set = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE ...", help="Logs whose best record to use.  [the default config]"
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The library.  [TEMPLATE.so]"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the function.  [TEMPLATE]")
    ] = None,
) -> None:
    """Compile the best configuration into a shared library.

    A C header stands beside it. Python calls it with autotune.load(FILE), which needs no compiler.
    """
    from autotune.cli.commands.build import build_command

    build_command(template, set_ or [], shape or [], target, log or [], output, name)


@app.command(cls=Command)
def templates(as_json: Json = False) -> None:
    """List the named templates and their arguments."""
    from autotune.cli.commands.templates import templates_command

    templates_command(as_json)


@app.command(cls=Command)
def show(
    template: TemplateName,
    set_: Set = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    config: Annotated[
        int | None,
        typer.Option(min=0, metavar="INDEX", help="A configuration.  [the default one]"),
    ] = None,
    space: Annotated[
        bool, typer.Option("--space", help="Knobs, constraints and their rejections.  [default]")
    ] = False,
    ir: Annotated[bool, typer.Option("--ir", help="Loops of the configuration.")] = False,
    source: Annotated[bool, typer.Option("--source", help="Its generated code.")] = False,
    steps: Annotated[bool, typer.Option("--steps", help="Its schedule, step by step.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The space as JSON.")] = False,
) -> None:
    """Print a search space, or a configuration's schedule, loops or code."""
    from autotune.cli.commands.show import show_command

    views = {"space": space, "ir": ir, "source": source, "steps": steps}
    asked = [view for view, wanted in views.items() if wanted]
    show_command(template, set_ or [], shape or [], target, config, asked, as_json)


@app.command(cls=Command)
def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Check what is installed and which targets work here, and measure a small kernel."""
    from autotune.cli.commands.doctor import doctor_command

    raise typer.Exit(doctor_command(context.find_root().command, as_json))
