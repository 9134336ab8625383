"""One workload in a builder process: compiles candidates and never runs them.

The task stays traced from one candidate to the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial

from autotune.errors import UsageError
from autotune.ir.stmt import PrimFunc, Raw
from autotune.ir.visitor import language_of
from autotune.lowering.lift_constants import PreparedFunction
from autotune.measure.candidate import (
    Built,
    CandidateError,
    ElsewhereError,
    WorkloadDescription,
    describe,
)
from autotune.measure.checks.program_reference import UnscheduledPrograms
from autotune.measure.checks.unscheduled_program import Computation
from autotune.measure.result import MeasureErrorNo
from autotune.runtime.backends import backend_of
from autotune.runtime.callable_function import CallableBinary
from autotune.runtime.cpu.c_compiler import PreprocessedSource, compile_shared
from autotune.runtime.cpu.compiled_kernel import CpuBinary
from autotune.runtime.device import Binary
from autotune.runtime.prepared_binary import PreparedBinary
from autotune.runtime.signature import Signature
from autotune.system import host
from autotune.task.task import Task, code_hash
from autotune.trace.fingerprint import digest as fingerprint_of
from autotune.trace.isolate_user_code import run_isolated
from search_spaces import KnobValue

# Number of operations that the unscheduled program does in about one second.
LARGEST_UNSCHEDULED = 3 * 10**8

# A workload, and what computes its right answers.
Subject = tuple[WorkloadDescription, UnscheduledPrograms[CpuBinary] | None]


class BuildBench:
    """Builds candidates of one task in this process.

    arch: architecture that a target for GPUs compiles for.
    """

    def __init__(self, task: Task, arch: str | None = None) -> None:
        self.task = task
        self.arch = arch
        self._known: set[str] = set()

    def add_known(self, hashes: Iterable[str]) -> None:
        """Add code hashes of candidates with a known result: these are not compiled again."""
        self._known.update(hashes)

    def warm_up(self) -> None:
        """Run the template once, because its first run may take longer than a candidate's time-out.

        Errors are ignored here: the candidates report them.
        """
        with contextlib.suppress(Exception, SystemExit):
            Computation.by_default(self.task.members[0])

    def subject(self) -> Subject:
        """Return the description of the workload that a runner needs.

        Second is the program without a schedule, which computes the right answers if the template
        has no reference; None if it has, or if that would take too long.
        """
        return self._subject(self.task)

    def subjects(self) -> list[Subject]:
        """Return `subject` of each shape that candidates are measured with."""
        return [self._subject(member) for member in self.task.members]

    def _subject(self, task: Task) -> Subject:
        program = Computation.of(task)
        subject = WorkloadDescription(
            Signature(task.workload.template, tuple(task.arguments)),
            str(task.target),
            *task.template.precision_for(task.args),
            program.reduction_length(),
            program.work(),
            program.input_uses(),
            program.functions(),
            task.constant,
        )
        if task.reference is not None or program.work() > LARGEST_UNSCHEDULED:
            return subject, None
        if not program.is_computed:
            raise UsageError(
                "it returns a kernel that is no tensor expressions, so it needs a reference: "
                "@template(..., reference=function)"
            )
        return subject, program.compiled(task.target.host)

    def build(self, values: Mapping[str, KnobValue], again: bool = False) -> Built:
        """Instantiate and compile the candidate with these knob values.

        again: compile it even if its result is known.

        CandidateError if the template refuses them, or the compiler the code. ElsewhereError if
        this process builds for another machine, for which the compiler writes no code.
        """
        try:
            # What one candidate changes of the process is not the next one's.
            function = run_isolated(partial(self.task.prepared_of, values))
            is_c = language_of(function.main) in ("c", "c++")
            if is_c and host.builds_for_another_processor():
                raise ElsewhereError("a compiler of C writes code for its own processor")
            source = _preprocessed(function.main)
            more = _more_identity(function.main, values) if source is None else source.identity
            parts = [*map(code_hash, function.functions), *more]
            digest = parts[0] if len(parts) == 1 else fingerprint_of(parts)
        except ElsewhereError:
            raise
        except BaseException as error:  # a template may raise whatever it likes
            raise CandidateError(
                MeasureErrorNo.INSTANTIATION_ERROR, "instantiate", describe(error)
            ) from error
        if digest in self._known and not again:
            return Built(digest, None)
        try:
            if source is not None:
                return Built(digest, compile_shared(source, self.task.target))
            return Built(digest, self._compiled(function, values))
        except Exception as error:
            on_cpu = self.task.target.on_cpu
            code = MeasureErrorNo.COMPILE_HOST if on_cpu else MeasureErrorNo.COMPILE_DEVICE
            raise CandidateError(code, "compile", describe(error)) from error

    def _compiled(self, function: PreparedFunction, values: Mapping[str, KnobValue]) -> Binary:
        """Compile a candidate for a runner."""
        if language_of(function.main) == "python":
            return CallableBinary(Signature.of(function.main), dict(values))

        def compile_one(one: PrimFunc) -> Binary:
            backend = backend_of(self.task.target)
            return backend.compile_binary(one, self.task.target, self.arch)

        if not function.constants:
            return compile_one(function.main)
        return PreparedBinary.compiled(function, compile_one)


def _preprocessed(function: PrimFunc) -> PreprocessedSource | None:
    """Return the text of a kernel in C: its headers are read once, to tell it apart and compile."""
    is_c = isinstance(function.body, Raw) and function.body.command
    return PreprocessedSource.of(function) if is_c else None


def _more_identity(function: PrimFunc, values: Mapping[str, KnobValue]) -> list[str]:
    """Return what identifies the code of a callable besides its text: the values of all knobs."""
    if language_of(function) != "python":
        return []
    return [f"{name} = {value!r}" for name, value in sorted(values.items())]
