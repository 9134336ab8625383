"""Lines of one LLVM function: nested scopes, names, remembered values, hoisting by depth.

A scope is a region whose values are visible until it ends: the parameters (depth 0), the body
(depth 1), each loop, branch and unrolled iteration. Pure index arithmetic is written into the
outermost scope that defines all its operands, so loop-invariant parts leave their loops here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from autotune.codegen.llvm.linear_forms import Atom, Linear, of_atom


class Code:
    """Straight-line text under construction and the label of its current block."""

    __slots__ = ("label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []

    def begin(self, label: str) -> None:
        """Start the block `label`; the block before must have ended with a branch."""
        self.lines.append(f"{label}:")
        self.label = label

    def append(self, other: Code) -> None:
        """Continue with the lines of `other`, whose blocks are connected already."""
        self.lines.extend(other.lines)
        self.label = other.label


class Scope:
    """A region: where its lines go and what was computed in it.

    `first` is the depth of the outermost scope that writes into the same code: what is written
    there now is visible until that one ends.
    """

    __slots__ = ("code", "depth", "first", "keys")

    def __init__(self, code: Code, depth: int, first: int) -> None:
        self.code = code
        self.depth = depth
        self.first = first
        self.keys: list[Hashable] = []


class Writer:
    """The text of one function under construction."""

    def __init__(self) -> None:
        self.scopes = [Scope(Code("entry"), 0, 0)]
        self._memo: dict[Hashable, object] = {}
        self._names = 0

    @property
    def depth(self) -> int:
        """Depth of the current scope."""
        return len(self.scopes) - 1

    @property
    def first(self) -> int:
        """Depth of the outermost scope that ends no earlier than what is written now."""
        return self.scopes[-1].first

    @property
    def code(self) -> Code:
        """Where the current scope's lines go."""
        return self.scopes[-1].code

    def fresh(self, prefix: str = "v") -> str:
        """Return a name that the function does not use yet, without its leading %."""
        self._names += 1
        return f"{prefix}.{self._names}"

    def line(self, text: str, depth: int = -1) -> None:
        """Append an instruction to the scope at `depth` (default: the current one)."""
        self.scopes[depth].code.lines.append("  " + text)

    def define(self, operation: str, prefix: str = "v", depth: int = -1) -> str:
        """Append `%name = operation` and return the name."""
        name = "%" + self.fresh(prefix)
        self.line(f"{name} = {operation}", depth)
        return name

    def recall(self, key: Hashable) -> object | None:
        """Return what was remembered under `key` in a scope that is still open."""
        return self._memo.get(key)

    def remember(self, key: Hashable, value: object, depth: int = -1) -> None:
        """Remember `value`, which was not remembered yet, until the scope at `depth` ends."""
        self._memo[key] = value
        self.scopes[depth].keys.append(key)

    @contextmanager
    def region(self, label: str | None = None) -> Iterator[Code]:
        """Open a scope: in new code that starts at block `label`, or in the current code."""
        code, depth, first = self.code, len(self.scopes), self.scopes[-1].first
        if label is not None:
            code, first = Code(label), depth
            code.begin(label)
        self.scopes.append(Scope(code, depth, first))
        try:
            yield code
        finally:
            for key in self.scopes.pop().keys:
                self._memo.pop(key, None)

    def atom(self, ref: str, low: int | None, high: int | None, depth: int = -1) -> Linear:
        """Linear form of the 64-bit value `ref` defined in the scope at `depth`."""
        return of_atom(Atom(ref, low, high, self.scopes[depth].depth))

    def pure(
        self, operation: str, operands: tuple[Linear, ...], low: int | None, high: int | None
    ) -> Linear:
        """Form of a side-effect free 64-bit operation, written once, as far out as it can be.

        `operation` has {0}, {1}, ... where the materialised operands go.
        """
        key = (operation, *((form.key, form.const) for form in operands))
        found = self.recall(key)
        if isinstance(found, Linear):
            return found
        depth = max((atom.depth for form in operands for atom in form.terms), default=0)
        refs = [self.materialise(form) for form in operands]
        result = self.atom(self.define(operation.format(*refs), "x", depth), low, high, depth)
        self.remember(key, result, depth)
        return result

    def materialise(self, form: Linear) -> str:
        """Operand text of the i64 value of `form`; partial sums stand in their own scopes."""
        if form.is_const:
            return str(form.const)
        total = ""
        depth = 0
        done: dict[Atom, int] = {}
        for atom, coefficient in sorted(
            form.terms.items(), key=lambda item: (item[0].depth, item[0].id)
        ):
            depth = max(depth, atom.depth)
            done[atom] = coefficient
            term = self._scaled(atom, coefficient)
            total = self._sum(Linear(done, 0), total, term, depth) if total else term
        if form.const:
            total = self._sum(form, total, str(form.const), depth)
        return total

    def _scaled(self, atom: Atom, coefficient: int) -> str:
        if coefficient == 1:
            return atom.ref
        key = (atom.id, coefficient)
        found = self.recall(key)
        if not isinstance(found, str):
            found = self.define(f"mul nsw i64 {atom.ref}, {coefficient}", "i", atom.depth)
            self.remember(key, found, atom.depth)
        return found

    def _sum(self, form: Linear, a: str, b: str, depth: int) -> str:
        key = ("sum", form.key, form.const)
        found = self.recall(key)
        if not isinstance(found, str):
            found = self.define(f"add nsw i64 {a}, {b}", "i", depth)
            self.remember(key, found, depth)
        return found
