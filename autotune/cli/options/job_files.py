"""Job files: the workloads of a run as TOML or YAML, and options of the whole run."""

from __future__ import annotations

import tomllib
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.cli.options.config_file import config_file
from autotune.cli.options.input_files import check_readable, read_text
from autotune.cli.options.run_options import (
    IN_JOB,
    RUN,
    WORKLOAD,
    Values,
    WorkloadOptions,
    read,
    workload_options,
)
from autotune.cli.options.search_checks import check_search
from autotune.errors import UsageError
from autotune.system.words import closest
from autotune.tuner.factory import OPTUNA, check_tuner
from autotune.tuner.run.tuning_job import check_each, check_fleet, check_parts


@dataclass(frozen=True)
class RunOptions:
    """A run: its workloads, how to show it, and the name of its job file, "" if it has none."""

    workloads: tuple[WorkloadOptions, ...]
    view: str = "progress"
    source: str = ""

    @property
    def time_s(self) -> float | None:
        """Seconds there are, for all workloads together; None for any."""
        return self.workloads[0].time_s

    @property
    def seed(self) -> int | None:
        """The seed of all workloads, if one is given."""
        return self.workloads[0].seed


def run_options(words: Values, defaults: Values, view: str) -> RunOptions:
    """Return the run that a command line asks for, with or without --job.

    words: options that the command line gives, by name; TEMPLATE is "template".
    defaults: those that the user's configuration gives. A job file goes before them, and the
        command line before both.

    UsageError if something is wrong with them or with the job file.
    """
    words, defaults = dict(words), dict(defaults)
    usual_job = defaults.pop("job", None)
    job = words.pop("job", None if "template" in words else usual_job)
    unsaid = {name: value for name, value in defaults.items() if name not in words}
    read(unsaid, {**RUN, **WORKLOAD}, f"{config_file()}: run.")  # told where they stand
    if job is None:
        if "template" not in words:
            raise UsageError("missing TEMPLATE: name what to tune, or give --job FILE")
        return _options({}, [{}], {**defaults, **words}, {}, view, "")
    for name, said in (("template", "TEMPLATE"), ("set", "--set"), ("shape", "--shape")):
        if name in words:
            problem = f"--job and {said} cannot be given together"
            raise UsageError(f"{problem}: the file says what to tune")
    top, workloads = load_job(job)
    return _options(top, workloads, words, defaults, view, str(job))


def _options(
    top: dict[str, Any],
    workloads: list[dict[str, Any]],
    words: Values,
    defaults: Values,
    view: str,
    source: str,
) -> RunOptions:
    """Combine options: `words` override the options of the file, which override `defaults`."""
    of_run = {name: value for name, value in {**defaults, **top, **words}.items() if name in RUN}
    run = read(of_run, RUN, f"{source}: " if source else "--")
    found = []
    for number, own in enumerate(workloads, 1):
        where = f"{source}, workload {number}: " if source else ""
        merged = {**defaults, **own, **words}
        of_workload = {name: value for name, value in merged.items() if name not in RUN}
        values = read(of_workload, IN_JOB, where or "--")
        if "template" not in values:
            raise UsageError(f"{where}template is missing: it says what to tune")
        try:
            found.append(_checked(workload_options({**run, **values})))
        except UsageError as error:
            raise UsageError(f"{where}{error}") from error
    return RunOptions(tuple(found), view, source)


def _checked(options: WorkloadOptions) -> WorkloadOptions:
    """Return the options of a workload; UsageError if they do not go together."""
    _ = options.limits, options.policy
    check_tuner(options.tuner, bool(options.transfer))
    if options.storage is not None and not options.tuner.startswith(OPTUNA):
        raise UsageError(f"tuner {options.tuner!r} does not use --storage: choose {OPTUNA}tpe")
    check_parts(options.cost_model, options.features, options.measurer)
    has_fleet = options.fleet is not None
    check_fleet(has_fleet, options.devices, options.measurer, options.compare_on)
    check_each(options.devices, options.any_device)
    check_search([options.tuner], options.patience, options.transfer)
    return options


def load_job(path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a job file's options of the run and of each workload, with its defaults.

    Values are as the file has them; names have dashes for underscores.

    UsageError if the file cannot be read, or is not laid out as job files are.
    """
    data = _names(_parsed(path), path)
    defaults = _names(_table(data.pop("defaults", {}), f"{path}: defaults"), path)
    workloads = _workloads(data.pop("workload", []), path)
    for name in data:
        if name not in RUN:
            likely = closest(name, [*RUN, "defaults", "workload"])
            hint = f"did you mean {likely!r}?" if likely else "put it into [defaults]"
            raise UsageError(f"{path}: {name} has no meaning outside a workload; {hint}")
    tables = [
        _names(_table(own, f"{path}: workload {number}"), path)
        for number, own in enumerate(workloads, 1)
    ]
    for number, table in enumerate([*tables, defaults], 1):
        for name in RUN.keys() & table.keys():
            where = "defaults" if table is defaults else f"workload {number}"
            raise UsageError(f"{path}: {where}: {name} is for all workloads: put it at the top")
    read(defaults, IN_JOB, f"{path}, defaults: ")  # told where they stand
    for table in tables:
        for name in ("set", "shape"):  # a workload's are added to those of all
            if isinstance(table.get(name), dict) and isinstance(defaults.get(name), dict):
                table[name] = {**defaults[name], **table[name]}
    return data, [{**defaults, **table} for table in tables]


def _workloads(listed: Any, path: str) -> list[Any]:
    """Return the list of workloads of a job file; UsageError if it is no list, or is empty."""
    if not isinstance(listed, list):
        how = "list them, each after a dash" if _is_yaml(path) else "write [[workload]] before each"
        raise UsageError(f"{path}: workload must be a list of tables, also of one: {how}")
    if not listed:
        how = "as a list named workload" if _is_yaml(path) else "as [[workload]] tables"
        raise UsageError(f"{path} has no workload: list them {how}")
    return listed


def _is_yaml(path: str) -> bool:
    """Whether the name of a job file says that it is YAML, and not TOML."""
    return Path(path).suffix in (".yaml", ".yml")


def _parsed(path: str) -> dict[str, Any]:
    if not (_is_yaml(path) or Path(path).suffix == ".toml"):
        check_readable(path, "--job")  # which says more, if there is no such file
        raise UsageError(f"--job {path}: a job file ends in .toml, .yaml or .yml")
    text = read_text(path, "--job")
    try:
        return _table(_yaml(text, path), path) if _is_yaml(path) else tomllib.loads(text)
    except ValueError as error:  # also of numbers of thousands of digits
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: it is nested too deeply for a job file") from error


def _yaml(text: str, path: str) -> Any:
    """Read YAML of plain data; a key that is given twice is a mistake, as in TOML."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_object(self, node: Any, deep: bool = False) -> Any:
            """Raise an error for values that look like a date or a number but are invalid."""
            try:
                return super().construct_object(node, deep)
            except (ValueError, LookupError, AttributeError) as error:
                problem = f"{str(node.value)[:40]} is not of type {node.tag.rpartition(':')[2]}"
                raise yaml.constructor.ConstructorError(
                    None, None, problem, node.start_mark
                ) from error

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            """Raise an error for keys that would be overwritten silently."""
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for number, key in enumerate(keys):
                if key.value in [earlier.value for earlier in keys[:number]]:
                    problem = f"{key.value} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            return super().construct_mapping(node, deep)

    try:
        found = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", error)
        line = "" if mark is None else f" (line {mark.line + 1})"
        raise UsageError(f"{path} is not valid YAML: {problem}{line}") from error
    return {} if found is None else found


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a table of options, not {value!r}")
    return value


def _names(table: dict[str, Any], path: str) -> dict[str, Any]:
    """Return a table with names as the command line has them: dashes for underscores."""
    named: dict[str, Any] = {}
    for key, value in table.items():
        name = str(key).replace("_", "-")
        if name in named:
            raise UsageError(f"{path}: {name} is given twice")
        named[name] = value
    return named
