"""From options to the request for each workload; errors are found before anything starts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.cli.options.input_files import check_log, open_log
from autotune.cli.options.job_files import RunOptions
from autotune.cli.options.run_options import WorkloadOptions
from autotune.cli.options.task_arguments import task_with, template_of
from autotune.errors import TileError, UsageError
from autotune.measure.custom_measurer import LOCAL
from autotune.runtime.backends import backend_of
from autotune.system.available_cpus import thread_count
from autotune.target import Target
from autotune.task.task import Task
from autotune.tuner.run.limits import Deadline
from autotune.tuner.run.tuning_job import TuningRequest
from autotune.tuner.run.workload_labels import check_distinct, labels
from records.log_set import log_name

_log = logging.getLogger(__name__)


def make_requests(options: RunOptions, deadline: Deadline) -> list[TuningRequest]:
    """Return the workloads of a run; a log that is locked is waited for until the deadline.

    UsageError or RecordError if a template, target, argument or log is not what it should be, or
    two workloads are one.
    """
    found = []
    for number, workload in enumerate(options.workloads, 1):
        with workload_errors(options, number):
            found.append(_task_and_log(workload))
    tasks = [task for task, _ in found]
    check_distinct(tasks, options.source)
    names = labels(tasks, [workload.name for workload in options.workloads], options.source)
    paths = dict.fromkeys(path for _, path in found)
    stores = {path: open_log(path, lambda: deadline.left_s) for path in paths}
    return [
        TuningRequest(
            task,
            stores[path],
            own.limits,
            own.policy,
            own.timeout_s,
            own.tuner,
            own.transfer,
            own.storage,
            own.any_device,
            own.weight,
            name,
            own.cost_model,
            own.features,
            own.measurer,
            own.fleet,
            own.devices,
            own.compare_on,
        )
        for own, (task, path), name in zip(options.workloads, found, names, strict=True)
    ]


@contextmanager
def workload_errors(options: RunOptions, number: int) -> Iterator[None]:
    """Add the workload of a job file to errors; the first one has the number 1."""
    try:
        yield
    except UsageError as error:
        if not options.source:
            raise
        where = f"{options.source}, workload {number}: "
        if isinstance(error, TileError):
            raise error.with_context(where) from error
        raise UsageError(f"{where}{error}") from error


def _task_and_log(options: WorkloadOptions) -> tuple[Task, Path]:
    path = None if options.log is None else check_log(options.log)
    target = Target.parse(options.target)
    task = task_with(
        template_of(options.template, target, options.timeout_s),
        options.template,
        options.settings,
        options.shapes,
        target,
        options.timeout_s,
        options.constant,
    )
    if options.measurer == LOCAL and options.fleet is None:  # others have the device elsewhere
        check_target(target)
    return task, path or check_log(log_name(task.workload.template))


def check_target(target: Target) -> None:
    """Raise an error unless candidates for a target can be measured here.

    Warns if the threads of their loops would wait for each other.
    """
    cpus = thread_count()
    if target.threads is not None and target.threads > cpus:
        _log.warning(
            "target %s: its loops use up to %d threads, but this process has only %d CPU%s: "
            "they are slow here, and many threads exceed the time limit of a candidate",
            target, target.threads, cpus, "" if cpus == 1 else "s",
        )  # fmt: skip
    if not target.on_cpu:
        backend_of(target).facts(target)
    if target.kind == "llvm" and target.mcpu != "native":
        from autotune.runtime.cpu import llvm_compiler  # otherwise only workers load LLVM

        llvm_compiler.check_target(target)
