"""Options with several words (`--tuner model random` is `--tuner model --tuner random`) or none.

An option of one value is given once: which of two was meant cannot be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from typer.core import TyperCommand

from autotune.errors import UsageError

LISTS = frozenset(["--tuner", "--transfer", "--log", "--layout", "--template"])
"""Options of which every word counts, up to the next option."""

FLAGS = ("--json", "--json-lines", "--quiet", "-q", "--help", "--with-programs")
"""Options without a word of their own."""


def expand_lists(args: list[str], arguments: int = 1, lists: Collection[str] = LISTS) -> list[str]:
    """Return the words with an option of several values repeated before each of them.

    As long as fewer words than the command's arguments have come, an option takes one word only,
    so that `--tuner model FILE` leaves the file to the command.

    >>> expand_lists(["a.json", "--tuner", "model", "random", "--seed", "1"])
    ['a.json', '--tuner', 'model', '--tuner', 'random', '--seed', '1']
    """
    expanded: list[str] = []
    plain, current, taken = 0, "", 0
    for word in args:
        if word.startswith("-") and word != "-":
            current, taken = "" if word in FLAGS else word, 0
        elif current and taken and current in lists and plain >= arguments:
            expanded.append(current)
        elif current and not taken and "=" not in current:
            taken = 1
        else:
            plain += 1
        expanded.append(word)
    return expanded


class Command(TyperCommand):
    """A command that refuses an option of one value which is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look for options that are given twice, then parse as usual."""
        if not ctx.resilient_parsing:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for option, count in Counter(order).items():
                single = option.param_type_name == "option" and not option.multiple
                if single and count > 1 and not getattr(option, "is_flag", False):
                    name = max(option.opts, key=len)
                    raise UsageError(
                        f"{name} is given {'twice' if count == 2 else f'{count} times'}, and takes "
                        f"one value: leave out the others (see `{ctx.command_path} --help`)"
                    )
        return super().parse_args(ctx, args)


class ListOptions(Command):
    """A command whose list options take several words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat list options, then parse as usual."""
        several = {name for p in self.params if getattr(p, "multiple", False) for name in p.opts}
        arguments = sum(p.param_type_name == "argument" for p in self.params)
        lists = several.intersection(LISTS)
        return super().parse_args(ctx, expand_lists(args, arguments, lists))


def close_optional(args: Sequence[str], option: str, is_value: Callable[[str], bool]) -> list[str]:
    """Return the words with ``option=`` where no value of the option follows.

    >>> close_optional(["--heatmap", "t"], "--heatmap", lambda word: "," in word)
    ['--heatmap=', 't']
    """
    closed = []
    for number, word in enumerate(args):
        alone = word == option and not any(map(is_value, args[number + 1 : number + 2]))
        closed.append(f"{option}=" if alone else word)
    return closed


class OptionalHeatmap(Command):
    """A command whose `--heatmap` may stand without the names of two knobs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Close the option, then parse as usual."""
        return super().parse_args(ctx, close_optional(args, "--heatmap", lambda word: "," in word))
