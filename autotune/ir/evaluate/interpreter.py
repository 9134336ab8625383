"""The interpreter: runs any function of the IR on NumPy arrays and checks every access.

Backends and schedule primitives are tested against it. It defines these details:

- Integer arithmetic wraps to its type; that of int32 and int64 is exact in indices, extents and
  conditions of `If`. Float operations round to their type; intrinsics are computed in float64 and
  then rounded. A NaN operand of `min` and `max` gives NaN, as in NumPy. docs/dtypes.md defines
  casts and division.
- `and`, `or` and select evaluate all their operands, if_then_else only the chosen side.
- Loops of every kind run in order, one iteration after the other. If thread loops contain barriers,
  all threads of a block run to the next barrier before the first thread continues. Allocations
  inside thread loops are private to each thread; those in scope `shared` belong to the block. A
  vector store evaluates all lanes before it writes the first. The initial contents of an allocation
  are poison.
- A vector condition of `If` is evaluated once. Each branch runs if any lane takes it, and its
  stores evaluate and write only these lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.evaluate.block_threads import RaceCheckedList, ThreadBlock
from autotune.ir.evaluate.expr_to_python import PythonSource
from autotune.ir.evaluate.stmt_to_python import FunctionSource
from autotune.ir.evaluate.warp_reductions import lower_warp_reductions
from autotune.ir.expr import Expr, Load, SizeVar, Var
from autotune.ir.stmt import PrimFunc
from autotune.ir.visitor import walk_expr


def interpret(
    function: PrimFunc,
    arrays: Sequence[npt.NDArray[Any]],
    sizes: Mapping[SizeVar, int] | None = None,
    races: bool = False,
) -> None:
    """Run `function` on `arrays` in place.

    `function`: any lowered function without knobs, with loops of every kind or with vectors.
    `arrays`: one array per parameter, of its dtype and shape; any strides. Outputs are written.
    `sizes`: values of size variables that do not follow from the shapes, and of variables for the
    alignment of arrays (0 if they are not given).
    `races`: raise an error for data races: two threads touch one element of an output or of an
    allocation that is not local, one of them writes, and there is no barrier in between.

    Raises IRError if an access is out of bounds, a divisor is zero, an argument does not fit, some
    threads of a block wait at a barrier that others do not reach, or the function contains a node
    without a meaning here.
    """
    known = _bind_sizes(function, arrays, sizes or {})
    run, block = compile_function(function, races), ThreadBlock()
    flat = [_to_list(array) for array in arrays]
    if races:
        flat = [
            RaceCheckedList(values, buffer.name, block) if buffer in function.outputs else values
            for buffer, values in zip(function.params, flat, strict=True)
        ]
    run(block, *flat, *(known[var.id] for var in (*function.sizes, *function.info.line_offsets)))
    for buffer, array, values in zip(function.params, arrays, flat, strict=True):
        if buffer in function.outputs:
            array[...] = np.array(values, dtype=array.dtype).reshape(array.shape)


def evaluate(expr: Expr, env: Mapping[Any, int] | None = None) -> int | bool:
    """Value of a scalar integer or bool expression, in exact Python integers.

    Only the chosen side of a select is evaluated, and `and` and `or` stop at the first operand that
    decides, so that guarded divisions are allowed. Casts between int32 and int64 keep the value;
    integers of other types wrap.

    `expr`: expression over variables, with no loads.
    `env`: value of every variable in it.

    Raises IRError if a divisor is zero, a variable has no value, or a float or a load occurs.
    """
    env = env or {}
    variables = [node for node in walk_expr(expr) if isinstance(node, Var)]
    for var in variables:
        if var not in env:
            raise IRError(f"no value is given for variable {var.name!r}")
    value: int | bool = scalar_function([expr], variables)(*(env[v] for v in variables))[0]
    return value


def scalar_function(
    exprs: Sequence[Expr], variables: Sequence[Var]
) -> Callable[..., tuple[int | bool, ...]]:
    """Compile scalar expressions to one function of the variables, as `evaluate` defines them."""
    source = PythonSource(lazy=True)
    for k, var in enumerate(variables):
        source.names[id(var)] = f"v{k}"
    for expr in exprs:
        for node in walk_expr(expr):
            if isinstance(node, Load) or dtypes.is_float(node.dtype) or node.lanes > 1:
                raise IRError(f"only scalar integer expressions have exact values, not `{node}`")
    source.count_uses(exprs)
    results = [source.expr(expr, 0, True) for expr in exprs]
    source.line(f"return ({', '.join(results)},)")
    return source.compile([f"v{k}" for k in range(len(variables))])


def compile_function(function: PrimFunc, races: bool = False) -> Callable[..., None]:
    """Compile `function` to a Python function of a ThreadBlock, a list per parameter, and sizes.

    With `races`, allocations are checked for data races; the caller wraps the parameters.
    """
    source = FunctionSource(races)
    arguments = [source.bind(var) for var in (*function.sizes, *function.info.line_offsets)]
    for buffer in function.params:
        source.add_buffer(buffer)
    source.write(lower_warp_reductions(function).body)
    lists = [source.buffers[id(buffer)][0] for buffer in function.params]
    return source.compile(["block", *lists, *arguments])


def _bind_sizes(
    function: PrimFunc, arrays: Sequence[npt.NDArray[Any]], sizes: Mapping[SizeVar, int]
) -> dict[int, int]:
    if len(arrays) != len(function.params):
        raise IRError(
            f"{function.name!r} takes {len(function.params)} arrays, {len(arrays)} were given"
        )
    known: dict[Any, int] = dict(sizes)
    for buffer, array in zip(function.params, arrays, strict=True):
        if array.dtype != dtypes.numpy_dtype(buffer.dtype) or array.ndim != len(buffer.shape):
            raise IRError(
                f"array for {buffer.name!r}: expected {len(buffer.shape)} dimensions of "
                f"{buffer.dtype}, not {array.ndim} of {array.dtype}"
            )
        for dim, extent in zip(buffer.shape, array.shape, strict=True):
            if isinstance(dim, SizeVar):
                known.setdefault(dim, extent)
        for position, stride in enumerate(buffer.strides or (), start=1):
            known[stride] = math.prod(array.shape[position:])  # row-major, as the lists are here
    for var in function.info.line_offsets:
        known.setdefault(var, 0)
    for var in function.sizes:
        if var not in known:
            raise IRError(f"size {var.name!r} of {function.name!r} is in no array's shape: give it")
    for buffer, array in zip(function.params, arrays, strict=True):
        expected = tuple(int(evaluate(dim, known)) for dim in buffer.shape)
        if array.shape != expected:
            raise IRError(
                f"array for {buffer.name!r}: expected shape {expected}, not {array.shape}"
            )
    return {var.id: int(known[var]) for var in (*function.sizes, *function.info.line_offsets)}


def _to_list(array: npt.NDArray[Any]) -> list[Any]:
    """Elements in row-major order: NumPy scalars for floats, Python's ints and bools."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return list(flat) if dtypes.is_float(flat.dtype.name) else flat.tolist()
