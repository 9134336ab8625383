"""The text of a function that stands in no file, with what it uses."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import UsageError
from autotune.ir.dtypes import is_float
from autotune.operators.function_source import self_contained
from autotune.template import Template, template, template_of

LIMIT = np.float32(2.5)
TABLE = {"a": (1, 2.5), "b": [None, True], "c": {-math.inf}}
UNKNOWN = OrderedDict(a=1)


TUNED = autotune.autotuned(log="tuned.jsonl")


def ran(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "elsewhere"}
    exec(compile(text, "text", "exec"), names)
    return names


def made(text: str, name: str) -> Template:
    found = ran(text)[name]
    return found if isinstance(found, Template) else template_of(found)


def test_it_has_modules_functions_and_numbers() -> None:
    offset = 4

    def helper(x: Any) -> Any:
        return te.max(x, LIMIT) + TABLE["a"][1] + math.pi + offset

    def function(n: int, dtype: str = "float32") -> list[te.Tensor]:
        assert is_float(dtype)
        A = te.placeholder((n,), dtype, name="A")
        return [A, te.compute((n,), lambda i: helper(A[i]), name="B")]

    text = self_contained(template_of(function))
    assert "offset = 4" in text
    assert "LIMIT = 2.5" in text
    assert "import math as math" in text
    assert "from autotune.ir.dtypes import is_float as is_float" in text
    own, theirs = template_of(function), made(text, "function")
    assert str(theirs.function(5)[1].op.body) == str(own.function(5)[1].op.body)
    assert theirs.parameters == own.parameters


def test_a_decorator_that_tunes_is_left_out() -> None:
    unknown = OrderedDict(a=1)

    @autotune.autotuned(log=f"{unknown}.jsonl", key=["n"])
    @template("half", reference=lambda x: x / 2)
    def halved(n: int) -> list[te.Tensor]:
        A = te.placeholder((n,), "float32", name="A")
        return [A, te.compute((n,), lambda i: A[i] / 2, name="B")]

    @autotune.autotuned
    def plain(n: int) -> list[te.Tensor]:
        A = te.placeholder((n,), "float32", name="A")
        return [A, te.compute((n,), lambda i: A[i] / 2, name="B")]

    assert made(self_contained(template_of(halved)), "halved").reference is not None
    text = self_contained(template_of(plain))
    assert "autotuned" not in text
    assert made(text, "plain").name == "plain"

    @TUNED
    def stored(n: int) -> list[te.Tensor]:
        A = te.placeholder((n,), "float32", name="A")
        return [A, te.compute((n,), lambda i: A[i] / 3, name="B")]

    @(
        autotune.autotuned(log=f"{unknown}.jsonl")
    )
    @template("third", reference=lambda x: x / 3)
    def bracketed(n: int) -> list[te.Tensor]:
        A = te.placeholder((n,), "float32", name="A")
        return [A, te.compute((n,), lambda i: A[i] / 3, name="B")]

    for function in (stored, bracketed):
        text = self_contained(template_of(function))
        assert "tuned" not in text.lower()
        assert "@(" not in text
        assert made(text, function.__name__).function is not None


def test_a_function_that_tunes_itself_is_not_used_inside_of_another() -> None:
    @autotune.autotuned
    def inner(n: int) -> te.Tensor:
        return te.placeholder((n,), "float32", name="A")

    def outer(n: int) -> te.Tensor:
        return inner(n)

    with pytest.raises(UsageError, match="'inner' tunes itself when it is called, and cannot"):
        self_contained(template_of(outer))


def test_a_decorator_keeps_its_reference() -> None:
    @template("half", reference=lambda x: x / 2)
    def halved(n: int) -> list[te.Tensor]:
        A = te.placeholder((n,), "float32", name="A")
        return [A, te.compute((n,), lambda i: A[i] / 2, name="B")]

    theirs = made(self_contained(halved), "halved")
    assert theirs.name == "half"
    assert theirs.reference is not None
    assert theirs.reference(3) == 1.5


def test_functions_may_use_one_another() -> None:
    def odd(n: int) -> bool:
        return n != 0 and even(n - 1)

    def even(n: int) -> bool:
        return n == 0 or odd(n - 1)

    def function(n: int) -> Any:
        return even(n)

    assert ran(self_contained(template_of(function)))["function"](10) is True


def test_another_name_of_a_function_is_kept() -> None:
    def helper(x: int) -> int:
        return x + 1

    again = helper

    def function(n: int) -> Any:
        return again(helper(n))

    assert ran(self_contained(template_of(function)))["function"](1) == 3


def test_an_object_without_a_text_is_named() -> None:
    def function(n: int) -> Any:
        return UNKNOWN

    with pytest.raises(UsageError, match="'function' uses 'UNKNOWN', of the type OrderedDict"):
        self_contained(template_of(function))


def test_a_function_without_a_text_is_named() -> None:
    names: dict[str, Any] = {}
    exec("def typed(n: int):\n    return n", names)
    with pytest.raises(UsageError, match="the source of function 'typed' is not known"):
        self_contained(template_of(names["typed"]))


def test_a_reference_that_no_decorator_gives_is_asked_for() -> None:
    def function(n: int) -> Any:
        return n

    given = template("named", reference=abs)(function)
    with pytest.raises(UsageError, match=r"write @template\(...\) above its function"):
        self_contained(given)


def test_a_comment_at_the_margin_does_no_harm() -> None:
    def function(n: int) -> Any:
        """Return it.
  This is further left.
        """
# And so is this.
        return n + 1

    assert ran(self_contained(template_of(function)))["function"](1) == 2


def test_a_default_of_the_function_around_is_named() -> None:
    scale = 2

    def function(n: int, by: int = scale) -> Any:
        return n * by

    with pytest.raises(UsageError, match="uses 'scale' in a decorator or as a default"):
        self_contained(template_of(function))


def test_a_lambda_is_no_definition() -> None:
    def function(n: int) -> Any:
        return helper(n)

    helper = lambda n: n  # noqa: E731
    with pytest.raises(UsageError, match="function '<lambda>' is no definition"):
        self_contained(template_of(function))
