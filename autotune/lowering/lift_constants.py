"""Moves what depends only on constant inputs into a function of its own, which runs once.

    main(A, B, C)                      main_prepare(B, P)
      allocate P                         P = pack(B)
      P = pack(B)            ->
      C = product(A, P)                main(A, C, P)
                                         C = product(A, P)

The nests at the top level of the function are considered, whatever they compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autotune.errors import UsageError
from autotune.ir.expr import Buffer, Const, SizeVar
from autotune.ir.stmt import PrimFunc, Stmt, allocated, seq, top_level
from autotune.ir.visitor import (
    all_accessed,
    all_allocated,
    all_written,
    free_vars,
    is_raw,
    stmt_exprs,
    walk,
)
from autotune.lowering.gpu.finalise_kernels import final_form
from autotune.target import Target


@dataclass(frozen=True, eq=False)
class PreparedFunction:
    """A function, and the function of its constant inputs that runs before the first call."""

    #: Its parameters are those of the whole function but for the constant inputs, in order; then
    #: the constant inputs of `kept`; then the outputs of `prepare`.
    main: PrimFunc
    #: Takes all constant inputs in order, and writes the arrays that `main` reads in their place;
    #: None if there is nothing to compute.
    prepare: PrimFunc | None = None
    #: Positions of the constant inputs among the parameters of the whole function.
    constants: tuple[int, ...] = ()
    #: Those constant inputs that `main` still reads.
    kept: tuple[int, ...] = ()

    def renamed(self, name: str) -> PreparedFunction:
        """Return it with another name of `main`."""
        return replace(self, main=replace(self.main, name=name))

    @property
    def functions(self) -> list[PrimFunc]:
        """The functions that there are, `main` first."""
        return [self.main] if self.prepare is None else [self.main, self.prepare]

    def final_form(self, target: Target) -> PreparedFunction:
        """Return it in the form that backends of `target` take; see `final_form`."""
        prepare = None if self.prepare is None else final_form(self.prepare, target)
        return replace(self, main=final_form(self.main, target), prepare=prepare)


def check_constants(name: str, function: PrimFunc, constants: Sequence[int]) -> None:
    """Raise UsageError unless the constants are positions of inputs of a function.

    `name`: whose inputs they are, for the message.
    """
    inputs = [param.name for param in function.params if param not in function.outputs]
    if constants and is_raw(function):
        raise UsageError(
            f"{name} is no tensor expressions: its kernel reads its inputs as they are, and takes "
            "no constants"
        )
    for position in constants:
        if not 0 <= position < len(inputs):
            known = ", ".join(f"{number} ({own})" for number, own in enumerate(inputs)) or "none"
            raise UsageError(
                f"constant = {list(constants)}: {name} has no input {position}; the positions of "
                f"its inputs are {known}"
            )


def lift_constants(function: PrimFunc, constants: Sequence[int]) -> PreparedFunction:
    """Split an analysed function in two, for inputs that are constant.

    A nest at the top level is split off if it accesses only constant inputs, and temporaries of
    fixed size that only such nests write. A constant input that other nests read stays a parameter.

    `constants`: positions of the constant inputs among the inputs; without any the function stays
    whole.
    """
    if not constants:
        return PreparedFunction(function)
    places = [n for n, param in enumerate(function.params) if param not in function.outputs]
    constants = tuple(places[position] for position in constants)
    inputs = [function.params[position] for position in constants]
    temporaries, nests = top_level(function.body)
    prepared = _constant_nests(inputs, temporaries, nests)
    remaining = [nest for nest in nests if nest not in prepared]
    computed = {buffer for nest in prepared for buffer in all_written(nest)}
    read = {buffer for nest in remaining for buffer in all_accessed(nest)}
    handed_on = tuple(b for b in temporaries if b in computed and b in read)
    kept = tuple(position for position in constants if function.params[position] in read)
    own = tuple(p for number, p in enumerate(function.params) if number not in constants)
    body = function.body
    if prepared:
        body = allocated([b for b in temporaries if b not in computed], seq(*remaining))
    main = replace(
        function,
        params=(*own, *(function.params[position] for position in kept), *handed_on),
        body=body,
    )
    main = _own_hints(main)
    if not handed_on:
        return PreparedFunction(main, None, constants, kept)
    inside = [b for b in temporaries if b in computed and b not in handed_on]
    prepare = PrimFunc(
        f"{function.name}_prepare",
        (*inputs, *handed_on),
        frozenset(handed_on),
        allocated(inside, seq(*prepared)),
        info=replace(function.info, least_extents=()),
    )
    return PreparedFunction(main, _own_hints(prepare), constants, kept)


def _own_hints(function: PrimFunc) -> PrimFunc:
    """Return a function without facts and hints on buffers that it does not have."""
    info, names = function.info, {buffer.name for buffer in function.params}
    names |= {buffer.name for buffer in all_allocated(function.body)}

    def own(hints: Mapping[str, Any]) -> dict[str, Any]:
        return {name: hint for name, hint in hints.items() if name in names}

    info = replace(
        info,
        scan_states=own(info.scan_states),
        prefetches=own(info.prefetches),
        blocks_per_multiprocessor=own(info.blocks_per_multiprocessor),
        nontemporal=info.nontemporal & names,
        loaded_ahead=info.loaded_ahead & names,
        copied_ahead=info.copied_ahead & names,
    )
    return replace(function, info=info)


def _constant_nests(
    inputs: Sequence[Buffer], temporaries: Sequence[Buffer], nests: Sequence[Stmt]
) -> list[Stmt]:
    """Return the nests that compute temporaries from constant inputs alone."""
    constant = {*inputs, *filter(_can_be_parameter, temporaries)}
    while True:
        found = [nest for nest in nests if _depends_only_on(nest, constant)]
        varying = {b for nest in nests if nest not in found for b in all_written(nest)}
        if not varying & constant:
            return found
        constant -= varying


def _can_be_parameter(buffer: Buffer) -> bool:
    return buffer.scope == "global" and all(isinstance(extent, Const) for extent in buffer.shape)


def _depends_only_on(nest: Stmt, constant: set[Buffer]) -> bool:
    """Whether a nest accesses no other arrays, but for its own, and no sizes of other arrays."""
    exprs = (expr for stmt in walk(nest) for expr in stmt_exprs(stmt))
    return all_accessed(nest) <= constant.union(all_allocated(nest)) and not any(
        isinstance(var, SizeVar) for expr in exprs for var in free_vars(expr)
    )
