"""Groups of commands: logs, the cache, recorded measurements, data sets, Tile."""

from __future__ import annotations

from typing import Annotated

import typer

from autotune.cli.options.multi_value_options import Command, ListOptions
from autotune.cli.options.shared_options import Json, Patience, Set, Shape, TargetText, Transfer

records_app = typer.Typer(help="Look into logs of measurements.", rich_markup_mode=None)
cache_app = typer.Typer(help="Look into the cache of compiled code.", rich_markup_mode=None)
replay_app = typer.Typer(help="Run tuners on recorded measurements.", rich_markup_mode=None)
features_app = typer.Typer(help="Data sets of features for research.", rich_markup_mode=None)
tile_app = typer.Typer(help="Look into functions in the Tile language.", rich_markup_mode=None)

_Tuners = Annotated[
    list[str] | None,
    typer.Option(
        "--tuner",
        metavar="NAME ...",
        help="model, random, grid, genetic, local, optuna:SAMPLER, kernel_tuner:STRATEGY.  [model]",
    ),
]
_Budget = Annotated[int, typer.Option(min=1, help="Measurements per run.")]
_Repeats = Annotated[int, typer.Option(min=1, help="Runs, each with a seed of its own.")]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of the first run; others count on.")]
_Batch = Annotated[int, typer.Option(min=1, help="Candidates a tuner is asked for at once.")]
_Jobs = Annotated[int, typer.Option(min=1, help="Processes that run tuners side by side.")]
_Plot = Annotated[str | None, typer.Option(metavar="FILE", help="Draw the curves into a picture.")]


@replay_app.command("run", cls=ListOptions)
def replay_run(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Our log, an AutoTVM log, a Kernel Tuner cache or T4 results."
        ),
    ],
    tuner: _Tuners = None,
    budget: _Budget = 200,
    repeats: _Repeats = 1,
    seed: _Seed = 0,
    batch: _Batch = 1,
    jobs: _Jobs = 1,
    as_json: Json = False,
    plot: _Plot = None,
    patience: Patience = None,
    transfer: Transfer = None,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which one, if the file holds several.")
    ] = None,
) -> None:
    """Search one recorded space: nothing is built, nothing runs.

    The space is the file's configurations; the share is that of the optimum, after so many
    measurements.
    """
    from autotune.cli.commands.replay import ReplayOptions, replay_run_command

    options = ReplayOptions(
        tuner or ["model"],
        budget,
        repeats,
        seed,
        batch,
        jobs,
        as_json,
        plot,
        patience,
        transfer or [],
        workload,
    )
    replay_run_command(file, options)


@replay_app.command("compare", cls=ListOptions)
def replay_compare(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder of recorded files.")],
    tuner: _Tuners = None,
    budget: _Budget = 200,
    repeats: _Repeats = 10,
    seed: _Seed = 0,
    batch: _Batch = 1,
    jobs: _Jobs = 1,
    as_json: Json = False,
    plot: _Plot = None,
    patience: Patience = None,
    transfer: Transfer = None,
) -> None:
    """Search every recorded space of a folder, and print the means.

    Share of the optimum after so many measurements, share of runs that came within 5 % of it,
    and measurements to get there.
    """
    from autotune.cli.commands.replay import ReplayOptions, replay_compare_command

    options = ReplayOptions(
        tuner or ["model"],
        budget,
        repeats,
        seed,
        batch,
        jobs,
        as_json,
        plot,
        patience,
        transfer or [],
    )
    replay_compare_command(folder, options)


@records_app.command("summary", cls=Command)
def records_summary(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Our log, an AutoTVM log, a Kernel Tuner cache or T4 results."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Print what a log holds, by workload and target."""
    from autotune.cli.commands.records import summary_command

    summary_command(file, as_json)


@features_app.command("export", cls=ListOptions)
def features_export(
    log: Annotated[
        list[str],
        typer.Option(
            metavar="FILE ...", help="Our logs, AutoTVM logs, Kernel Tuner caches, T4 results."
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out", "-o", metavar="FILE", help="What to write: a .parquet, .csv or .npz file."
        ),
    ],
    layout: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME ...", help="Features: itervar, curve, knob, autotvm08.  [itervar]"
        ),
    ] = None,
    with_programs: Annotated[
        bool,
        typer.Option(
            "--with-programs", help="Add loops, steps, the source's hash and all repeats."
        ),
    ] = False,
    template: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE ...", help="Templates without a name, file.py:function or file.tile."
        ),
    ] = None,
) -> None:
    """Write logs and features as a table for pandas, one row per record.

    Failures are rows, too. A schema file and a data card stand beside the table; the card counts
    what is missing and why.
    """
    from autotune.cli.commands.features import export_command

    export_command(log, out, layout or ["itervar"], with_programs, template or [])


@features_app.command("describe", cls=ListOptions)
def features_describe(
    template: Annotated[
        str | None,
        typer.Argument(
            metavar="TEMPLATE", help="Whose columns.  [patterns that hold for all templates]"
        ),
    ] = None,
    set_: Set = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    layout: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME ...", help="itervar, curve, knob, autotvm08.  [all of them]"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain every column of an export: name, dtype, unit, meaning."""
    from autotune.cli.commands.features import describe_command

    describe_command(template, set_ or [], shape or [], target, layout or [], as_json)


@cache_app.command("info", cls=Command)
def cache_info(as_json: Json = False) -> None:
    """Print where compiled code is kept, how much there is and how old it is."""
    from autotune.cli.commands.cache import info_command

    info_command(as_json)


@cache_app.command("clear", cls=Command)
def cache_clear(as_json: Json = False) -> None:
    """Delete all compiled code that is kept; runs that go on meanwhile lose nothing."""
    from autotune.cli.commands.cache import clear_command

    clear_command(as_json)


_TileFile = Annotated[str, typer.Argument(metavar="FILE", help="A function in the Tile language.")]


@tile_app.command("check", cls=Command)
def tile_check(file: _TileFile) -> None:
    """Say what a Tile function takes and gives, or what is wrong with it and where."""
    from autotune.cli.commands.tile import check_command

    check_command(file)


@tile_app.command("grad", cls=Command)
def tile_grad(
    file: _TileFile,
    wrt: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Input to differentiate by; repeat it.  [all]"),
    ] = None,
    ranks: Annotated[
        list[str] | None,
        typer.Option(
            "--rank",
            metavar="NAME=N",
            help="How many dimensions an input has, if the header has none; repeat it.",
        ),
    ] = None,
    shape: Shape = None,
) -> None:
    """Print the Tile function that computes the gradients of one."""
    from autotune.cli.commands.tile import grad_command

    grad_command(file, wrt or [], ranks or [], shape or [])


@tile_app.command("show", cls=Command)
def tile_show(
    file: _TileFile,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=SIZE", help="Size of a dimension; repeat it."),
    ] = None,
    shape: Shape = None,
    target: TargetText = "llvm",
    te: Annotated[bool, typer.Option("--te", help="Print tensor expressions.")] = False,
    ir: Annotated[bool, typer.Option("--ir", help="Print loops (what is printed anyway).")] = False,
    source: Annotated[bool, typer.Option("--source", help="Print the generated code.")] = False,
) -> None:
    """Print what becomes of a Tile function of float32 arrays at some sizes."""
    from autotune.cli.commands.tile import show_command

    views = [name for name, wanted in (("te", te), ("ir", ir), ("source", source)) if wanted]
    show_command(file, settings or [], shape or [], target, views)
