"""Names in C sources: short names made from those of axes and tensors, unique in their scope."""

from __future__ import annotations

import re

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t class compl const constexpr const_cast continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq EOF NAN NULL
"""
_SIDES = ("outer", "inner")


def readable(name: str) -> str:
    """Return a C identifier for the name of an axis or a tensor.

    Splits end in `o` or `i` for outer and inner, fused axes are joined: ``x.y.fused.outer.inner``
    is ``x_y_oi``, ``A.shared`` is ``A_shared``.
    """
    words = _words(name)
    sides = ""
    while len(words) > 1 and words[-1] in _SIDES:
        side = words.pop()[0]
        sides = sides if sides.startswith(side) else side + sides
    return _identifier([*words, sides] if sides else words)


def whole(name: str) -> str:
    """Return a C identifier for the original axis of a split axis."""
    words = _words(name)
    while len(words) > 1 and words[-1] in _SIDES:
        words.pop()
    return _identifier(words)


def _words(name: str) -> list[str]:
    """Return the significant parts of a name; the fused axes of a copy are `ax`."""
    words = [word for word in name.split(".") if word not in ("fused", "init", "")]
    copied = [word for word in words if re.fullmatch(r"ax\d+", word)]
    return ["ax", *words[len(copied) :]] if len(copied) > 1 else words


def _identifier(words: list[str]) -> str:
    plain = re.sub(r"\W", "_", "_".join(words), flags=re.ASCII)
    return plain if plain and not plain[0].isdigit() else f"_{plain}"


class CNameSupply:
    """Names in scope, by nested blocks.

    `reserved`: names that are never used, in addition to C++'s keywords.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._blocks: list[set[str]] = [{*_KEYWORDS.split(), *reserved}]

    def open(self) -> None:
        """Begin a block, whose names are free again after it."""
        self._blocks.append(set())

    def close(self) -> None:
        """End a block."""
        self._blocks.pop()

    def fresh(self, name: str) -> str:
        """Return a name for something of this name in the innermost block."""
        wanted = readable(name)
        unused, count = wanted, 0
        while any(unused in block for block in self._blocks):
            count += 1
            unused = f"{wanted}_{count}"
        self._blocks[-1].add(unused)
        return unused
