"""Reads the listings that AutoTVM v0.8 printed of the loops it took features from."""

from __future__ import annotations

import re
from typing import Any

from autotune.ir import dtypes
from support.itervar_rules import Apply, Load, Loop, Name, Number, Store, tag_kind

_TOKEN = re.compile(r"(\d+\.?\d*(?:e[+-]?\d+)?f?)|([A-Za-z_][\w.]*)|(&&|\|\||[<>=!]=|\S)")
_LOOP = re.compile(r"(for|parallel|vectorized|unrolled) \(([\w.]+), 0, (\d+)\) \{")
_ATTR = re.compile(
    r"// attr \[iter_var\((\S+), .*, (\S+)\)\] (thread_extent|virtual_thread) = (\d+)"
)
_ALLOCATE = re.compile(r"allocate (\S+)\[(\w+)")
_WORDS = {
    "for": "SERIAL",
    "unrolled": "UNROLL",
    "vectorized": "VECTORIZE",
    "parallel": "PARALLEL",
}


class Listing:
    """Reads a listing of AutoTVM v0.8.

    Parameters
    ----------
    text : str
        Where a thread axis that is open is opened again after a statement, that scope has ended.
    types : dict of str to str
        Element types of the parameters.
    """

    def __init__(self, text: str, types: dict[str, str]) -> None:
        self.lines = [line.strip().replace("tir.", "") for line in text.splitlines()]
        self.types = dict(types)
        self.names: list[Loop] = []
        self.ambiguous = False

    def program(self) -> list[Any]:
        return self.block()

    def block(self) -> list[Any]:
        """Read statements up to the end of a block."""
        body: list[Any] = []
        inner = body
        opened: list[tuple[str, list[Any]]] = []
        after_statement = False
        while self.lines:
            line = self.lines.pop(0)
            if line == "}":
                break
            if allocate := _ALLOCATE.match(line):
                self.types[allocate[1]] = allocate[2]
            elif attr := _ATTR.match(line):
                name, tag, what, extent = attr.groups()
                kind = "VTHREAD" if what == "virtual_thread" else tag_kind(tag)
                if after_statement:
                    while any(other == name for other, _ in opened):
                        _, inner = opened.pop()
                        self.names.pop()
                opened.append((name, inner))
                inner = self.opened(inner, name, kind, int(extent)).body
                after_statement = False
            elif loop := _LOOP.match(line):
                new = self.opened(inner, loop[2], _WORDS[loop[1]], int(loop[3]))
                new.body += self.block()
                self.names.pop()
                after_statement = True
            elif line.startswith("if ("):
                inner += self.block()
                after_statement = True
            elif line:
                inner.append(self.store(line))
                after_statement = True
        del self.names[len(self.names) - len(opened) :]
        return body

    def opened(self, body: list[Any], name: str, kind: str, length: int) -> Loop:
        self.ambiguous |= any(loop.name == name for loop in self.names)
        loop = Loop(object(), name, kind, length)
        body.append(loop)
        self.names.append(loop)
        return loop

    def store(self, line: str) -> Store:
        self.tokens = _TOKEN.findall(line)
        target = self.expr()
        assert self.take() == "=", line
        value = self.expr()
        assert not self.tokens, line
        return Store(target.buffer, target.index, value)

    def take(self) -> str:
        return "".join(self.tokens.pop(0))

    def peek(self) -> str:
        return "".join(self.tokens[0]) if self.tokens else ""

    def expr(self) -> Any:
        number, name, _ = self.tokens[0]
        word = self.take()
        if number:
            return Number(float(word.rstrip("f")))
        if word == "(":
            left = self.expr()
            what = self.take()
            right = self.expr()
            assert self.take() == ")"
            return Apply(what, (left, right), self.floats(left) or self.floats(right))
        assert name, word
        if self.peek() == "[":
            self.take()
            index = self.expr()
            assert self.take() == "]"
            return Load(word, index)
        if self.peek() == "(":
            self.take()
            operands = [self.expr()]
            while self.take() == ",":
                operands.append(self.expr())
            floats = word == "float32" or any(map(self.floats, operands))
            return Apply(word, tuple(operands), floats)
        return Name(next(loop.key for loop in reversed(self.names) if loop.name == word))

    def floats(self, node: Any) -> bool:
        """Whether an operand is a float; numbers stand beside something else."""
        if isinstance(node, Load):
            return dtypes.is_float(self.types[node.buffer])
        return isinstance(node, Apply) and node.floats
