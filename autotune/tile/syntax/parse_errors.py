"""Explains syntax errors of Tile code, and suggests a correction."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from autotune.errors import TileError
from autotune.tile.syntax.elementwise_functions import KNOWN
from autotune.tile.syntax.error_locations import tile_error_in


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """An unexpected token, and its context."""

    #: The token: its name in the grammar, its text and its offset.
    kind: str
    text: str
    at: int
    #: Kinds of expected tokens.
    expected: frozenset[str]
    #: Text of the token before it ("" if there is none), and the offset of its end.
    before: str = ""
    before_end: int = 0
    #: Text of the token after it ("" if there is none).
    after: str = ""


_AGGREGATES: Final = {"sum": "+", "prod": "*", "max": ">", "min": "<"}
_AGGREGATIONS: Final = {"PLUS", "STAR", "GREATER", "LESS", "EQUAL"}
_ARITHMETIC: Final = ("PLUS", "MINUS", "STAR", "SLASH")
_COMPARISONS: Final = ("SAME", "OTHER", "LESS", "ATMOST", "GREATER", "ATLEAST")
#: Tokens that may follow a contraction.
_BEHIND: Final = {"COMMA", "SEMICOLON", "NO_DEFRACT", "DEFAULT"}
_ELSEWHERE: Final = "do the rest element-wise in another statement"


def advice(stop: ParseFailure) -> str:
    """Return a correction, or "" if none is known."""
    return next(filter(None, (advise(stop) for advise in _ADVICE)), "")


def _header(stop: ParseFailure) -> str:
    if stop.expected == {"FUNCTION"}:
        return "a Tile function begins with its header, as in function (A[M, N]) -> (O) {"
    if stop.before == "function" and stop.kind == "NAME":
        return "a Tile function has no name: write function ("
    if stop.kind == "LSQB" and stop.expected == {"RPAR", "COMMA"}:
        return "outputs have no sizes in the header: they follow from the statements"
    return ""


def _other_compilers(stop: ParseFailure) -> str:
    if stop.kind == "LSQB" and "RBRACE" in stop.expected and stop.after == "[":
        return "attributes in [[ ]] do not change what is computed: leave them out"
    if stop.before == "default" and stop.expected == {"NAME"}:
        return "default is followed by the name of a tensor, as in default P"
    return ""


def _other_languages(stop: ParseFailure) -> str:
    if stop.kind == "SLASH" and "/" in (stop.before, stop.after):
        return "comments begin with #; division of dimensions by / rounds down already"
    if stop.kind == "SLASH" and stop.after == "*":
        return "comments begin with #"
    if stop.kind == "STAR" and stop.before == "*":
        return "powers are written pow(x, y)"
    if "if" in (stop.before, stop.text) or (stop.kind == "SEMICOLON" and "COLON" in stop.expected):
        return "a choice has two sides: C ? T : E"
    return ""


def _aggregation(stop: ParseFailure) -> str:
    if stop.expected == {"EQUAL"} and stop.after == "=" and stop.text in _AGGREGATES.values():
        return f"the aggregation stands behind the equals sign: = {stop.text}(...)"
    if stop.before == "=" and stop.kind in _AGGREGATIONS and "NUMBER" in stop.expected:
        return "a contraction writes to indices, as in O[i: N] = +(A[i, j]); a scalar is O[]"
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


def _sizes(stop: ParseFailure) -> str:
    if stop.kind == "COLON" and stop.expected >= {"COMMA", "RSQB"}:
        return "first all indices, then all sizes: O[i, j: M, N]"
    if stop.kind == "SEMICOLON" and "RSQB" in stop.expected and "COLON" in stop.expected:
        return "sizes stand behind a colon: O[i: N]"
    return ""


def _element_wise_indices(stop: ParseFailure) -> str:
    if stop.kind != "LSQB" or "SEMICOLON" not in stop.expected:
        return ""
    return (
        "element-wise statements read whole tensors, without indices; "
        "indices belong in contractions, as in O[i: N] = +(A[i]);"
    )


def _inside_contraction(stop: ParseFailure) -> str:
    if stop.expected == {"RPAR", "PLUS", "STAR", "SAME"}:
        if stop.kind in ("QUESTION", *_ARITHMETIC, *_COMPARISONS):
            return (
                "a contraction combines two tensors by * or +, or three by "
                "A[..] == B[..] ? C[..]; do anything else element-wise in a statement before"
            )
        return ""
    if stop.kind == "COLON" and stop.expected == {"RPAR"}:
        return "a condition in a contraction has one side; where it does not hold there is a 0"
    if stop.expected == {"RPAR"} and stop.kind in ("STAR", "PLUS"):
        return "a contraction reads at most two tensors: multiply or add two of them before"
    if stop.expected == {"LSQB"} and stop.before not in KNOWN:
        return f"every tensor in a contraction has indices: {stop.before}[i], or {stop.before}[]"
    if stop.expected == {"LSQB"} or (
        stop.expected == {"NAME"} and stop.kind in ("NUMBER", "MINUS", "LPAR")
    ):
        return f"a contraction combines tensors only: {_ELSEWHERE}"
    return ""


def _behind_contraction(stop: ParseFailure) -> str:
    if stop.expected == _BEHIND and stop.kind in _ARITHMETIC:
        return f"a contraction is a whole statement: {_ELSEWHERE}"
    return ""


def _constraint(stop: ParseFailure) -> str:
    if "LESS" in stop.expected and stop.kind in _COMPARISONS:
        return (
            "a constraint is `form < bound` and means 0 <= form < bound: "
            "instead of i <= j write j - i < N, with an N that is never reached"
        )
    if stop.kind == "LESS" and "COMMA" in stop.expected and "SEMICOLON" in stop.expected:
        return "the lower bound of a constraint is always 0 and never written: j < 2"
    return ""


def _chained_comparison(stop: ParseFailure) -> str:
    if stop.kind in _COMPARISONS and "QUESTION" in stop.expected:
        return "comparisons do not chain: put one of them in parentheses"
    return ""


def _bits(stop: ParseFailure) -> str:
    if stop.kind in ("AMPERSAND", "BAR") and stop.before == stop.text:
        return f"conditions are joined by one sign: C {stop.text} D"
    if stop.kind in ("BAR", "CARET") and "AMPERSAND" in stop.expected:
        return "| and ^ do not stand beside each other: put one of them in parentheses"
    return ""


def _product_sign(stop: ParseFailure) -> str:
    if stop.kind not in ("NAME", "LPAR") or "STAR" not in stop.expected:
        return ""
    if stop.before in KNOWN:
        return f"arguments stand in parentheses: {stop.before}(...)"
    if stop.before == ")":
        return f"is a * missing before {stop.text}?"
    return f"write {stop.before} * {stop.text}" if stop.before[:1].isalnum() else ""


_Advice = Callable[[ParseFailure], str]
_ADVICE: Final[tuple[_Advice, ...]] = (
    _header,
    _other_compilers,
    _sizes,
    _other_languages,
    _aggregation,
    _element_wise_indices,
    _inside_contraction,
    _behind_contraction,
    _constraint,
    _chained_comparison,
    _bits,
    _product_sign,
)


_TOKEN: Final = re.compile(r"#[^\n]*|[A-Za-z]\w*|[0-9.]+|->|[=!<>]=|\S")
_SPELLED: Final = {
    "FUNCTION": "'function'", "ARROW": "'->'", "LSQB": "'['", "RSQB": "']'", "QUESTION": "'?'",
    "PLUS": "'+'", "MINUS": "'-'", "STAR": "'*'", "SLASH": "'/'", "EQUAL": "'='",
    "SAME": "'=='", "OTHER": "'!='", "LESS": "'<'", "ATMOST": "'<='", "GREATER": "'>'",
    "ATLEAST": "'>='", "NAME": "a name", "NUMBER": "a number", "LPAR": "'('", "RPAR": "')'",
    "AMPERSAND": "'&'", "BAR": "'|'", "CARET": "'^'", "TILDE": "'~'", "UP": "'<<'",
    "DOWN": "'>>'", "NO_DEFRACT": "'no_defract'", "DEFAULT": "'default'",
    "LBRACE": "'{'", "RBRACE": "'}'", "COMMA": "','", "COLON": "':'", "SEMICOLON": "';'",
    "$END": "the end of the text",
}  # fmt: skip
#: Replacements for characters that Tile does not have.
_INSTEAD: Final = {
    "%": "Tile has no remainder: x - y * floor(x / y) is one",
    "_": "names begin with a letter",
    "!": "write ~C for the opposite of a condition C",
    "'": "Tile has no strings",
    '"': "Tile has no strings",
    ".": "write 0.5 instead of .5",
    "\N{MINUS SIGN}": "write -",
    "\N{EN DASH}": "write -",
    "\N{MULTIPLICATION SIGN}": "write *",
    "\N{MIDDLE DOT}": "write *",
    "\N{RIGHTWARDS ARROW}": "write ->",
    "\N{NO-BREAK SPACE}": "write a plain space",
}


def unexpected(code: str, name: str, stop: ParseFailure) -> TileError:
    """Return the error for an unexpected token."""
    stop = _with_neighbours(code, stop)
    if "SEMICOLON" in stop.expected and _ends_a_statement(code, stop):
        return tile_error_in(
            code, name, stop.before_end, f"expected ';' after {stop.before[:30]!r}",
            "every statement ends in a semicolon",
        )  # fmt: skip
    if stop.kind == "$END":
        found = "the text ends too early"
    else:
        found = f"{stop.text[:30]!r} cannot stand here"
    return tile_error_in(
        code, name, stop.at, f"{found}; expected {_either(stop.expected)}", advice(stop)
    )


def _with_neighbours(code: str, stop: ParseFailure) -> ParseFailure:
    before = [m for m in _TOKEN.finditer(code, 0, stop.at) if not m[0].startswith("#")]
    if before:
        stop = replace(stop, before=before[-1][0], before_end=before[-1].end())
    after = _TOKEN.search(code, stop.at + len(stop.text))
    return replace(stop, after=after[0]) if after else stop


def _ends_a_statement(code: str, stop: ParseFailure) -> bool:
    """Whether a token can only follow a complete statement."""
    if stop.kind != "NAME":
        return stop.kind in ("RBRACE", "$END")
    return "\n" in code[stop.before_end : stop.at] or stop.after in ("=", "[")


def _either(expected: Collection[str]) -> str:
    words = sorted(_SPELLED.get(kind, kind) for kind in expected)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def unknown_character(code: str, name: str, at: int) -> TileError:
    """Return the error for a character that Tile does not have."""
    character = code[at]
    wanted = _INSTEAD.get(character, "")
    if character == "." and not code[at + 1 : at + 2].isdigit():
        wanted = "Tile has no attributes: sizes are dimensions in the header"
    return tile_error_in(code, name, at, f"{character!r} is not a character of Tile", wanted)
