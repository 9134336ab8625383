"""Tile functions as callables, compiled at the first call with new shapes and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.errors import ArgumentError, UsageError
from autotune.ir import dtypes
from autotune.runtime.argument_checks import wrong_number
from autotune.runtime.backends import backend_of
from autotune.runtime.foreign_arrays import dtype_name
from autotune.target import Target
from autotune.tile.binding.bind_function import bind
from autotune.tile.binding.bound_program import Program, TensorType
from autotune.tile.binding.size_limits import operation_limit
from autotune.tile.check.check_function import check
from autotune.tile.check.size_inputs import size_inputs
from autotune.tile.syntax.parser import parse
from autotune.tile.syntax.syntax_tree import Function


def compile(
    code: str | Function,
    target: str | Target = "llvm",
    records: Any = None,
    *,
    most_operations: int | None = None,
) -> CompiledTile:
    """Return a Tile function that is called with arrays.

    Parameters
    ----------
    code
        A Tile function, as text or parsed.
    target
        The target, such as ``"llvm"`` or ``"cuda"``.
    records
        Measurements of `autotune run FILE.tile`, as for `autotune.build`: the best of the same
        code, sizes and types is compiled. A warning says if there is none. Without records the
        default of the search space is compiled.
    most_operations
        Largest number of operations (sets of index values) of a contraction; more would take hours
        and are refused. None: 2^39, or the value of the environment variable
        ``AUTOTUNE_TILE_OPERATIONS``.

    Raises
    ------
    TileError
        If the code is not a Tile function, or has a mistake for all sizes.
    UsageError
        If `most_operations` is not a whole number of at least 1.

    Examples
    --------
    >>> total = compile("function (A[N]) -> (S) { S[] = +(A[i]); }")
    >>> total(np.arange(4.0))
    array(6.)
    """
    function = code if isinstance(code, Function) else parse(code)
    check(function)
    return CompiledTile(function, Target.of(target), records, most_operations)


class CompiledTile:
    """A Tile function for one target; it is compiled once for each set of shapes and types.

    Attributes
    ----------
    function
        The source function.
    target
        The target.
    """

    def __init__(
        self,
        function: Function,
        target: Target,
        records: Any = None,
        most_operations: int | None = None,
    ) -> None:
        self.function = function
        self.target = target
        self._records = records
        given = most_operations is not None
        self._most_operations = operation_limit(most_operations) if given else None
        self._sizes = size_inputs(function)
        self._built: dict[tuple[TensorType | int, ...], tuple[Program, Any]] = {}

    def __call__(self, *arrays: Any) -> Any:
        """Compute the outputs of some arrays.

        Parameters
        ----------
        *arrays
            One per input, in order: NumPy arrays or scalars, or arrays of any library with
            ``__array_interface__`` or DLPack; for GPUs arrays of CuPy and others. Arrays that are
            not C-contiguous are copied first. Whole numbers for inputs that are sizes.

        Returns
        -------
        array or tuple of arrays
            New arrays, of NumPy or (for GPUs) CuPy; a tuple if there are several outputs.

        Raises
        ------
        TileError
            If the shapes do not fit the function.
        ArgumentError
            If there are too few or too many arrays, or one cannot be used.
        """
        program, built = self.built(*arrays)
        tensors = [
            self._contiguous(array)
            for declared, array in zip(self.function.inputs, arrays, strict=True)
            if declared.name.text not in self._sizes
        ]
        results = [self._empty(program.types[name], tensors) for name in program.outputs]
        built(*tensors, *results)
        return results[0] if len(results) == 1 else tuple(results)

    def built(self, *arrays: Any) -> tuple[Program, Any]:
        """Return the program bound to the shapes and types of some arrays, and its built function.

        The built function takes inputs, then outputs, which it writes.
        """
        names = [declared.name.text for declared in self.function.inputs]
        if len(arrays) != len(names):
            raise wrong_number(self.function.name, names, len(arrays))
        key = tuple(
            _size_of(a, name) if name in self._sizes else _type_of(a, name)
            for name, a in zip(names, arrays, strict=True)
        )
        if key not in self._built:
            own = dict(zip(names, key, strict=True))
            types = {name: t for name, t in own.items() if isinstance(t, TensorType)}
            program = bind(
                self.function,
                {name: t.shape for name, t in types.items()},
                {name: t.dtype for name, t in types.items()},
                {name: size for name, size in own.items() if isinstance(size, int)},
                most_operations=self._most_operations,
            )
            self._built[key] = program, self._build(program, key)
        return self._built[key]

    def _contiguous(self, array: Any) -> Any:
        """Return a contiguous array: a copy, if necessary."""
        if hasattr(array, "contiguous"):  # torch's
            return array.contiguous()
        return backend_of(self.target).contiguous(array)

    def _build(self, program: Program, types: tuple[TensorType | int, ...]) -> Any:
        from autotune.builder import build_program, build_tile  # slow import

        if self._records is None:
            return build_program(program, self.target)
        return build_tile(self.function, types, self.target, self._records, self._most_operations)

    def _empty(self, of: TensorType, arrays: Sequence[Any]) -> Any:
        return backend_of(self.target).empty(of.shape, dtypes.numpy_dtype(of.dtype), arrays)

    def __repr__(self) -> str:
        return f"<compiled Tile function {self.function.name} for {self.target}>"


def _type_of(array: Any, name: str) -> TensorType:
    """Shape and type of any library's array."""
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise ArgumentError(f"input {name} must be an array, got a {type(array).__name__}")
    dtype = dtype_name(array)
    if dtype not in dtypes.ALL:
        raise UsageError(
            f"input {name} is of type {dtype}: convert it to one of {', '.join(dtypes.ALL)}"
        )
    return TensorType(tuple(int(n) for n in array.shape), dtype)


def _size_of(number: Any, name: str) -> int:
    """Return the value of an input that is a size: a number, or an array of one."""
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    own = _type_of(number, name) if hasattr(number, "dtype") else None
    if own is None or own.shape != () or not dtypes.is_integer(own.dtype):
        got = type(number).__name__ if own is None else f"{own.dtype}{list(own.shape)}"
        raise ArgumentError(f"input {name} is a size, so it is a whole number, got {got}")
    return int(number.item())
