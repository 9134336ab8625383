"""Conditions as text: what they mean on columns, and that nothing else is run."""

import numpy as np
import pytest

from search_spaces import ChoiceKnob, Constraint, Expression, Space, SpaceError

X = np.array([0, 1, 2, 3, 4, 8])


@pytest.mark.parametrize(
    "text",
    [
        "x < 4",
        "1 <= x < 4",
        "1 < x <= 3 != 2",
        "x in [1, 2, 8]",
        "x not in (1, 2)",
        "x % 2 == 0 and not x == 4",
        "x == 0 or 8 % x == 0",
        "x != 0 and 8 % x == 0",
        "x * x + 2 * x - 1 > 7",
        "x // 3 == 1",
        "-x > -3",
        "x ** 2 == 16",
        "2 ** x > 7",
        "x",
        "not x",
        "min(x, 3) == 3",
        "max(x, 2, 3) == 3",
        "abs(x - 4) <= 1",
        "(x if x > 2 else 2) > 2",
        "True",
        "x > 1e0",
    ],
)
def test_an_expression_means_what_it_means_in_python(text):
    expected = [bool(eval(text, {"x": int(x)})) for x in X]
    found = np.broadcast_to(Expression(text)({"x": X}), X.shape)
    assert found.tolist() == expected


def test_operators_of_c_are_read():
    assert Expression("!(x == 1) && x < 4 || x != 3 && x == 8")({"x": X}).tolist() == [
        bool((x != 1 and x < 4) or (x != 3 and x == 8)) for x in X
    ]


def test_what_is_divided_by_0_does_not_hold_unless_it_is_decided_before():
    columns = {"x": X}
    assert Expression("8 % x == 0")(columns).tolist() == [False, True, True, False, True, True]
    assert Expression("8 % x != 0")(columns)[0].item() is False
    assert Expression("x == 0 or 8 / x > 1")(columns)[0].item() is True
    assert Expression("8 / x > 1 or x == 0")(columns)[0].item() is False  # as in Python


def test_products_beyond_64_bits_are_not_wrong():
    columns = {"x": np.array([2**40, 1]), "y": np.array([2**40, 1])}
    assert Expression("x * y > 100")(columns).tolist() == [True, False]
    assert Expression("x ** 3 > 100")(columns).tolist() == [True, False]


def test_texts_and_flags_are_compared_as_such():
    knobs = [ChoiceKnob("mode", ["fast", "safe"]), ChoiceKnob("flag", [False, True])]
    tables = {"mode": np.array(["fast", "safe"]), "flag": np.array([False, True])}
    text = "mode == 'fast' or flag and mode in ['safe', 'x']"
    space = Space(knobs, [Constraint("c", Expression(text, tables))])
    chosen = [space.config(int(i)).values for i in space.feasible_indices()]
    assert chosen == [
        {"mode": "fast", "flag": False},
        {"mode": "fast", "flag": True},
        {"mode": "safe", "flag": True},
    ]
    assert Expression("mode == 1", tables)({"mode": np.array([0])}).tolist() == [False]


def test_a_text_that_is_computed_with_is_one_line():
    knobs, tables = [ChoiceKnob("mode", ["fast", "safe"])], {"mode": np.array(["fast", "safe"])}
    for text in ("mode + 1 > 2", "mode < 3", "-mode == 1"):
        space = Space(knobs, [Constraint("c", Expression(text, tables))])
        with pytest.raises(SpaceError, match="constraint 'c' failed: TypeError: a text is"):
            space.feasible_indices()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no expression"),
        ("x +", "is no expression"),
        ("x = 1", "is no expression"),
        ("x; y", "is no expression"),
        ("(y := 1)", "NamedExpr is not allowed"),
        ("lambda: 1", "Lambda is not allowed"),
        ("x.real > 1", "Attribute is not allowed"),
        ("x[0] > 1", "Subscript is not allowed"),
        ("[y for y in x]", "ListComp is not allowed"),
        ("f'{x}' == '1'", "JoinedStr is not allowed"),
        ("__import__('os').system('true')", "only min, max, abs can be called"),
        ("open('x') == 1", "only min, max, abs can be called"),
        ("min() == 1", "only min, max, abs can be called"),
        ("max(x, key=x) == 1", "only min, max, abs can be called"),
        ("x << 1 == 2", "LShift is not allowed"),
        ("~x == 1", "Invert is not allowed"),
        ("x is 1", "Is is not allowed"),
        ("x in y", "in needs a list"),
        ("x == [1]", "in needs a list"),
        ("[1, 2]", "is a list and no condition"),
        ("x in [[1]]", "a list is only allowed after in"),
        ("None == x", "NoneType is not allowed"),
        ("b'x' == x", "bytes is not allowed"),
        ("1j == x", "complex is not allowed"),
        (f"x < {10**30}", "a number is not of 64 bits"),
        (f"x < {'9' * 5000}", "is no expression"),
        ("x" * 20_000, "at most 10000 are read"),
        ("-" * 5000 + "x", "is no expression|nested too deeply"),
        ("(" * 500 + "x" + ")" * 500, "is no expression"),
        ("x+" * 4000 + "x", "nested too deeply"),
        ("x\0", "is no expression"),
    ],
)
def test_anything_else_is_refused_in_one_line(text, message):
    with pytest.raises(SpaceError, match=message) as told:
        Expression(text)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 250


def test_it_names_what_it_reads_in_order():
    assert Expression("y + min(x, y) > max(z, 1)").names == ("y", "x", "z")
