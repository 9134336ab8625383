"""Options with several words (`--tuner model random` is `--tuner model --tuner random`) or none.

An option of one value is given once: which of two was meant cannot be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from typer.core import TyperCommand

from autotune.errors import UsageError


def takes_words(option: Any) -> bool:
    """Return whether all words after an option count, up to the next option; its help says so."""
    return getattr(option, "multiple", False) and str(option.metavar).endswith(" ...")


def expand_lists(
    args: list[str],
    arguments: int,
    lists: Collection[str],
    flags: Collection[str],
    pairs: Collection[str] = (),
) -> list[str]:
    """Return the words with an option of several values repeated before each of them.

    As long as fewer words than the command's arguments have come, an option takes one word only,
    so that `--tuner model FILE` leaves the file to the command. Options of `pairs` also take all
    words with an equals sign that follow. Flags take no word.

    >>> expand_lists(["a.json", "--tuner", "model", "random", "--json"], 1, ["--tuner"], ["--json"])
    ['a.json', '--tuner', 'model', '--tuner', 'random', '--json']
    >>> expand_lists(["--set", "m=1", "n=2", "matmul"], 1, ["--set"], [], ["--set"])
    ['--set', 'm=1', '--set', 'n=2', 'matmul']
    """
    expanded: list[str] = []
    plain, current, taken = 0, "", 0
    for word in args:
        if word.startswith("-") and word != "-":
            current, taken = "" if word in flags else word, 0
        elif (
            current and taken and current in lists
            and (plain >= arguments or (current in pairs and "=" in word))
        ):  # fmt: skip
            expanded.append(current)
        elif current and not taken and "=" not in current:
            taken = 1
        else:
            plain += 1
        expanded.append(word)
    return expanded


class Command(TyperCommand):
    """A command whose list options take several words, and whose others are given once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat list options, look for others that are given twice, then parse as usual."""
        arguments = sum(p.param_type_name == "argument" for p in self.params)
        several = [p for p in self.params if takes_words(p)]
        lists = [name for p in several for name in p.opts]
        pairs = [name for p in several if "=" in str(p.metavar) for name in p.opts]
        flags = [
            name for p in self.get_params(ctx) if getattr(p, "is_flag", False) for name in p.opts
        ]
        args = expand_lists(args, arguments, lists, flags, pairs)
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
