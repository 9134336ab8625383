"""Builds the text of one LLVM function: nested scopes, names, blocks, remembered values.

A scope is a region whose values are visible until it ends: the parameters (depth 0), the body
(depth 1), each loop, branch and unrolled iteration. Pure index arithmetic is written into the
outermost scope that defines all its operands, so loop-invariant parts leave their loops here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager


class Code:
    """Text under construction and the label of its current block."""

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
    """A region: the code that its lines are written to, and its remembered values.

    `first` is the depth of the outermost scope that writes to the same code: a value defined now is
    visible until that scope ends.
    """

    __slots__ = ("code", "depth", "first", "keys")

    def __init__(self, code: Code, depth: int, first: int) -> None:
        self.code = code
        self.depth = depth
        self.first = first
        self.keys: list[Hashable] = []


class FunctionBuilder:
    """The text of one function under construction.

    `declarations`: declarations of the module by symbol, which `declare` adds to.
    """

    def __init__(self, declarations: dict[str, str]) -> None:
        self._declarations = declarations
        #: The open scopes, outermost first.
        self.scopes = [Scope(Code("entry"), 0, 0)]
        self._memo: dict[Hashable, object] = {}
        self._names = 0

    @property
    def depth(self) -> int:
        """Depth of the current scope."""
        return len(self.scopes) - 1

    @property
    def first(self) -> int:
        """Depth of the outermost scope that writes to the same code as the current one."""
        return self.scopes[-1].first

    @property
    def code(self) -> Code:
        """Code of the current scope."""
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
        self._names += 1
        name = f"%{prefix}.{self._names}"
        self.scopes[depth].code.lines.append(f"  {name} = {operation}")
        return name

    def define_once(self, key: Hashable, operation: str, prefix: str, depth: int) -> str:
        """Return the name of a value of the scope at `depth`, which is defined at the first call.

        `key`: what the operation computes.
        """
        found = self._memo.get(key)
        if not isinstance(found, str):
            found = self.define(operation, prefix, depth)
            self.remember(key, found, depth)
        return found

    def select(self, mask: str, lanes: int, kind: str, true: str, false: str) -> str:
        """Define the values of type `kind` that a mask of some lanes chooses."""
        flags = "i1" if lanes == 1 else f"<{lanes} x i1>"
        return self.define(f"select {flags} {mask}, {kind} {true}, {kind} {false}")

    def declare(self, name: str, text: str) -> None:
        """Add the declaration `text` of the symbol `name` to the module."""
        self._declarations[name] = text

    def recall(self, key: Hashable) -> object | None:
        """Return the value that was remembered under `key` in an open scope."""
        return self._memo.get(key)

    def remember(self, key: Hashable, value: object, depth: int = -1) -> None:
        """Remember a new `value` until the scope at `depth` ends."""
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

    def choose(
        self, condition: str, kind: str, true: Callable[[], str], false: Callable[[], str]
    ) -> str:
        """Evaluate one of two values of type `kind` behind a branch."""
        if condition in ("true", "false"):
            return true() if condition == "true" else false()
        labels = [self.fresh(name) for name in ("then", "else", "join")]
        code = self.code
        branches, incoming = [], []
        for label, evaluate in zip(labels[:2], (true, false), strict=True):
            with self.region(label) as branch:
                ref = evaluate()
                self.line(f"br label %{labels[2]}")
            branches.append(branch)
            incoming.append(f"[{ref}, %{branch.label}]")
        self.line(f"br i1 {condition}, label %{labels[0]}, label %{labels[1]}")
        for branch in branches:
            code.append(branch)
        code.begin(labels[2])
        return self.define(f"phi {kind} {', '.join(incoming)}")
