"""Files that a text in C or C++ includes.

In: a text and its folder. Out: the text with these files inserted, or digests of their contents.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from autotune.errors import UsageError

# What ends a line of a text, or may contain what looks like one, comes before directives.
_TOKEN = re.compile(
    r"""
      /\*.*?(?:\*/|\Z) | //(?:\\\n|[^\n])*                      # comments
    | R"([^()\\\s]{0,16})\(.*?\)\1"                              # raw strings
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'                  # strings
    | ^[ \t]*\#[ \t]*include[ \t]*"(?P<file>[^"\n]+)"
    | (?P<once>^[ \t]*\#[ \t]*pragma[ \t]+once\b)
    | ^[ \t]*\#[ \t]*(?P<branch>if|ifdef|ifndef|endif)\b
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|/\*.*?(?:\*/|\Z)|//[^\n]*', re.DOTALL)
_GUARDED = re.compile(r"\s*#[ \t]*ifndef[ \t]+(\w+)\s*\n\s*#[ \t]*define[ \t]+\1\b")
_BRANCHES = re.compile(r"^[ \t]*#[ \t]*(if|el|endif)[^\n]*", re.MULTILINE)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_OPTION = re.compile("(-I|-iquote|-isystem|-idirafter|-include|-imacros)(.*)", re.DOTALL)
_DEEPEST = 64  # Files that include each other.


def with_included(text: str, name: str, folder: str, what: str) -> str:
    """Return a text in which each ``#include "FILE"`` is replaced by the file's content.

    The result contains everything that is compiled, so that it can be cached, recorded and sent to
    workers. A file with ``#pragma once`` gets an include guard at each place, because only the
    compiler knows which of these places are compiled.

    `name`: name of the text in messages of the compiler.
    `folder`: where its files are; a file that is not there is left to the compiler.
    `what`: the kernel or option that the text is of, for error messages.

    Raises UsageError if a file cannot be read, or files include each other without an end.
    """
    return _Included(what).expanded(text, name, folder, surely=True)


class _Included:
    """The files that were included so far.

    `what`: whose text it is.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        # The files that are read just now, and whether they are no files when they are read again.
        self._open: list[tuple[str, bool]] = []
        # Those that say `#pragma once`, numbered, and whether one place certainly counts.
        self._once: dict[str, int] = {}
        self._certain: set[str] = set()

    def expanded(self, text: str, name: str, folder: str, surely: bool) -> str:
        """Return a text with its files.

        `surely`: whether the compiler reads it in any case.
        """
        depth = 0

        def replaced(match: re.Match[str]) -> str:
            nonlocal depth
            if match["branch"]:
                depth += -1 if match["branch"] == "endif" else 1
            if match["once"]:
                return ""
            if not match["file"]:
                return match[0]
            path = os.path.realpath(os.path.join(folder, match["file"]))
            if not os.path.isfile(path):
                return match[0]  # the compiler may know it
            line = text.count("\n", 0, match.end()) + 1
            inner = self._file(path, match["file"], surely and depth == 0)
            return f'{inner}#line {line} "{name}"\n' if inner else ""

        return _TOKEN.sub(replaced, text)

    def _file(self, path: str, name: str, surely: bool) -> str:
        """Return the text in place of a line that includes a file."""
        if (path, True) in self._open or path in self._certain:
            return ""
        if len(self._open) == _DEEPEST:
            raise UsageError(f"{self._what}: its files include each other without an end")
        text = read(path, self._what)
        once = any(match["once"] for match in _TOKEN.finditer(text))
        if once:
            number = self._once.setdefault(path, len(self._once))
            if surely:
                self._certain.add(path)
        self._open.append((path, once or _is_guarded(text)))
        inner = self.expanded(text, name, os.path.dirname(path), surely)
        self._open.pop()
        inner = f'#line 1 "{name}"\n{inner}\n'
        if not once:
            return inner
        macro = f"AUTOTUNE_ONCE_{number}"
        return f"#ifndef {macro}\n#define {macro}\n{inner}#endif\n"


def _is_guarded(text: str) -> bool:
    """Whether a text is empty when it is read again, as its first lines define a macro."""
    bare = _COMMENT.sub(lambda match: match[1] or " ", text)
    if not _GUARDED.match(bare):
        return False
    depth = 0
    for match in _BRANCHES.finditer(bare):
        depth += {"if": 1, "el": 0, "endif": -1}[match[1]]
        if depth == 0 or (depth == 1 and match[1] == "el"):
            return depth == 0 and not bare[match.end() :].strip()
    return False


def read(path: str, what: str) -> str:
    """Return the text of a file, for `what`; UsageError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(f"{what}: {path} cannot be read: {error}") from error


def headers_of_flags(text: str, flags: Sequence[str], folder: str) -> str:
    """Return the identity of the files that options such as ``-I`` let a text include.

    What these files include from there counts, too, whether or not it is compiled. It is empty if
    there are none.

    `folder`: where relative paths in the options begin.
    """
    folders, files = _named_by_flags(flags, folder)
    if not folders and not files:
        return ""
    found: dict[str, str] = {}  # The digest of each file, by its path.
    due = [(name, folder) for name in (*files, *_includes_of(text.encode()))]
    while due:
        name, beside = due.pop()
        places = [os.path.join(place, name) for place in (beside, *folders)]
        path = next(filter(os.path.isfile, places), None)
        if path is not None and path not in found:
            state = os.stat(path)
            found[path], names = _read_once(path, state.st_mtime_ns, state.st_size)
            due += [(other, os.path.dirname(path)) for other in names]
    if not found:
        return ""
    # By content alone: the folder may be another one on another machine.
    return hashlib.sha256(",".join(sorted(set(found.values()))).encode()).hexdigest()[:16]


def _named_by_flags(flags: Sequence[str], folder: str) -> tuple[list[str], list[str]]:
    """Return the folders that are searched for what is included, and files that are in any case."""
    folders, files = [], []
    words = iter(flags)
    for word in words:
        if option := _OPTION.fullmatch(word):
            value = option[2] or next(words, "")
            if option[1] in ("-include", "-imacros"):
                files.append(value)
            else:
                folders.append(os.path.join(folder, value))
    return folders, files


def _includes_of(text: bytes) -> list[str]:
    return [name.decode(errors="replace") for name in _INCLUDE.findall(text)]


@functools.lru_cache(maxsize=4096)
def _read_once(path: str, _modified_ns: int, _size: int) -> tuple[str, list[str]]:
    """Return the digest of a file, and the names of those that it includes."""
    try:
        text = Path(path).read_bytes()
    except OSError:  # the compiler will say so
        return "", []
    return hashlib.sha256(text).hexdigest()[:16], _includes_of(text)
