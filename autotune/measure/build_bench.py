"""One workload inside a builder: makes machine code of its candidates, and never runs it.

The task stays traced from one candidate to the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial

from autotune.builder import gpu_source
from autotune.errors import UsageError
from autotune.ir.stmt import Function
from autotune.measure.candidate import Built, CandidateError, Code, Subject, describe
from autotune.measure.checks.unscheduled_program import Program
from autotune.measure.result import MeasureErrorNo
from autotune.runtime.cpu.binary import Binary
from autotune.runtime.cpu.llvm_compiler import compile_binary
from autotune.runtime.signature import Parameter, Signature
from autotune.task.task import Task, code_hash
from autotune.trace.user_code import contained
from search_spaces import KnobValue

LARGEST_UNSCHEDULED = 3 * 10**8
"""Element operations that a program without a schedule does in about a second."""

_DEVICE = MeasureErrorNo.COMPILE_DEVICE


class BuildBench:
    """Builds candidates of one task in this process.

    Parameters
    ----------
    task : Task
    arch : str, optional
        Architecture that a target for GPUs compiles for.
    """

    def __init__(self, task: Task, arch: str | None = None) -> None:
        self.task = task
        self.arch = arch
        self._known: set[str] = set()

    def know(self, hashes: Iterable[str]) -> None:
        """Take in code hashes of candidates whose results are known: they are not compiled."""
        self._known.update(hashes)

    def rehearse(self) -> None:
        """Run the template once: its first time may take longer than a candidate has.

        What it fails at then, candidates will say.
        """
        with contextlib.suppress(Exception, SystemExit):
            Program.by_default(self.task)

    def subject(self) -> tuple[Subject, Binary | None]:
        """Return what a runner must know of the workload.

        Returns
        -------
        Subject
        Binary or None
            The program without a schedule, which computes the right answers if the template has no
            reference; None if it has, or if that would take too long.
        """
        task = self.task
        program = Program.of(task)
        parameters = tuple(Parameter(a.name, a.dtype, a.shape, a.is_output) for a in task.arguments)
        subject = Subject(
            Signature(task.workload.template, parameters),
            str(task.target),
            *task.template.precision_for(task.args),
            program.reduction_length(),
            program.work(),
            program.input_uses(),
            program.functions(),
        )
        if task.reference is not None or program.work() > LARGEST_UNSCHEDULED:
            return subject, None
        if not program.is_computed:
            raise UsageError(
                "it returns a kernel as text, so it needs a reference: @template(..., "
                "reference=function)"
            )
        return subject, program.compiled(task.target if task.target.on_cpu else task.target.host)

    def build(self, values: Mapping[str, KnobValue], again: bool = False) -> Built:
        """Instantiate and compile the candidate with these knob values.

        Parameters
        ----------
        values : mapping
        again : bool
            Compile it even if its result is known.

        Raises
        ------
        CandidateError
            If the template refuses them, or the compiler the code.
        """
        try:
            # What one candidate changes of the process is not the next one's.
            function = contained(partial(self.task.final_of, values))
            digest = code_hash(function)
        except BaseException as error:  # a template may raise whatever it likes
            raise CandidateError(
                MeasureErrorNo.INSTANTIATION_ERROR, "instantiate", describe(error)
            ) from error
        if digest in self._known and not again:
            return Built(digest, None)
        try:
            return Built(digest, self._compiled(function))
        except Exception as error:
            code = MeasureErrorNo.COMPILE_HOST if self.arch is None else _DEVICE
            raise CandidateError(code, "compile", describe(error)) from error

    def _compiled(self, function: Function) -> Code:
        if self.arch is None:
            return compile_binary(function, self.task.target)
        return gpu_source(function).compiled(self.arch)
