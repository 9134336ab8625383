"""The decorator `autotuned`: a function that is tuned for the arrays that it is called with."""

from __future__ import annotations

import contextlib
import functools
import logging
import operator
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from autotune.builder import BuiltFunction, build_task
from autotune.errors import UsageError
from autotune.measure.custom_measurer import LOCAL
from autotune.operators.function_source import left_out_of_text
from autotune.operators.template_lookup import find_template
from autotune.reuse import choose
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.new_arrays import ReturningCall
from autotune.system.user_modules import refuse_while_loading
from autotune.system.words import did_you_mean
from autotune.target import Target
from autotune.task.array_arguments import check_arrays, read_arguments
from autotune.task.task import Task
from autotune.template import template_of
from autotune.tuner.run.limits import TRIALS
from autotune.tuning import tune
from autotune.tuning_options import check_options, errors_in, log_path
from records import Record, RecordError
from records.best_of_group import MOST_TRIALS
from records.groups import RecordGroup, RecordList, RecordSource, group_key
from records.log_set import PRETUNED, log_to_append, open_logs
from records.record import canonical
from records.storage.claims import Claims

_log = logging.getLogger(__name__)

_POLL_S = 0.1  # Seconds between two looks whether another process has finished tuning.

# Calls of one function whose arrays are alike in this use the same code, and both return or write.
_shape_and_type = operator.attrgetter("shape", "dtype")

# What becomes of a key that no record knows, as a build's `missing`; "call" tunes.
_MISSING = {"call": "error", "never": "error", "default": "default"}


@left_out_of_text
def autotuned(
    what: str | Callable[..., Any] | None = None,
    /,
    *,
    key: Sequence[str] | None = None,
    log: str | PathLike[str] | None = None,
    when: str = "call",
    target: str | Target | None = None,
    **options: Any,
) -> Any:
    """Make a function of tensors one of arrays, tuned for the sizes it is called with.

    A call reads the arguments of the function off the shapes and data types of its arrays. What no
    array tells is given by name, or has its default. The first call with new arguments tunes, and
    logs that: later calls, also of other processes, use the best configuration of the log.

    Parameters
    ----------
    what : str or function
        What `tune` takes. Without it the result is a decorator.
    key : sequence of str, optional
        Arguments whose new values are tuned anew; all by default. Where only other sizes are new,
        the configuration of the nearest ones with the same key is used.
    log : path, optional
        Where measurements are looked up and appended; ``NAME.jsonl`` here by default.
    when : {"call", "never", "default"}
        What to do with a key that the log does not know: tune, raise NoRecordError, or build the
        default configuration with a warning.
    target : str or Target, optional
        What to build for; as of `tune` by default.
    **options
        As of `tune`: ``trials``, ``time``, ``tuner``, ``seed``, ``progress`` and so on.

    Returns
    -------
    Autotuned
        Called with inputs it returns new arrays; called with inputs and outputs it writes these.

    Raises
    ------
    UsageError
        If an argument makes no sense.

    Examples
    --------
    >>> @autotune.autotuned(log="layers.jsonl", trials=64)
    ... def double(n: int):
    ...     A = te.placeholder((n,), name="A")
    ...     return te.compute((n,), lambda i: A[i] * 2, name="B")
    >>> double(np.ones(1000, "f4"))
    """
    if what is None:
        return functools.partial(autotuned, key=key, log=log, when=when, target=target, **options)
    return Autotuned(what, key, log, when, target, options)


class Autotuned:
    """A function of arrays that is tuned when it is called; see `autotuned`.

    Attributes
    ----------
    template : Template
        What is tuned.
    target : Target
        What for.
    log : Path or str
        Where its measurements are.
    """

    def __init__(
        self,
        what: str | Callable[..., Any],
        key: Sequence[str] | None,
        log: str | PathLike[str] | None,
        when: str,
        target: str | Target | None,
        options: Mapping[str, Any],
    ) -> None:
        self._reference = _absolute(what) if isinstance(what, str) else None
        if isinstance(what, str):
            self.template = find_template(what, "llvm" if target is None else target)
        else:
            self.template = template_of(what)
            functools.update_wrapper(self, self.template.function)
            self.__wrapped__ = what
        self.target = Target.of(self.template.target or "llvm" if target is None else target)
        self._key = _checked_key(key, [p.name for p in self.template.parameters])
        if not isinstance(when, str) or when not in _MISSING:
            raise UsageError(f"autotuned: {did_you_mean(str(when), _MISSING)}, not when={when!r}")
        check_options(options, "autotuned", ("key", "log", "when", "target"))
        with errors_in("autotuned"):
            self.log: Path | str = log_path(log, self.template.name)
        self._when, self._options = when, dict(options)
        self._calls: dict[Any, Callable[..., Any]] = {}  # By what calls are recognised by.
        self._built: dict[str, BuiltFunction] = {}  # By workloads.
        self._lock = threading.RLock()

    def __call__(self, *arrays: Any, **given: Any) -> Any:
        """Compute the outputs of some arrays; tune first, if need be.

        Parameters
        ----------
        *arrays
            Inputs in order, as `BuiltFunction` takes them; then outputs, or none.
        **given
            Arguments of the template that cannot be inferred from the arrays, or are to differ.

        Returns
        -------
        array, tuple of arrays, or None
            New outputs: of PyTorch or JAX where the first input is, else of NumPy, or of CuPy on
            GPUs. None if outputs were given, which are written.

        Raises
        ------
        ArgumentError
            If an array does not fit.
        UsageError
            If an argument is neither given nor can be inferred from the arrays.
        NoRecordError
            With ``when="never"``, if the log does not know the key; if no configuration works.
        """
        try:
            alike: Any = tuple(map(_shape_and_type, arrays))
            call = self._calls[_with_given(alike, given) if given else alike]
        except (KeyError, AttributeError, TypeError):
            call = self._prepared(arrays, given)
        return call(*arrays)

    def built(self, *arrays: Any, **given: Any) -> BuiltFunction:
        """Return the built function that a call with these arrays uses; tune first, if need be."""
        args = read_arguments(self.template, self.target, arrays, given)
        task = Task(self.template, args, self.target, self._reference)
        name = task.workload.key
        known = self._built.get(name)
        parameters = task.arguments if known is None else known.signature.parameters
        check_arrays(self.template.name, parameters, arrays)
        with self._lock:
            if name not in self._built:
                self._built[name] = self._build(task)
            return self._built[name]

    def _prepared(self, arrays: Sequence[Any], given: Mapping[str, Any]) -> Callable[..., Any]:
        built = self.built(*arrays, **given)
        parameters = built.signature.parameters
        call: Callable[..., Any] = built
        if len(arrays) < len(parameters):
            call = ReturningCall(built, parameters, self.target)
        alike = tuple(map(_shape_and_type, arrays))
        self._calls[_with_given(alike, given) if given else alike] = call
        return call

    def _build(self, task: Task) -> BuiltFunction:
        """Build a workload by the log; tune it first, if that is wanted and not done yet."""
        if self._when != "call":
            return self._build_by_records(task)
        if not self._is_tuned(task):
            refuse_while_loading(f"{self.template.name}(...)")  # the claim is its caller's
            with self._claimed(task):
                if not self._is_tuned(task):  # another process may have tuned it meanwhile
                    what = self._reference or self.template
                    found = tune(what, task.args, target=self.target, log=self.log, **self._options)
                    return found.build()
        return self._build_by_records(task)

    def _build_by_records(self, task: Task) -> BuiltFunction:
        devices = "any" if self._any_device else "same"
        policy = ReusePolicy(reuse=self._grade, missing=_MISSING[self._when], devices=devices)
        return build_task(task, self._records(task), policy=policy)

    @property
    def _any_device(self) -> bool:
        """Whether records of other devices are used: a fleet, or an own measurer, has others."""
        own = self._options.get("measurer", LOCAL) != LOCAL
        own = own or self._options.get("fleet") is not None
        return own or self._options.get("any_device") is True

    @property
    def _grade(self) -> str:
        return "exact" if self._key is None else "shape"

    def _records(self, task: Task) -> RecordSource:
        """Return the records that a workload may be built by: those with the same key."""
        known = self.log == PRETUNED or Path(self.log).exists()
        source: RecordSource = open_logs(self.log) if known else RecordList([])
        return source if self._key is None else _SameKey(source, self._key_of(task))

    def _key_of(self, task: Task) -> dict[str, Any]:
        return {name: task.args[name] for name in (task.args if self._key is None else self._key)}

    def _is_tuned(self, task: Task) -> bool:
        """Whether the log has a record to build by, of a run that reached its end."""
        source = self._records(task)
        found = choose(task, source, self._grade, self._any_device, notify=_log.debug)
        if found is None:
            return False
        own = group_key(found.record, any_version=True)
        groups = source.groups(found.record.template, found.record.args)
        groups = [group for group in groups if group_key(group, any_version=True) == own]
        wanted = self._options.get("trials")
        if wanted is None and self._options.get("time") is None:
            wanted = TRIALS
        trials = sum(group.trials for group in groups)
        is_enough = isinstance(wanted, int) and trials >= wanted
        return is_enough or any(group.finals for group in groups)

    @contextlib.contextmanager
    def _claimed(self, task: Task) -> Iterator[None]:
        """Wait until no other process or thread tunes the same key by this log."""
        name = canonical([task.workload.template, self._key_of(task), str(self.target)])
        with contextlib.closing(Claims(log_to_append(self.log).path)) as claims:
            try:
                while not claims.take(name):
                    time.sleep(_POLL_S)
            except OSError as error:
                raise RecordError(f"cannot open {self.log}: {error.strerror}") from error
            yield

    def __repr__(self) -> str:
        return f"<autotuned {self.template.name} for {self.target}: {self.log}>"


def _with_given(alike: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what calls are recognised by that are given arguments by name.

    Values are texts there: to Python True, 1 and 1.0 are equal, but templates tell them apart.
    """
    return (alike, *((name, repr(value)) for name, value in given.items()))


def _absolute(reference: str) -> str:
    """Return how a template is found from any folder, where it stands in a file."""
    path, colon, name = reference.rpartition(":")
    return f"{os.path.abspath(path)}:{name}" if colon and path.endswith(".py") else reference


def _checked_key(key: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of a key; None if it has all arguments."""
    if key is None:
        return None
    is_several = isinstance(key, Iterable) and not isinstance(key, str)
    if not is_several or not all(isinstance(name, str) for name in key):
        raise UsageError(f"autotuned: key must be names of arguments such as ['n'], not {key!r}")
    for name in key:
        if name not in known:
            hint = did_you_mean(name, known, "its arguments are")
            raise UsageError(f"autotuned: key has {name!r}; {hint}")
    return None if set(key) == set(known) else tuple(key)


@dataclass(frozen=True)
class _SameKey:
    """The records of a source whose workloads have some arguments in common."""

    source: RecordSource
    key: Mapping[str, Any]

    def groups(
        self, template: str | None = None, args: Mapping[str, Any] | None = None
    ) -> Sequence[RecordGroup]:
        """Return the groups of a template and its arguments: see `RecordSource`."""
        found = self.source.groups(template, args)
        return [g for g in found if all(g.args.get(n) == v for n, v in self.key.items())]

    def records_of(self, group: RecordGroup, most: int = MOST_TRIALS) -> list[Record]:
        """Return the best records of a group."""
        return self.source.records_of(group, most)
