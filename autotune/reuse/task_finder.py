"""From a record's workload and target back to the task that it was measured for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from autotune.errors import UsageError
from autotune.operators.template_lookup import (
    BUILTIN,
    entry_of,
    find_template,
    names_file,
    names_tile,
    template_in_file,
)
from autotune.target import KINDS, Target
from autotune.task.task import Task, Workload
from autotune.template import Template
from autotune.trace.isolate_user_code import run_isolated

_log = logging.getLogger(__name__)

_IMPORT_S = 30.0  # Seconds that the file of a template gets to be imported.

# A processor for each width of vectors in bytes.
_PROCESSORS: dict[int | None, str] = {16: "x86-64", 32: "x86-64-v3", 64: "x86-64-v4"}

NO_TEMPLATE = "no_template"
BAD_TARGET = "bad_target"
BAD_ARGUMENTS = "bad_arguments"
TEMPLATE_FAILS = "template_fails"
NOT_IN_SPACE = "not_in_space"
TEMPLATE_CHANGED = "template_changed"
REFUSED = "refused"
NO_LOOPS = "no_loops"

# Why a record has no features that come from loops.
REASONS = {
    NO_TEMPLATE: "no template of this name for this kind of target is here, or was given",
    BAD_TARGET: "the target has options that are not ours",
    BAD_ARGUMENTS: "the template does not take these arguments",
    TEMPLATE_FAILS: "the template fails whatever its knobs are, or cannot be analysed",
    NOT_IN_SPACE: "the template's knobs do not have these values",
    TEMPLATE_CHANGED: "the template has changed since (another fingerprint)",
    REFUSED: "the template refuses these knob values, and makes no loops of them",
    NO_LOOPS: "the template gives a kernel that is no tensor expressions",
}


class TaskFinder:
    """Finds tasks of recorded workloads; files that a log names are never run.

    references: templates without a name of their own, as ``path/to/file.py:function`` or
        ``path/to/file.tile``.

    UsageError if one of them is not there, or two are of one name and kind.
    """

    def __init__(self, references: Sequence[str] = ()) -> None:
        self._own: dict[tuple[str, str | None], tuple[Template, str]] = {}
        for reference in references:
            for template in _templates(reference):
                key = (template.name, template.target)
                if key in self._own:
                    kind = template.target or "any target"
                    raise UsageError(f"the templates give {template.name!r} for {kind} twice")
                self._own[key] = template, reference

    def find(self, workload: Workload, target: str, vector_bytes: int | None = None) -> Task | str:
        """Return the task of a workload, or one of `REASONS` for its absence.

        `vector_bytes`: width of the vectors of the processor that was measured on. Templates depend
        on it; a target such as "llvm" does not contain it.
        """
        found = self._template(workload.template, next(iter(target.split()), ""))
        if found is None:
            return NO_TEMPLATE
        template, reference = found
        try:
            parsed = _with_vectors(Target.parse(target), vector_bytes)
        except UsageError:
            return BAD_TARGET
        try:
            return Task(
                template,
                workload.args,
                parsed,
                reference,
                guarded=not names_tile(reference) and (reference, template.target) not in BUILTIN,
                constant=workload.constant,
            )
        except UsageError as error:
            _log.info("%s: %s", workload, error)
            return BAD_ARGUMENTS

    def has(self, name: str, kind: str) -> bool:
        """Whether there is a template of a name for a kind of target; none is imported."""
        given = (name, kind) in self._own or (name, None) in self._own
        return given or entry_of(name, kind) is not None

    def _template(self, name: str, kind: str) -> tuple[Template, str] | None:
        own = self._own.get((name, kind)) or self._own.get((name, None))
        if own is not None:
            return own
        entry = entry_of(name, kind)
        if entry is not None:
            try:
                return run_isolated(entry.load), name
            except UsageError as error:
                _log.info("%s", error)
        return None


def _templates(reference: str) -> list[Template]:
    """Return the templates that a user names: a Tile function is one for each kind of target."""
    if names_tile(reference):
        return [find_template(reference, kind) for kind in KINDS]
    if not names_file(reference):
        raise UsageError(
            f"template {reference!r}: give path/to/file.py:function or path/to/file.tile; "
            "templates that have a name are found by it"
        )
    return [run_isolated(partial(template_in_file, reference, _IMPORT_S))]


def _with_vectors(target: Target, vector_bytes: int | None) -> Target:
    """Return a target that has vectors of this width, if it does not name its processor."""
    processor = _PROCESSORS.get(vector_bytes)
    native = target.kind == "llvm" and target.mcpu == "native"
    if processor is None or not native or target.vector_bytes == vector_bytes:
        return target
    return Target(target.kind, {**target.options, "mcpu": processor})
