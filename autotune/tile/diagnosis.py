"""Says what is wrong with a text that is no Tile function, and what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from autotune.errors import TileError
from autotune.tile.mistakes import mistake_in


@dataclass(frozen=True, slots=True)
class Stop:
    """Where reading stopped: a token that cannot stand there.

    Attributes
    ----------
    kind, text, at
        The token: its name in the grammar, its text and its offset.
    expected
        Kinds of tokens that could have stood there.
    before, before_end
        The text of the token before it ("" if there is none), and the offset behind it.
    after
        The text of the token behind it ("" if there is none).
    """

    kind: str
    text: str
    at: int
    expected: frozenset[str]
    before: str = ""
    before_end: int = 0
    after: str = ""


_TOKEN: Final = re.compile(r"#[^\n]*|[A-Za-z]\w*|[0-9.]+|->|[=!<>]=|\S")
_SPELLED: Final = {
    "FUNCTION": "'function'", "ARROW": "'->'", "LSQB": "'['", "RSQB": "']'", "QUESTION": "'?'",
    "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "EQUAL": "'='",
    "SAME": "'=='", "OTHER": "'!='", "LESS": "'<'", "ATMOST": "'<='", "GREATER": "'>'",
    "ATLEAST": "'>='", "NAME": "a name", "NUMBER": "a number", "LPAR": "'('", "RPAR": "')'",
    "LBRACE": "'{'", "RBRACE": "'}'", "COMMA": "','", "COLON": "':'", "SEMICOLON": "';'",
    "$END": "the end of the text",
}  # fmt: skip
_AGGREGATES: Final = {"sum": "+", "prod": "*", "max": ">", "min": "<"}
_AGGREGATIONS: Final = {"PLUS", "STAR", "GREATER", "LESS", "EQUAL"}


def unexpected(code: str, name: str, stop: Stop) -> TileError:
    """Return the error for a token that cannot stand where it does."""
    stop = _with_neighbours(code, stop)
    if "SEMICOLON" in stop.expected and _ends_a_statement(code, stop):
        return mistake_in(
            code, name, stop.before_end, f"expected ';' after {stop.before[:30]!r}",
            "every statement ends in a semicolon",
        )  # fmt: skip
    advice = next(filter(None, (advise(stop) for advise in _ADVICE)), "")
    if stop.kind == "$END":
        found = "the text ends too early"
    else:
        found = f"{stop.text[:30]!r} cannot stand here"
    return mistake_in(code, name, stop.at, f"{found}; expected {_either(stop.expected)}", advice)


def _with_neighbours(code: str, stop: Stop) -> Stop:
    before = [m for m in _TOKEN.finditer(code, 0, stop.at) if not m[0].startswith("#")]
    if before:
        stop = replace(stop, before=before[-1][0], before_end=before[-1].end())
    after = _TOKEN.search(code, stop.at + len(stop.text))
    return replace(stop, after=after[0]) if after else stop


def _ends_a_statement(code: str, stop: Stop) -> bool:
    """Whether a token begins what can only stand behind a whole statement."""
    if stop.kind != "NAME":
        return stop.kind in ("RBRACE", "$END")
    return "\n" in code[stop.before_end : stop.at] or stop.after in ("=", "[")


def _either(expected: Collection[str]) -> str:
    words = sorted(_SPELLED.get(kind, kind) for kind in expected)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


_Advice = Callable[[Stop], str]


def _header(stop: Stop) -> str:
    if stop.expected == {"FUNCTION"}:
        return "a Tile function begins with its header, as in function (A[M, N]) -> (O) {"
    if stop.before == "function" and stop.kind == "NAME":
        return "a Tile function has no name: write function ("
    if stop.kind == "LSQB" and stop.expected == {"RPAR", "COMMA"}:
        return "outputs have no sizes in the header: they follow from the statements"
    return ""


def _aggregation_before_equals(stop: Stop) -> str:
    if stop.expected == {"EQUAL"} and stop.after == "=" and stop.text in _AGGREGATES.values():
        return f"the aggregation stands behind the equals sign: = {stop.text}(...)"
    return ""


def _aggregation_missing(stop: Stop) -> str:
    if stop.expected != _AGGREGATIONS:
        return ""
    own = _AGGREGATES.get(stop.text)
    if own:
        return f"write {own}( instead of {stop.text}("
    return (
        "a statement with indices on its left aggregates: "
        "write +(...) to sum, >(...) or <(...) for the largest or smallest, "
        "*(...) for the product, =(...) to assign"
    )


def _element_wise_indices(stop: Stop) -> str:
    if stop.kind != "LSQB" or "SEMICOLON" not in stop.expected:
        return ""
    return (
        "element-wise statements read whole tensors, without indices; "
        "indices belong in contractions, as in O[i: N] = +(A[i]);"
    )


def _comparison_in_constraint(stop: Stop) -> str:
    if "LESS" in stop.expected and stop.kind in ("ATMOST", "GREATER", "ATLEAST", "SAME", "OTHER"):
        return (
            "a constraint is `form < bound` and means 0 <= form < bound: "
            "instead of i <= j write j - i < N, with an N that is never reached"
        )
    if stop.kind == "LESS" and "COMMA" in stop.expected and "SEMICOLON" in stop.expected:
        return "the lower bound of a constraint is always 0 and never written: j < 2"
    return ""


def _inside_contraction(stop: Stop) -> str:
    whole = {"RPAR", "PLUS", "STAR", "SAME"}
    if stop.expected == whole and stop.kind in ("MINUS", "SLASH", "OTHER", "LESS", "GREATER"):
        return (
            "a contraction combines two tensors by * or +, or three by A[..] == B[..] ? C[..]; "
            "do anything else element-wise in a statement before"
        )
    if stop.expected == {"RPAR"} and stop.kind in ("STAR", "PLUS"):
        return "a contraction reads at most two tensors: multiply or add two of them before"
    if stop.expected == {"LSQB"}:
        return f"every tensor in a contraction has indices: {stop.before}[i], or {stop.before}[]"
    if stop.expected == {"NAME"} and stop.kind in ("NUMBER", "MINUS", "LPAR"):
        return "a contraction combines tensors only: do the rest element-wise in another statement"
    return ""


def _product_sign_missing(stop: Stop) -> str:
    factor = stop.before[:1].isalnum() or stop.before == ")"
    if factor and stop.kind in ("NAME", "LPAR") and "STAR" in stop.expected:
        return f"write {stop.before} * {stop.text}"
    return ""


def _chained_comparison(stop: Stop) -> str:
    compares = ("SAME", "OTHER", "LESS", "ATMOST", "GREATER", "ATLEAST")
    if stop.kind in compares and "QUESTION" in stop.expected:
        return "comparisons do not chain: put one of them in parentheses"
    return ""


def _floor_division(stop: Stop) -> str:
    if stop.kind == "SLASH" and stop.before == "/":
        return "comments begin with #; division of dimensions by / rounds down already"
    if stop.kind == "STAR" and stop.before == "*":
        return "powers are written pow(x, y)"
    return ""


_ADVICE: Final[tuple[_Advice, ...]] = (
    _header,
    _aggregation_before_equals,
    _aggregation_missing,
    _floor_division,
    _element_wise_indices,
    _inside_contraction,
    _comparison_in_constraint,
    _chained_comparison,
    _product_sign_missing,
)


def stray(code: str, name: str, at: int) -> TileError:
    """Return the error for a character that Tile does not have."""
    advice = {
        "^": "powers are written pow(x, y)",
        "%": "Tile has no remainder: x - y * floor(x / y) is one",
        "_": "names begin with a letter",
        "&": "Tile has no logical operators: multiply conditions",
        "|": "Tile has no logical operators: add conditions and compare with 0",
        "!": "write x == 0 for the opposite of a condition",
        "'": "Tile has no strings",
        '"': "Tile has no strings",
        ".": "write 0.5 instead of .5",
        "\N{MINUS SIGN}": "write -",
        "\N{EN DASH}": "write -",
        "\N{MULTIPLICATION SIGN}": "write *",
        "\N{MIDDLE DOT}": "write *",
        "\N{RIGHTWARDS ARROW}": "write ->",
        "\N{NO-BREAK SPACE}": "write a plain space",
    }.get(code[at], "")
    return mistake_in(code, name, at, f"{code[at]!r} is no character of Tile", advice)
