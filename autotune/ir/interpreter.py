"""What a program means: runs any function of the IR on NumPy arrays, every access checked.

Backends and schedule primitives are tested against it. Meaning, where it could be doubted:

- Integer arithmetic wraps to its type; that of int32 and int64 is exact in indices, extents and
  conditions of `If`. Float operations round to their type; intrinsics are computed in float64 and
  then rounded. A NaN on either side of `min` and `max` wins, as in NumPy. Casts and division are
  as docs/dtypes.md states.
- `and`, `or` and select evaluate all their operands, if_then_else only the chosen side.
- Loops of every kind run in order, one iteration after the other. A vector store evaluates all
  lanes before it writes the first. What an allocation holds at first is poison.
- A vector condition of `If` is evaluated once; each side runs if any lane takes it, and its stores
  evaluate and write the lanes that do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import IRError
from autotune.ir import dtypes
from autotune.ir.expr import Buffer, Expr, Load, SizeVar, Var
from autotune.ir.python_source import PythonSource
from autotune.ir.stmt import Allocate, Barrier, For, Function, If, Produce, Seq, Stmt, Store
from autotune.ir.visitor import walk_expr

#: CPython allows 20 nested blocks in one function; deeper loops go on in an inner function.
_BLOCKS = 15


def poison(dtype: str) -> Any:
    """Return what an allocation holds at first: a NaN, or an integer that nothing expects."""
    if dtypes.is_float(dtype):
        return dtypes.rounded(math.nan, dtype)
    return True if dtype == dtypes.BOOL else dtypes.wrapped(0xDEADBEEFDEADBEEF, dtype)


def interpret(
    function: Function,
    arrays: Sequence[npt.NDArray[Any]],
    sizes: Mapping[SizeVar, int] | None = None,
) -> None:
    """Run `function` on `arrays` in place.

    Parameters
    ----------
    function : Function
        Any lowered function: with loops of every kind, or with vectors. No knobs left in it.
    arrays : sequence of ndarray
        One array per parameter, of its dtype and shape; any strides. Outputs are written.
    sizes : mapping of SizeVar to int, optional
        Values of size variables that the shapes do not tell.

    Raises
    ------
    IRError
        If an access is out of bounds, a divisor is zero, an argument does not fit, or the function
        holds something that has no meaning here.
    """
    known = _bind_sizes(function, arrays, sizes or {})
    run = compile_function(function)
    flat = [_to_list(array) for array in arrays]
    run(*flat, *(known[var.id] for var in function.sizes))
    for buffer, array, values in zip(function.params, arrays, flat, strict=True):
        if buffer in function.outputs:
            array[...] = np.array(values, dtype=array.dtype).reshape(array.shape)


def evaluate(expr: Expr, env: Mapping[Any, int] | None = None) -> int | bool:
    """Value of a scalar integer or bool expression, in exact Python integers.

    Only the chosen side of a select is evaluated, and `and` and `or` stop at the first operand that
    decides, so that guarded divisions are fine. Casts between int32 and int64 keep the value;
    integers of other types wrap.

    Parameters
    ----------
    expr : Expr
        Expression over variables, with no loads.
    env : mapping of Var to int, optional
        Value of every variable in it.

    Raises
    ------
    IRError
        If a divisor is zero, a variable has no value, or a float or a load occurs.
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


def compile_function(function: Function) -> Callable[..., None]:
    """Compile `function` to a Python function of flat lists, one per parameter, and sizes."""
    source = _FunctionSource()
    arguments = [source.bind(var) for var in function.sizes]
    for buffer in function.params:
        source.add_buffer(buffer)
    source.write(function.body)
    return source.compile([*(source.buffers[id(b)][0] for b in function.params), *arguments])


def _bind_sizes(
    function: Function, arrays: Sequence[npt.NDArray[Any]], sizes: Mapping[SizeVar, int]
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
    for var in function.sizes:
        if var not in known:
            raise IRError(f"size {var.name!r} of {function.name!r} is in no array's shape: give it")
    for buffer, array in zip(function.params, arrays, strict=True):
        expected = tuple(int(evaluate(dim, known)) for dim in buffer.shape)
        if array.shape != expected:
            raise IRError(
                f"array for {buffer.name!r}: expected shape {expected}, not {array.shape}"
            )
    return {var.id: int(known[var]) for var in function.sizes}


def _to_list(array: npt.NDArray[Any]) -> list[Any]:
    """Elements in row-major order: NumPy scalars for floats, Python's ints and bools."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return list(flat) if dtypes.is_float(flat.dtype.name) else flat.tolist()


class _FunctionSource(PythonSource):
    """Python source of a whole function: statements over lists.

    `mask` names the variables that tell which lanes are active, empty outside vector conditions.
    """

    def __init__(self) -> None:
        super().__init__(lazy=False)
        self.mask: list[str] = []

    def add_buffer(self, buffer: Buffer) -> tuple[str, str]:
        """Name a buffer and write the line that computes its number of elements."""
        name, size = self.name("b"), self.name("n")
        factors = self._fragment(buffer.shape)
        self.line(f"{size} = {' * '.join(factors) or '1'}")
        self.buffers[id(buffer)] = name, size
        return name, size

    def _fragment(self, exprs: Sequence[Expr]) -> list[str]:
        """Texts of exact scalars that one statement needs."""
        self.scopes = [{}]
        self.count_uses(exprs)
        return [self.expr(expr, 0, True) for expr in exprs]

    def _block(self, body: Stmt, blocks: int) -> None:
        self.depth += 1
        start = len(self.lines)
        if blocks and blocks % _BLOCKS == 0:
            inner = self.name("part")
            self.line(f"def {inner}():")
            self.depth += 1
            self.write(body, blocks)
            self.line("pass")
            self.depth -= 1
            self.line(f"{inner}()")
        else:
            self.write(body, blocks)
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def write(self, stmt: Stmt, blocks: int = 0) -> None:
        """Write a statement that stands inside `blocks` loops."""
        match stmt:
            case Store():
                self._store(stmt)
            case For(var, extent, _, body, _):
                (count,) = self._fragment([extent])
                self.line(f"for {self.bind(var)} in range({count}):")
                self._block(body, blocks + 1)
                self.names.pop(id(var), None)
            case If(condition) if condition.lanes > 1:
                self._masked(stmt, blocks)
            case If(condition, then, orelse):
                (test,) = self._fragment([condition])
                self.line(f"if {test}:")
                self._block(then, blocks)
                if orelse is not None:
                    self.line("else:")
                    self._block(orelse, blocks)
            case Seq(stmts):
                for inner in stmts:
                    self.write(inner, blocks)
            case Allocate(buffer, body):
                name, size = self.add_buffer(buffer)
                self.line(f"{name} = [{self.constant(poison(buffer.dtype))}] * {size}")
                self.write(body, blocks)
                del self.buffers[id(buffer)]
            case Produce(_, body):
                self.write(body, blocks)
            case Barrier():
                raise IRError("a barrier has no meaning for threads that run one after another")
            case _:
                raise IRError(f"unknown statement {type(stmt).__name__}")

    def _masked(self, stmt: If, blocks: int) -> None:
        """Write both sides of a vector condition, each for the lanes that take it."""
        outer = self.mask
        self.scopes = [{}]
        self.count_uses([stmt.condition])
        tests = []
        for lane in range(stmt.condition.lanes):
            tests.append(self.name("m"))
            self.line(f"{tests[lane]} = False")
            with self.where(lane):
                self.line(f"{tests[lane]} = {self.expr(stmt.condition, lane, True)}")
        self._side(tests, stmt.then, blocks)
        if stmt.orelse is not None:
            others = [self.name("m") for _ in tests]
            for lane, (other, test) in enumerate(zip(others, tests, strict=True)):
                self.line(f"{other} = {f'{outer[lane]} and ' if outer else ''}not {test}")
            self._side(others, stmt.orelse, blocks)

    def _side(self, mask: list[str], body: Stmt, blocks: int) -> None:
        """Write `body` for the active lanes of `mask`."""
        outer, self.mask = self.mask, mask
        self.line(f"if {' or '.join(mask)}:")
        self._block(body, blocks)
        self.mask = outer

    @contextmanager
    def where(self, lane: int) -> Iterator[None]:
        """Write lines that only run if `lane` is active."""
        if not self.mask:
            yield
            return
        self.line(f"if {self.mask[lane]}:")
        self.depth += 1
        self.scopes.append({})
        yield
        self.line("pass")
        self.scopes.pop()
        self.depth -= 1

    def _store(self, stmt: Store) -> None:
        buffer, index, value = stmt.buffer, stmt.index, stmt.value
        if value.dtype != buffer.dtype or value.lanes != index.lanes:
            raise IRError(
                f"store to {buffer.name!r} ({buffer.dtype}, {index.lanes} lanes) of "
                f"{value.dtype} with {value.lanes} lanes"
            )
        name, size = self.buffer(buffer)
        self.scopes = [{}]
        self.count_uses((index, value))
        read = []
        for lane in range(index.lanes):
            with self.where(lane):
                text, place = self.expr(value, lane, False), self.expr(index, lane, True)
                # All lanes are read before the first is written.
                read.append((text if index.lanes == 1 else self.atom(text), self.atom(place)))
        what = self.constant(buffer.name)
        for lane, (text, where) in enumerate(read):
            with self.where(lane):
                outside = f"outside({what}, {where}, {size}, 'store')"
                self.line(f"if not 0 <= {where} < {size}: {outside}")
                self.line(f"{name}[{where}] = {text}")
