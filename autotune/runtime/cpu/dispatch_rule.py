"""Compiles a rule that picks a kernel by sizes: a function that calls one of several others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.codegen.llvm import LLVMSource
from autotune.codegen.llvm.llvm_types import symbol
from autotune.runtime.signature import Signature


@dataclass(frozen=True)
class Pick:
    """The end of a rule: the number of a kernel."""

    kernel: int


@dataclass(frozen=True)
class SizeTest:
    """A test of a rule: whether the product of some sizes is at most a limit."""

    sizes: tuple[str, ...]
    limit: int
    at_most: Rule
    above: Rule


Rule = Pick | SizeTest


def pick(rule: Rule, sizes: Mapping[str, int]) -> int:
    """Return the kernel for some sizes."""
    while isinstance(rule, SizeTest):
        product = math.prod(float(sizes[name]) for name in rule.sizes)  # as the compiled rule does
        rule = rule.at_most if product <= rule.limit else rule.above
    return rule.kernel


def kernels_of(rule: Rule) -> Iterator[int]:
    """Return the kernels at the ends of a rule, from the first to the last."""
    if isinstance(rule, Pick):
        yield rule.kernel
    else:
        yield from kernels_of(rule.at_most)
        yield from kernels_of(rule.above)


def choice_source(
    signature: Signature, rule: Rule, entries: Sequence[str], own: Sequence[Signature]
) -> LLVMSource:
    """Return LLVM assembly of a function that calls the kernel which a rule picks.

    Another one, `bound_entry`, takes a pointer to the same arguments, 8 bytes each.

    Parameters
    ----------
    signature : Signature
        What it takes.
    rule : Rule
        Its tests name sizes of `signature`.
    entries, own : sequence of str, of Signature
        The kernels: their symbols, and what they take: the same arrays, and some of the sizes.
    """
    entry = f"kernel_{symbol(signature.name)}"
    arrays = [f"ptr %array{n}" for n in range(len(signature.parameters))]
    numbers = {name: f"%size{n}" for n, name in enumerate(signature.sizes)}
    lines = [f"define i32 @{entry}("]
    lines[0] += ", ".join([*arrays, *(f"i64 {at}" for at in numbers.values()), "i32 %threads"])
    lines[0] += ") nounwind {"
    lines += (f"  %float{n} = sitofp i64 %size{n} to double" for n in range(len(numbers)))
    labels = 0

    def write(part: Rule) -> None:
        nonlocal labels
        labels += 1
        number = labels
        if isinstance(part, Pick):
            sizes = [f"i64 {numbers[name]}" for name in own[part.kernel].sizes]
            passed = ", ".join([*arrays, *sizes, "i32 %threads"])
            lines.append(f"  %status{number} = call i32 @{entries[part.kernel]}({passed})")
            lines.append(f"  ret i32 %status{number}")
            return
        places = [f"%float{signature.sizes.index(name)}" for name in part.sizes]
        product = places[0]
        for step, place in enumerate(places[1:]):
            lines.append(f"  %product{number}.{step} = fmul double {product}, {place}")
            product = f"%product{number}.{step}"
        lines.append(f"  %test{number} = fcmp ole double {product}, {float(part.limit)!r}")
        lines.append(f"  br i1 %test{number}, label %atmost{number}, label %above{number}")
        lines.append(f"atmost{number}:")
        write(part.at_most)
        lines.append(f"above{number}:")
        write(part.above)

    write(rule)
    lines.append("}")
    used = sorted(set(kernels_of(rule)))
    declared = []
    for kernel in used:
        types = ["ptr"] * len(arrays) + ["i64"] * len(own[kernel].sizes) + ["i32"]
        declared.append(f"declare i32 @{entries[kernel]}({', '.join(types)})")
    kinds = ["ptr"] * len(arrays) + ["i64"] * len(numbers) + ["i32"]
    text = [*declared, "", *lines, *_of_pointer(entry, kinds), ""]
    return LLVMSource("\n".join(text), entry, False)


def bound_entry(entry: str) -> str:
    """Return the symbol of the function that takes a pointer to the arguments of another."""
    return f"{entry}_bound"


def _of_pointer(entry: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the function that takes a pointer to arguments of some types."""
    yield f"define i32 @{bound_entry(entry)}(ptr %arguments) nounwind {{"
    for number, kind in enumerate(kinds):
        yield f"  %at{number} = getelementptr i64, ptr %arguments, i64 {number}"
        yield f"  %argument{number} = load {kind}, ptr %at{number}, align 8"
    passed = ", ".join(f"{kind} %argument{number}" for number, kind in enumerate(kinds))
    yield f"  %status = tail call i32 @{entry}({passed})"
    yield "  ret i32 %status"
    yield "}"
