"""Tuning from Python: one call searches, measures, and returns what was found."""

from __future__ import annotations

import contextlib
import html
import inspect
import json
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.builder import BuiltFunction, build_task
from autotune.errors import NoRecordError, UsageError
from autotune.fleet.fleet import Fleet
from autotune.fleet.kinds import same_kind
from autotune.report.display.base import Display
from autotune.report.display.notebook import NotebookDisplay, in_notebook, show_in_cell, table_html
from autotune.report.display.run_display import View, make_display
from autotune.report.outcome import last_line, outcome_table, over_default
from autotune.report.progress import RunProgress, WorkloadStatus, workload_info
from autotune.report.ratio import Ratio
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.constant_arrays import Constants
from autotune.system.user_modules import refuse_while_loading
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Template, template_of
from autotune.tuner.factory import TunerChoice
from autotune.tuner.run.events import Event, EventCallback, TuneSummary
from autotune.tuner.run.parallel.each_kind import each_kind
from autotune.tuner.run.tuning_job import TuningRequest, check_each, check_fleet, tune_requests
from autotune.tuner.run.workload_labels import check_distinct, labels
from autotune.tuning_options import (
    SEARCH,
    JobOptions,
    SearchOptions,
    check_names,
    check_number,
    check_one_result,
    check_type,
    errors_in,
    log_path,
)
from records import Record, to_frame
from records.groups import RecordList
from records.log_set import log_to_append
from search_spaces import SpaceError

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 100  # Columns of a table in a text.


def tune(
    what: str | Callable[..., Any],
    args: Mapping[str, Any] | None = None,
    *,
    target: str | Target | None = None,
    trials: int | None = None,
    time: float | str | None = None,
    log: str | PathLike[str] | None = None,
    tuner: TunerChoice = "model",
    seed: int | None = None,
    callbacks: Sequence[EventCallback] = (),
    progress: bool | None = None,
    fleet: str | None = None,
    **more: Any,
) -> Tuned:
    """Search for the fastest configuration of a workload, and log each measurement.

    What the log knows already is not measured again; a call with more trials goes on from there.
    `autotune run` does the same on the command line.

    Parameters
    ----------
    what : str or function
        A template's name, ``path/to/file.py:function`` or ``path/to/file.tile``; a template; or a
        function that returns tensors. A function may stand in a file, in a script, in a cell of a
        notebook or inside of another function; worker processes get it as text.
    args : mapping, optional
        The arguments of the template by name.
    target : str or Target, optional
        What to tune for; by default what the template is for, or else "llvm".
    trials : int, optional
        Measurements wanted in the log; 64 by default, and no limit with `time`.
    time : float or str, optional
        Begin no measurement after so many seconds, or after "90s", "30m" or "1h30m".
    log : path, optional
        Where measurements are appended; ``NAME.jsonl`` here by default.
    tuner : str or callable
        "model", "random", "grid", "genetic", "local" or "optuna:SAMPLER"; or one of your own, see
        docs/extend.md: its name, ``module:name``, ``path/to/file.py:name``, or the class itself.
    seed : int, optional
        Seed of every random choice; by default one is chosen, see `Tuned.seed`.
    callbacks : sequence of function
        Each is called with the events of `autotune.tuner.run.events`.
    progress : bool, optional
        Whether to show the run while it goes on; by default in a notebook and on a terminal.
    fleet : str, optional
        Measure on a cluster of Ray, not on this machine: "ray://HOST:10001", "auto", "local" or
        "local:N"; see docs/fleet.md.
    **more
        As of the workloads of `tune_job`: ``until``, ``patience``, ``batch``, ``constant``,
        ``transfer``, ``timeout``, ``policy``, ``any_device``, ``storage``, ``cost_model``,
        ``features``, ``measurer``, ``compare_on``, ``devices``. Only `tune_job` takes
        ``devices="each"``, because that has a result for each kind of device.

    Returns
    -------
    Tuned
        What was found: the best, the default, the records.

    Raises
    ------
    UsageError
        If an argument is not what it should be, or the template refuses all configurations.
    RecordError
        If the log is not a log of records, or cannot be written.

    Examples
    --------
    >>> tuned = autotune.tune("matmul", {"m": 512, "n": 512, "k": 512}, trials=32)
    >>> print(tuned.best.cost_s, tuned.speedup)
    >>> matmul = tuned.build()
    >>> matmul(a, b, c)
    """
    workload = {
        "what": what,
        "args": args,
        "target": target,
        "trials": trials,
        "log": log,
        "tuner": tuner,
        **more,
    }
    check_one_result(more, "tune")
    (found,) = _tune([workload], "tune", time, seed, callbacks, progress, fleet)
    return found


def tune_job(
    workloads: Iterable[Mapping[str, Any]],
    *,
    time: float | str | None = None,
    seed: int | None = None,
    callbacks: Sequence[EventCallback] = (),
    progress: bool | None = None,
    fleet: str | None = None,
) -> list[Tuned]:
    """Tune several workloads in one run; the one with the largest expected gain is next.

    Parameters
    ----------
    workloads : iterable of mapping
        The arguments of `tune` for each: ``what`` and, where they are wanted, ``args``, ``target``,
        ``trials``, ``log``, ``tuner``, and

        - ``until``: stop at "0.9 of copy", "0.8 of peak", "200 GFLOPS" or "1.2 ms";
        - ``patience``: stop when less than this share of gain is expected, such as 0.01;
        - ``batch``: candidates asked for at once;
        - ``constant``: positions of inputs that do not change from call to call;
        - ``transfer``: logs of other workloads to learn from;
        - ``timeout``: seconds that a candidate may take to build, and again to run;
        - ``policy``: a `TimingPolicy`, how candidates are timed;
        - ``any_device``: whether records from other devices count;
        - ``storage``: URL of an Optuna storage that mirrors the trials;
        - ``cost_model``, ``features``, ``measurer``: of your own, given as `tuner` is;
        - ``devices``: which devices of the fleet measure, by part of their name, or "any"; with
          "each" there is a search for each kind of device, all at the same time;
        - ``compare_on``: the devices of the fleet that time the finalists, "one" or "all";
        - ``weight``: weight of its time against those of the other workloads;
        - ``name``: what events and tables call it.
    time, seed, callbacks, progress, fleet
        As of `tune`, for all workloads together.

    Returns
    -------
    list of Tuned
        One for each workload, in order; with ``devices="each"`` one for each kind of device, too:
        ``best.device`` says which.

    Raises
    ------
    UsageError, RecordError
        As of `tune`; the message says which workload it is.
    """
    found = list(workloads) if isinstance(workloads, Iterable) else []
    if not found or not all(isinstance(workload, Mapping) for workload in found):
        raise UsageError("tune_job: workloads must be a list of mappings, one for each workload")
    return _tune(found, "tune_job", time, seed, callbacks, progress, fleet)


@dataclass(frozen=True, repr=False)
class Tuned:
    """What tuning has found for one workload; built, printed, or looked into.

    Attributes
    ----------
    task : Task
        What was tuned.
    log : Path
        Where the measurements are.
    seed : int
        Seed of every random choice.
    summary : TuneSummary
        How the run ended.
    device : mapping, optional
        The kind of device, in the form of `Record.device`, if it was tuned for each kind.
    """

    task: Task
    log: Path
    seed: int
    summary: TuneSummary
    status: WorkloadStatus
    noise: float | None = None
    device: Mapping[str, Any] | None = None

    @property
    def best(self) -> Record | None:
        """The record of the configuration that is built; None if nothing worked.

        ``best.cost_s`` is its median time in seconds, ``best.config["values"]`` are its knobs.
        """
        return self.summary.best

    @property
    def default(self) -> Record | None:
        """The record of the default configuration, from the same comparison as the best."""
        return self.summary.default

    @property
    def speedup(self) -> Ratio | None:
        """How many times as fast as the default the best is, with the range ``low`` to ``high``.

        None if either was not timed, or they are one and the same.
        """
        return over_default(self.status)

    @property
    def records(self) -> pd.DataFrame:
        """All records of the workload, failures included: a frame as of `records.to_frame`.

        Those of earlier versions of the template are among them, with another fingerprint.
        """
        frame = to_frame([self.log] if self.log.exists() else [])
        own = self.task.workload.to_json()

        def is_own(name: str) -> Any:
            wanted = own.get(name) or None
            texts = frame[name].astype(object)
            return texts.map(lambda t: (json.loads(t) if isinstance(t, str) else None) == wanted)

        mine = (frame["template"] == own["template"]) & is_own("args") & is_own("constant")
        mine &= frame["target"] == self.task.target.recorded
        if self.device is not None:
            kind = self.device
            mine &= frame["device_details"].map(lambda t: same_kind(kind, json.loads(t)))
        found: pd.DataFrame = frame[mine].reset_index(drop=True)
        return found

    def build(self, name: str | None = None, constants: Constants | None = None) -> BuiltFunction:
        """Compile the best configuration; see `autotune.build`.

        Raises
        ------
        NoRecordError
            If no configuration worked.
        """
        if self.best is None:
            why = self.summary.first_error
            raise NoRecordError(f"{self}: there is nothing to build{why and f'; first: {why}'}")
        # Its device may be any: a measurer of the user names itself, a fleet is elsewhere.
        policy = ReusePolicy(devices="any")
        return build_task(self.task, RecordList([self.best]), name, constants, policy=policy)

    def __str__(self) -> str:
        said = last_line([self.status], self.summary.elapsed_s, self.noise)
        return f"{self.task.workload} on {self.task.target}: {said}"

    def __repr__(self) -> str:
        return f"<tuned {self}>"

    def __rich__(self) -> str:
        from rich.markup import escape

        return escape("\n".join([*outcome_table([self.status], _WIDTH), str(self)]))

    def _repr_html_(self) -> str:
        return f"{table_html([self.status])}<div>{html.escape(str(self))}</div>"


def _tune(
    workloads: Sequence[Mapping[str, Any]],
    caller: str,
    time: float | str | None,
    seed: int | None,
    callbacks: Sequence[EventCallback],
    progress: bool | None,
    fleet: str | None,
) -> list[Tuned]:
    refuse_while_loading(caller)
    with errors_in(caller):
        options = JobOptions(
            time=time, seed=seed, callbacks=callbacks, progress=progress, fleet=fleet
        )
    is_chosen = seed is None
    seed = secrets.randbelow(2**31) if seed is None else seed
    requests = _requests(workloads, caller, options.time_s is not None, options.make_fleet())
    shown = RunProgress()
    display = _display(shown, progress)

    def on_event(event: Event) -> None:
        display.on_event(event)
        for call in options.calls:
            call(event)

    with contextlib.ExitStack() as around:
        requests = [request for _, request in around.enter_context(each_kind(requests))]
        around.enter_context(display)
        for request in requests:
            try:
                _ = request.task.worker_source
                info = workload_info(request, seed, is_chosen)
            except (SpaceError, UsageError) as error:
                raise UsageError(f"{caller}: {request.task.workload}: {error}") from error
            display.open_job(info)
        summaries = tune_requests(requests, seed, on_event, options.time_s)
        display.conclude()
    return [
        Tuned(
            request.task,
            request.store.path,
            seed,
            summary,
            shown.standings[request.label],
            shown.worst_noise,
            None if isinstance(request.devices, str) else request.devices,
        )
        for request, summary in zip(requests, summaries, strict=True)
    ]


def _display(shown: RunProgress, wanted: bool | None) -> Display:
    """Return what shows a run: nothing, a block of a notebook's cell, or lines of a terminal."""
    if wanted is not False and in_notebook():
        return NotebookDisplay(shown, show_in_cell())
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if wanted or (wanted is None and is_terminal):
        return make_display(View.PROGRESS, shown, print)
    return Display(shown, lambda _: None)


def _requests(
    workloads: Sequence[Mapping[str, Any]], caller: str, is_timed: bool, fleet: Fleet | None
) -> list[TuningRequest]:
    """Return the requests of workloads; UsageError says which one is wrong."""
    found = []
    for number, given in enumerate(workloads, 1):
        where = caller if len(workloads) == 1 else f"{caller}, workload {number}"
        check_names(given, _known(caller), where)
        if "what" not in given:
            raise UsageError(f"{where}: 'what' is missing: it says what to tune")
        with errors_in(where):
            options = SearchOptions(**{name: given[name] for name in SEARCH if name in given})
            has_fleet = fleet is not None
            check_fleet(has_fleet, options.devices, options.measurer, options.compare_on)
            check_each(options.devices, options.any_device)
            own = {name: given[name] for name in _OF_WORKLOADS if name in given}
            found.append(_request(options, is_timed=is_timed, fleet=fleet, **own))
    tasks = [request.task for request in found]
    check_distinct(tasks, caller)
    names = labels(tasks, [given.get("name") for given in workloads], caller)
    return [replace(request, label=label) for request, label in zip(found, names, strict=True)]


def _request(
    options: SearchOptions,
    *,
    is_timed: bool,
    fleet: Fleet | None,
    what: str | Callable[..., Any],
    args: Mapping[str, Any] | None = None,
    target: str | Target | None = None,
    log: str | PathLike[str] | None = None,
    constant: Sequence[int] = (),
    weight: float = 1.0,
    name: str | None = None,
) -> TuningRequest:
    """Return the request of a workload, without the label."""
    check_type("target", target, (str, Target), "text or a Target")
    check_type("name", name, (str,), "text")
    check_number("weight", weight)
    task = _task(what, args, target, constant)
    options.check_parts()
    store = log_to_append(log_path(log, task.workload.template))
    return options.request(task, store, is_timed, float(weight), fleet)


def _known(caller: str) -> set[str]:
    """Return the names of what a workload is given by, for a hint to one that is misspelt."""
    own = set(inspect.signature(tune).parameters) - {"more"} if caller == "tune" else set()
    return {*_OF_WORKLOADS, *SEARCH, *own}


# The arguments of a workload that are no options of its search.
_OF_WORKLOADS = ("what", "args", "target", "log", "constant", "weight", "name")


def _task(
    what: str | Callable[..., Any],
    args: Mapping[str, Any] | None,
    target: str | Target | None,
    constant: Sequence[int],
) -> Task:
    if not isinstance(what, str) and not callable(what):
        raise UsageError(
            "expected the name of a template or a function that returns tensors, got "
            f"{type(what).__name__}"
        )
    if not isinstance(constant, Sequence) or any(type(n) is not int or n < 0 for n in constant):
        raise UsageError(f"constant must be positions of inputs such as [1], not {constant!r}")
    if args is not None and not isinstance(args, Mapping):
        raise UsageError(f"args must be a mapping such as {{'n': 512}}, not {args!r}")
    given = {} if args is None else args
    if isinstance(what, str):
        wanted = "llvm" if target is None else target
        return Task.from_reference(what, given, wanted, constant=constant)
    template = what if isinstance(what, Template) else template_of(what)
    wanted = template.target or "llvm" if target is None else target
    return Task(template, given, wanted, constant=constant)
