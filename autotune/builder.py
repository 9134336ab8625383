"""The main interface of the library: `lower` and `build`.

In: a schedule, a template or a function that returns tensors. Out: loops (`lower`), or a function
that is called with arrays (`build`); a template is built with its best recorded configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from autotune.build_records import RecordsGiven, choose_record, record_source
from autotune.errors import SaveError, UsageError
from autotune.ir.stmt import PrimFunc
from autotune.lowering.finalise import analyse, finalise, listing
from autotune.lowering.gpu.thread_limit_errors import thread_limit_rules
from autotune.lowering.lift_constants import PreparedFunction, lift_constants
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.lowering.target_limits import target_rules
from autotune.reuse import Choice, Grade
from autotune.reuse.policy import ReusePolicy
from autotune.runtime.argument_checks import is_contiguous
from autotune.runtime.backends import backend_of
from autotune.runtime.constant_arrays import Constants, constant_copies
from autotune.runtime.device import DeviceFunction, Host
from autotune.runtime.signature import Signature
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.task.task import Task, Workload
from autotune.te.tensor import Tensor
from autotune.template import template_of
from records import Record, RecordStore
from records.groups import RecordSource, as_source
from search_spaces import Config

if TYPE_CHECKING:
    from autotune.measure.timing.kernel_timing import Timing
    from autotune.tile.binding.bound_program import Program, TensorType
    from autotune.tile.syntax.syntax_tree import Function as TileFunction

def lower(
    schedule: Schedule, tensors: Sequence[Tensor], simple_mode: bool = False, name: str = "main"
) -> PrimFunc:
    """Return the loops of a schedule; ``str()`` of the result is its listing.

    Parameters
    ----------
    schedule : Schedule
        What to lower.
    tensors : sequence of Tensor
        Parameters: inputs, then outputs.
    simple_mode : bool
        Stop after simplification, so that the listing shows the schedule's own loops, and strides
        for arrays with sizes from `te.var`; otherwise these are contiguous, vector statements are
        explicit and guards stand outside the loops they hold for.
    name : str
        Name of the function.
    """
    given = _tensors("lower", tensors)
    analysed = analyse(lower_schedule(schedule, given, _named("lower", name), strided=simple_mode))
    return listing(analysed) if simple_mode else finalise(analysed)


class BuiltFunction:
    """A compiled function, called with its arrays in order; outputs are written in place.

    Attributes
    ----------
    source : str
        Text that was compiled.
    choice : Choice or None
        The record that was built by; None for the default configuration.
    workload : Workload or None
        Template and arguments, where it was built from a template.
    """

    def __init__(
        self,
        function: PrimFunc | PreparedFunction,
        target: Target,
        workload: Workload | None = None,
        config: Config | Callable[[], Config] | None = None,
        choice: Choice | None = None,
        strided: Callable[[], PreparedFunction] | None = None,
        constants: Sequence[Host] = (),
        compiled: DeviceFunction | None = None,
    ) -> None:
        self._constants = () if strided is None else constants
        whole = PreparedFunction(function) if isinstance(function, PrimFunc) else function
        build_function = backend_of(target).build_function
        self._compiled = compiled or build_function(whole, target, constants)
        self._strided = strided
        self.function = whole.main
        self.target = target
        self.workload = workload
        self.choice = choice
        self._config = config

    @property
    def source(self) -> str:
        """Text that was compiled."""
        return self._compiled.source

    @property
    def signature(self) -> Signature:
        """Names, dtypes and shapes of the arrays that it takes."""
        return self._compiled.signature

    @cached_property
    def config(self) -> Config | None:
        """The knobs' values, where it was built from a template.

        Those of the default configuration are known only when its space is, which takes a moment.
        """
        return self._config() if callable(self._config) else self._config

    @property
    def record(self) -> Record | None:
        """The measurement whose configuration was used; None for the default configuration."""
        return None if self.choice is None else self.choice.record

    @property
    def grade(self) -> Grade | None:
        """How far that measurement is from this: "exact", "kind", "shape" or "any"."""
        return None if self.choice is None else self.choice.grade

    def __call__(self, *arrays: Any) -> None:
        """Run on arrays of the CPU, inputs then outputs, which are written in place.

        Arrays are NumPy's or offer their memory through ``__array_interface__`` or DLPack, and
        are never copied. A function for GPUs takes arrays of a GPU, and is not waited for.

        Arrays are C-contiguous; those with sizes from `te.var` may lie otherwise. The first call
        with such compiles a version that takes strides.

        Raises
        ------
        ArgumentError
            If an array does not have the dtype, shape, layout or access that is needed, or an
            output overlaps another argument.
        """
        self._version(arrays)(*arrays)

    def _version(self, arrays: Sequence[Any]) -> DeviceFunction:
        """Return the code for contiguous arrays, or that for any if there is one and need be."""
        if self._strided is None or all(map(is_contiguous, arrays)):
            return self._compiled
        return self._for_any_strides

    @cached_property
    def _for_any_strides(self) -> DeviceFunction:
        assert self._strided is not None
        return backend_of(self.target).build_function(self._strided(), self.target, self._constants)

    def bind(self, *arrays: Any) -> Callable[[], object]:
        """Check the arrays once and return a call without arguments, for calls in a row.

        The arrays must not be resized while the result is in use.
        """
        return self._version(arrays).bind(*arrays)

    def time(self, *arrays: Any, repeats: int = 15) -> Timing:
        """Time the function on some arrays, inputs then outputs, which are written.

        A repeat is a block of calls in a row that lasts 4 ms or longer, or one call that does; on
        a GPU its events clock it, and launches do not count. The caches are as the calls leave
        them.

        Parameters
        ----------
        *arrays
            As of a call.
        repeats : int
            Number of repeats, >= 1. After a second of them no further one begins.

        Returns
        -------
        Timing
            ``seconds`` per call, the median of the repeats; their quartiles ``low`` and ``high``.

        Raises
        ------
        ArgumentError
            As of a call.

        Examples
        --------
        >>> f.time(a, b, c)
        <1.23 ms, quartiles 1.22 ms to 1.25 ms, 15 repeats>
        """
        from autotune.measure.timing.kernel_timing import Timing, time_kernel  # slow import
        from autotune.measure.timing_policy import TimingPolicy

        if type(repeats) is not int or repeats < 1:
            raise UsageError(f"time: repeats must be a whole number >= 1, got {repeats!r}")
        call = self.bind(*arrays)
        call()
        policy = TimingPolicy(repeats=repeats, min_repeat_ms=4.0, budget_ms=1000.0)
        # Kinds of devices that users write may have no clock of their own.
        own_loop = getattr(backend_of(self.target), "loop", None)
        loop = None if own_loop is None else own_loop(arrays)
        return Timing.of(time_kernel(call, policy, loop=loop).costs_s)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a shared library, and beside it its C header, for programs without a compiler.

        `autotune.load` makes the library callable again, with NumPy alone; C programs link with
        it. Neither this nor loading needs a compiler or linker on the machine. See
        docs/deploy.md.

        Parameters
        ----------
        path : path
            The library, such as ``matmul.so``; the header is then ``matmul.h``. What was saved
            there earlier is replaced, each file at once.

        Raises
        ------
        SaveError
            If a file cannot be written, or it is not known what processor the code needs.
        """
        from autotune.runtime.cpu.llvm_compiler import CompiledFunction
        from autotune.runtime.save_library import save

        if not isinstance(self._compiled, CompiledFunction):
            where = "a kernel from elsewhere" if self.target.on_cpu else "built for a GPU"
            raise SaveError(
                f"{self.function.name} is {where}, which is not saved: build it where it is used"
            )
        save(
            self._compiled,
            path,
            workload=None if self.workload is None else self.workload.to_json(),
            config=None if self.config is None else self.config.to_json(),
            cost_s=None if self.record is None else self.record.cost_s,
        )

    def __repr__(self) -> str:
        what = self.function.name if self.workload is None else self.workload.key
        return f"<built {what} for {self.target}>"


def build(
    what: Schedule | str | Callable[..., Any],
    arguments: Sequence[Tensor] | Mapping[str, Any],
    target: str | Target = "llvm",
    name: str | None = None,
    records: RecordsGiven = None,
    constants: Constants | None = None,
    *,
    reuse: str = "exact",
    devices: str = "same",
    missing: str = "default",
    guard: bool = False,
) -> BuiltFunction:
    """Compile a schedule, or a template with the best configuration that records know.

    Parameters
    ----------
    what : Schedule, str or function
        A schedule; a template's name, ``path/to/file.py:function`` or ``path/to/file.tile``; or a
        template itself, or a function that returns tensors.
    arguments : sequence of Tensor, or mapping
        The schedule's tensors, inputs then outputs; or the arguments of the template or function
        by name.
    target : str or Target
        What to build for.
    name : str, optional
        Name of the function; "main" or the template's by default.
    records : path, RecordStore, or iterable of paths or of Record, optional
        Where to look for measurements (templates only): logs, compressed or not, folders of logs,
        or "pretuned" for the records that ship. Without a matching one the default configuration
        of the space is used, with one warning that says why.
    constants : mapping of str or int to array, optional
        Arrays of inputs that do not change, such as weights, by the name of the input or its
        position. The built function does not take them: what depends on them alone is computed
        now, and what is used of them is copied. Records are those with the same constant inputs.
    reuse : {"exact", "kind", "shape", "any"}
        The most distant records that may be used: of this workload and device; of this kind of
        device with another clock or number of threads; of the nearest shape; of other devices and
        earlier versions of the template. `BuiltFunction.grade` tells which was.
    devices : {"same", "any"}
        "any" also admits records of this very workload from any device.
    missing : {"default", "error", "nearest", "tune"}
        What to do without such a record: build the default configuration; raise NoRecordError; take
        the nearest record of any grade; or tune first, and append to the first log of `records`.
    guard : bool
        Time the recorded configuration and the default in turns, once, and build the faster.

    Examples
    --------
    >>> f = build("matmul", {"m": 512, "n": 512, "k": 512}, records="matmul.jsonl")
    >>> f(a, b, c)
    >>> f = build("matmul", {"m": 1, "n": 512, "k": 512}, constants={"B": b})
    >>> f(a, c)
    """
    target = Target.of(target)
    policy = ReusePolicy(reuse=reuse, devices=devices, missing=missing, guard=guard)
    if name is not None:
        _named("build", name)
    if isinstance(what, Schedule):
        if isinstance(arguments, Mapping):
            raise UsageError(
                "build: arguments of a schedule are the list of its tensors, not a mapping"
            )
        if records is not None or policy != ReusePolicy():
            raise UsageError("build: records are for templates; a schedule is built as it is")
        tensors = _tensors("build", arguments)
        analysed = partial(_analysed, what, tensors, target, name or "main")
        whole = analysed()
        given = constant_copies("build", Signature.of(whole).parameters, constants)

        def strided() -> PreparedFunction:
            return lift_constants(analysed(strided=True), tuple(given)).final_form(target)

        function = lift_constants(whole, tuple(given)).final_form(target)
        any_strides = strided if whole.sizes else None
        return BuiltFunction(function, target, strided=any_strides, constants=list(given.values()))
    if not isinstance(what, str) and not callable(what):
        raise UsageError(
            "build: expected a schedule, the name of a template or a function that returns "
            f"tensors, got {type(what).__name__}"
        )
    if not isinstance(arguments, Mapping):
        said = what if isinstance(what, str) else getattr(what, "__name__", what)
        raise UsageError(
            f"build: template {said!r} takes its arguments as a mapping, such as {{'n': 512}}"
        )
    if isinstance(what, str):
        task = Task.from_reference(what, arguments, target)
    else:
        task = Task(template_of(what), arguments, target)
    source, store = record_source(records, must_exist=missing != "tune")
    return build_task(task, source, name, constants, policy, store)


def _analysed(
    schedule: Schedule, tensors: Sequence[Tensor], target: Target, name: str, strided: bool = False
) -> PrimFunc:
    """Return the analysed function of a schedule; a GPU refuses what no launch may ask for."""
    lowered = lower_schedule(schedule, tensors, name, strided=strided)
    if target.gpu is not None:
        rules = [*thread_limit_rules(lowered, target.gpu), *target_rules(lowered, target)]
        info = replace(lowered.info, requirements=(*lowered.info.requirements, *rules))
        lowered = replace(lowered, info=info)
    return analyse(lowered)


def build_task(
    task: Task,
    records: RecordSource | Iterable[Record] | None = None,
    name: str | None = None,
    constants: Constants | None = None,
    policy: ReusePolicy = ReusePolicy(),  # noqa: B008, it is frozen
    store: RecordStore | None = None,
) -> BuiltFunction:
    """Compile a task with the best configuration that records know.

    What is not used of the records is warned of, by reason (`RecordWarning`).

    Parameters
    ----------
    task : Task
    records : RecordSource or iterable of Record, optional
    name : str, optional
        Name of the function; the template's by default.
    constants : mapping of str or int to array, optional
        As of `build`. A task that has constant inputs already needs the arrays of just these.
    policy : ReusePolicy, optional
        Which records count, and what to do without any.
    store : RecordStore, optional
        The log that ``missing="tune"`` appends to.

    Raises
    ------
    NoRecordError
        With ``missing="error"``, if there is no record to build by.
    """
    if name is not None:
        _named("build", name)
    arrays: dict[int, Host] = {}
    if constants is not None or task.constant:
        arrays = constant_copies(task.workload.template, task.arguments, constants)
        task = task if task.constant else task.with_constant(tuple(arrays))
    if tuple(arrays) != task.constant:
        raise UsageError(
            f"build: {task.workload} needs the arrays of its constant inputs as constants=, got "
            f"those of {list(arrays)}"
        )
    source = None if records is None else as_source(records)
    choice = choose_record(task, source, policy, store)

    def default() -> Config:
        return task.space.config(task.default_index)

    values = task.default_values if choice is None else choice.config.values
    config = default if choice is None else choice.config
    function = task.prepared_of(values)
    function = function if name is None else function.renamed(name)
    copies, compiled = list(arrays.values()), task.callable_of(values)
    return BuiltFunction(
        function, task.target, task.workload, config, choice, constants=copies, compiled=compiled
    )


def build_program(program: Program, target: Target) -> BuiltFunction:
    """Compile a Tile function bound to sizes by the default of its search space."""
    from autotune.operators.tile_template import default_schedule

    return build(*default_schedule(program, target), target, name="tile")


def build_tile(
    function: TileFunction,
    types: Sequence[TensorType | int],
    target: Target,
    records: Any,
    most_operations: int | None = None,
) -> BuiltFunction:
    """Compile a Tile function for inputs of some types as `build_task` does.

    Records are those of the same code and sizes, whatever the file was called.
    """
    from autotune.operators.tile_template import arguments_of, tile_template

    known, _ = record_source(records)
    args = arguments_of(function, types)
    names = (group.template for group in (known.groups() if known else ()) if group.args == args)
    template = tile_template(function, next(names, "tile"), target.kind, most_operations)
    return build_task(Task(template, args, target), known or [])


def _tensors(caller: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise UsageError(
            f"{caller}: tensors must be a list of tensors, inputs then outputs, as in [A, B], "
            f"got {tensors!r}"
        )
    return list(tensors)


def _named(caller: str, name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f"{caller}: name must be letters, digits and _, got {name!r}")
    return name
