"""Makes a template of a Tile function: its dimensions are the arguments; its space is derived."""

from __future__ import annotations

import hashlib
import inspect
import keyword
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from autotune import rules, te
from autotune.errors import UsageError
from autotune.ir import dtypes
from autotune.rules.apply_rules import scheduled_outputs
from autotune.rules.gpu.thread_loops import schedule_on_gpu
from autotune.schedule.schedule import Schedule
from autotune.target import Target
from autotune.te.tensor import ComputeOp, Tensor, producers_first
from autotune.template import Knobs, Template
from autotune.tile.binding.bind_function import bind
from autotune.tile.binding.bound_program import Contract, Program, TensorType
from autotune.tile.binding.given_shapes import shapes_of
from autotune.tile.check.check_function import check
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.evaluation.reference_evaluator import evaluate
from autotune.tile.syntax.error_locations import tile_error
from autotune.tile.syntax.parser import parse
from autotune.tile.syntax.syntax_tree import Function
from autotune.tile.syntax.unparser import to_code
from autotune.tile.to_te.program_to_te import to_te
from autotune.trace.explore import default_structure
from autotune.trace.tracer import Structures

#: Shape of an array without dimensions.
_SCALAR: Final = "scalar"


def tile_template(
    function: Function, name: str, kind: str, most_operations: int | None = None
) -> Template:
    """Return the template of a Tile function for a kind of target.

    Its arguments are the dimensions in the header, the inputs that are sizes, the shapes (as in
    ``"4,5,6"``) of inputs without dimensions in the header, the inputs' ``dtype`` (several
    separated by commas) and ``code``, a digest of the function, so that another function is another
    workload. Contractions of more than `most_operations` operations are refused, as by `bind`.
    """
    check(function)
    for declared in function.inputs:
        for dim in (*declared.named.values(), declared.name):
            if keyword.iskeyword(dim.text):
                raise tile_error(
                    function, dim.span, f"{dim.text} is a word of Python: choose another name"
                )
    digest = code_digest(function)

    def bound(args: Mapping[str, Any]) -> Program:
        if args["code"] != digest:
            raise UsageError(f"{function.name} is the code {digest}, not {args['code']}")
        return bound_program(function, args, most_operations)

    def instance(cfg: Knobs, **args: Any) -> Any:
        return tuned_schedule(cfg, bound(args))

    instance.__doc__ = f"The Tile function of {function.name}."
    instance.__signature__ = _signature(function, digest)  # type: ignore[attr-defined]

    def reference(*arrays: Any, **args: Any) -> Any:
        types = ",".join(array.dtype.name for array in arrays)
        results = evaluate(bound({**args, "dtype": types}), *arrays)
        return results[0] if len(results) == 1 else results

    def flops(**args: Any) -> float:
        return _flops(bound(args))

    def intermediate(**args: Any) -> str | None:
        steps = bound(args).steps
        halves = [step.type.dtype for step in steps if dtypes.is_half(step.type.dtype)]
        return max(halves, key=dtypes.epsilon) if len(steps) > 1 and halves else None

    return Template(name, kind, instance, reference, flops, intermediate=intermediate)


def tuned_schedule(cfg: Knobs, program: Program) -> tuple[Schedule, list[Tensor]]:
    """Define the knobs of a program; return the schedule that they make, and its tensors."""
    plain = to_te(program)
    constants = [tensor for number, tensor in enumerate(plain.inputs) if number in cfg.constants]
    schedule = rules.schedule(cfg, plain.outputs, constants)
    return schedule, [*plain.inputs, *scheduled_outputs(schedule, plain.outputs)]


def default_schedule(program: Program, target: Target) -> tuple[Schedule, list[Tensor]]:
    """Return the schedule of a program without measurements, and its tensors.

    It is the default of the search space, or a legal configuration near it, or else the plain
    schedule.
    """
    found = default_structure(Structures("tile", lambda cfg: tuned_schedule(cfg, program), target))
    if found is None or found.schedule is None:
        tensors = to_te(program)
        return fallback_schedule(tensors.outputs, target), [*tensors.inputs, *tensors.outputs]
    return found.schedule, list(found.tensors)


def fallback_schedule(outputs: Sequence[Tensor], target: Target) -> Schedule:
    """Return a schedule that is legal for every computation without scans.

    Stages are plain loops on a CPU; on a GPU each output element has a thread.
    """
    ops = [t.op for t in outputs]
    schedule: Schedule = te.create_schedule(ops)
    for op in producers_first(ops) if target.gpu is not None else ():
        if isinstance(op, ComputeOp):
            schedule_on_gpu(schedule, op.output())
    return schedule


def template_of_file(path: str, kind: str, text: bytes | None = None) -> Template:
    """Return the template of a file with a Tile function; its name is the file's.

    `text`: used instead of the file's content, if given.

    Raises UsageError if the file cannot be read, or (a TileError) holds no Tile function.
    """
    name = re.sub(r"\W", "_", Path(path).stem)
    function = read_function(path, text)
    return tile_template(function, name if name[:1].isalpha() else f"_{name}", kind)


def read_function(path: str, text: bytes | None = None) -> Function:
    """Return the Tile function in a file, or in `text`, if that is given.

    Raises UsageError if the file cannot be read, or (a TileError) holds no Tile function.
    """
    try:
        code = (_content(path) if text is None else text).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: it is no UTF-8 at byte {error.start}") from None
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"cannot read {path}: {error}; check the path") from None
    return parse(code.replace("\r\n", "\n").replace("\r", "\n"), path)


def _content(path: str) -> bytes:
    file = Path(path)
    if file.exists() and not file.is_file():  # reading a device or a pipe might never end
        raise UsageError(f"cannot read {path}: it is a folder, a device or a pipe; name a file")
    return file.read_bytes()


def code_digest(function: Function) -> str:
    """Return a digest of a function that does not depend on layout and comments."""
    return hashlib.sha256(to_code(function).encode()).hexdigest()[:12]


def bound_program(
    function: Function, args: Mapping[str, Any], most_operations: int | None = None
) -> Program:
    """Return a function bound to a template's arguments.

    Raises UsageError if sizes or types are not such, or (a TileError) do not fit the function.
    """
    sizes, shapes, given = {}, {}, size_inputs(function)
    for name, value in args.items():
        if isinstance(value, int):
            sizes[name] = value if name in given else size_of(name, str(value))
        elif name not in ("code", "dtype"):
            shapes[name] = shape_of(name, value)
    names = [i.name.text for i in function.inputs if i.name.text not in given]
    types = [text.strip() for text in str(args["dtype"]).split(",")]
    types = types * len(names) if len(types) == 1 else types
    if len(types) != len(names):
        raise UsageError(
            f"dtype={args['dtype']}: give one type, or one for each of {', '.join(names)}"
        )
    own = dict(zip(names, types, strict=True))
    values = {name: sizes[name] for name in given}
    return bind(
        function, shapes_of(function, sizes, shapes), own, values, most_operations=most_operations
    )


def arguments_of(function: Function, types: Sequence[TensorType | int]) -> dict[str, Any]:
    """Return the template's arguments for inputs of some shapes and types, or values of sizes."""
    args: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    for i, own in zip(function.inputs, types, strict=True):
        if isinstance(own, int):
            args[i.name.text] = own
        elif i.dimensions is None:
            shapes[i.name.text] = shape_text(own.shape)
        else:
            args |= {d.text: own.shape[axis] for axis, d in i.named.items()}
    names = [own.dtype for own in types if isinstance(own, TensorType)] or ["float32"]
    dtype = names[0] if len(set(names)) == 1 else ",".join(names)
    return {**args, **shapes, "dtype": dtype, "code": code_digest(function)}


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as an argument: ``"4,5,6"``, or ``"scalar"``."""
    return ",".join(map(str, shape)) or _SCALAR


def shape_of(name: str, text: str) -> tuple[int, ...]:
    """Return a shape given as an argument; see `shape_text`.

    Raises UsageError if a size is no whole number from 1.
    """
    if text.strip() == _SCALAR:
        return ()
    sizes = list(map(_size, text.split(",")))
    if None in sizes:
        raise UsageError(
            f"{name}={text}: a shape is sizes, whole numbers from 1, with commas between, as in "
            f"{name}=4,5; or {_SCALAR}"
        )
    return tuple(size for size in sizes if size is not None)


def value_of(name: str, text: str) -> int:
    """Return the value of an input that is a size, given as text.

    Raises UsageError if it is no whole number.
    """
    number = text.strip()
    digits = number.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise UsageError(f"{name}={text}: a whole number is wanted, as in {name}=512")
    return int(number)


def size_of(name: str, text: str) -> int:
    """Return a size given as text.

    Raises UsageError if it is no whole number from 1.
    """
    size = _size(text)
    if size is None:
        raise UsageError(f"{name}={text}: a size is a whole number from 1, as in {name}=512")
    return size


def _size(text: str) -> int | None:
    number = text.strip()
    if not (number.isascii() and number.isdigit()) or len(number) > 18:
        return None
    return int(number) or None


def _signature(function: Function, digest: str) -> inspect.Signature:
    only = inspect.Parameter.KEYWORD_ONLY
    given = size_inputs(function)
    named = [d.text for i in function.inputs for d in i.named.values()]
    sizes = dict.fromkeys([*named, *given])
    inputs = [i for i in function.inputs if i.name.text not in given]
    shapes = [i.name.text for i in inputs if i.dimensions is None]
    return inspect.Signature(
        [
            inspect.Parameter("cfg", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *(inspect.Parameter(name, only, annotation=int) for name in sizes),
            *(inspect.Parameter(name, only, annotation=str) for name in shapes),
            inspect.Parameter("dtype", only, default="float32", annotation=str),
            inspect.Parameter("code", only, default=digest, annotation=str),
        ]
    )


def _flops(program: Program) -> float:
    """Return operations: of contractions by their index sets' box, of the rest by elements."""
    total = 0.0
    for step in program.steps:
        size = float(math.prod(step.type.shape))
        if isinstance(step, Contract):
            box = step.domain.box()
            size = math.prod(float(high - low + 1) for low, high in (box or {}).values())
            size *= 2 if step.combination else 1
        total += size
    return total
