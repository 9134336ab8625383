"""T1 files: parameters and conditions, what is read besides, and the form of what is written."""

import json

import numpy as np
import pytest
from support.foreign_logs import shared_file, t1

from records.formats import read_any
from search_spaces import (
    ChoiceKnob,
    Constraint,
    Expression,
    Space,
    SpaceError,
    SplitKnob,
    TuningProblem,
    read_t1,
    write_t1,
)
from search_spaces.t1 import document_of, parse_t1, parse_values

KERNEL = t1(0)["KernelSpecification"]


def parsed(document):
    return parse_t1(json.dumps(document).encode(), "file")


def changed(section, key, value):
    document = t1(0)
    document["ConfigurationSpace"][section][0][key] = value
    return document


def test_parameters_are_knobs_and_conditions_constraints():
    space = parsed(t1(0)).space
    assert [knob.name for knob in space.knobs] == ["x", "y", "mode", "flag", "ratio"]
    assert space.config(space.default_index).values == {
        "x": 2,
        "y": 1,
        "mode": "safe",
        "flag": False,
        "ratio": 0.5,
    }
    expected = {
        (x, y, mode, flag, ratio)
        for x in (1, 2, 4, 8)
        for y in (1, 2, 4, 8, 16)
        for mode in ("fast", "safe")
        for flag in (True, False)
        for ratio in (0.5, 1.0)
        if x * y <= 32 and (mode == "safe" or x % y == 0) and (not flag or ratio * x > 1)
    }
    configs = [space.config(int(i)).values for i in space.feasible_indices()]
    assert {tuple(values.values()) for values in configs} == expected
    assert len(configs) == len(expected)


def test_a_problem_goes_and_comes_and_is_equal(tmp_path):
    problem = parsed(t1(0))
    write_t1(problem, tmp_path / "t1.json")
    again = read_t1(tmp_path / "t1.json")
    assert again.space.fingerprint() == problem.space.fingerprint()
    assert again.space.default_index == problem.space.default_index
    assert (again.space.feasible_indices() == problem.space.feasible_indices()).all()
    assert (again.kernel, again.sections) == (problem.kernel, problem.sections)
    assert [path.name for path in tmp_path.iterdir()] == ["t1.json"]


TYPES = {"int": int, "uint": int, "float": float, "bool": bool, "string": str}


def test_what_is_written_is_what_the_schema_requires():
    document = document_of(parsed(t1(0)))
    assert document.keys() >= {"ConfigurationSpace", "KernelSpecification"}
    assert document["KernelSpecification"].keys() >= {
        "Language",
        "KernelName",
        "KernelFile",
        "GlobalSize",
        "LocalSize",
    }
    for parameter in document["ConfigurationSpace"]["TuningParameters"]:
        assert parameter.keys() == {"Name", "Type", "Values", "Default"}
        assert isinstance(parameter["Values"], str)
        values = parse_values(parameter["Values"])
        assert all(type(value) is TYPES[parameter["Type"]] for value in values)
        assert parameter["Default"] in values
    for condition in document["ConfigurationSpace"]["Conditions"]:
        assert isinstance(condition["Expression"], str)
        assert all(isinstance(name, str) for name in condition["Parameters"])


def test_a_space_of_ours_with_conditions_as_text_is_written():
    space = Space(
        [ChoiceKnob("nt", [32, 64]), ChoiceKnob("scale", [1, 0.5]), ChoiceKnob("on", [True])],
        [Constraint("threads", Expression("nt * scale <= 48"), "at most 48")],
    )
    document = document_of(TuningProblem(space, KERNEL))
    assert document["ConfigurationSpace"] == {
        "TuningParameters": [
            {"Name": "nt", "Type": "int", "Values": "[32, 64]", "Default": 32},
            {"Name": "scale", "Type": "float", "Values": "[1.0, 0.5]", "Default": 1.0},
            {"Name": "on", "Type": "bool", "Values": "[True]", "Default": True},
        ],
        "Conditions": [{"Expression": "nt * scale <= 48", "Parameters": ["nt", "scale"]}],
    }
    again = parsed(document).space
    assert (again.feasible_indices() == space.feasible_indices()).all()


@pytest.mark.parametrize(
    ("space", "kernel", "message"),
    [
        (Space([SplitKnob("tile", 8, 2)]), KERNEL, "cannot hold knob 'tile'"),
        (Space([ChoiceKnob("x", [1, "a"])]), KERNEL, "cannot hold knob 'x'"),
        (Space([ChoiceKnob("x", [1])]), {}, "the kernel of a T1 file needs Language, KernelName"),
        (
            Space([ChoiceKnob("x", [1])], [Constraint("small", lambda c: c["x"] < 2)]),
            KERNEL,
            "cannot hold the constraint 'small': it is code of Python",
        ),
    ],
)
def test_what_t1_cannot_hold_is_refused(space, kernel, message, tmp_path):
    with pytest.raises(SpaceError, match=message):
        write_t1(TuningProblem(space, kernel), tmp_path / "t1.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1, 2, 4]", [1, 2, 4]),
        (" (1, 2,) ", [1, 2]),
        ("[0x10, -3, 1e2, 2**5]", [16, -3, 100.0, 32]),
        ("['a', \"b\"]", ["a", "b"]),
        ("[True, false]", [True, False]),
        ("range(3)", [0, 1, 2]),
        ("list(range(2, 9, 3))", [2, 5, 8]),
        ("[1] + list(range(10, 12)) + [7]", [1, 10, 11, 7]),
        ("[2**i for i in range(4)]", [1, 2, 4, 8]),
        ("[i * 8 for i in range(1, 5) if i % 2 == 0]", [16, 32]),
        ("[]", []),
    ],
)
def test_values_as_text(text, values):
    found = parse_values(text)
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "x",
        "[x]",
        "[1, [2]]",
        "[1",
        "open('x')",
        "list([1], 2)",
        "range()",
        "range('a')",
        "range(1.5)",
        "range(10**12)",
        "[i for i in range(3) for j in range(3)]",
        "[i.real for i in range(3)]",
        "[__import__('os') for i in range(3)]",
        "[1 / 0]",
        "[None]",
        "{1, 2}",
        "[*[1]]",
        "[" * 5000,
    ],
)
def test_values_of_any_other_form_are_refused_in_one_line(text):
    with pytest.raises(SpaceError) as told:
        parse_values(text)
    assert "\n" not in str(told.value)


def test_values_may_be_a_list_and_conditions_texts_or_missing():
    document = changed("TuningParameters", "Values", [1, 2])
    document["ConfigurationSpace"]["Conditions"] = ["x * y <= 2", "x * y <= 2"]
    space = parsed(document).space
    assert len(space.constraints) == 1
    assert space.tally().feasible == 3 * 8
    del document["ConfigurationSpace"]["Conditions"], document["KernelSpecification"]
    assert parsed(document).space.constraints == ()


def test_values_take_the_type_of_their_parameter():
    for kind, values in (("int", [1, 2]), ("float", [1.0, 2.0]), ("string", [1, 2])):
        document = changed("TuningParameters", "Values", [1.0, 2])
        document["ConfigurationSpace"]["TuningParameters"][0]["Type"] = kind
        document["ConfigurationSpace"]["Conditions"] = []
        knob = parsed(document).space.knobs[0]
        assert [knob.value(k) for k in range(2)] == values
        assert kind == "string" or type(knob.value(0)) is TYPES[kind]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "a T1 file must be an object"),
        ({}, "ConfigurationSpace must be an object"),
        ({"ConfigurationSpace": {}}, "TuningParameters must be a list"),
        ({"ConfigurationSpace": {"TuningParameters": []}}, "TuningParameters is empty"),
        (changed("TuningParameters", "Name", 3), "a parameter's Name must be a text, not '3'"),
        (changed("TuningParameters", "Name", "x" * 5000), r"'y', which is|x\.\.\.|'x', which"),
        (changed("TuningParameters", "Name", "a\nb"), "'a b', which is|no parameter"),
        (changed("TuningParameters", "Name", "y"), "two knobs are named 'y'|no parameter"),
        (changed("TuningParameters", "Values", 3), "the Values of x must be a list"),
        (changed("TuningParameters", "Values", "[1"), r"'\[1' is no list of values"),
        (changed("TuningParameters", "Values", "[1, 1]"), "knob 'x' has the value 1 twice"),
        (changed("TuningParameters", "Values", "[1e999]"), "inf is not a finite number"),
        (changed("TuningParameters", "Values", [float("nan")]), "nan is not a finite number"),
        (changed("TuningParameters", "Values", [10**400]), "knob 'x': 1000"),
        (changed("Conditions", "Expression", None), "Expression must be a text"),
        (changed("Conditions", "Expression", "exit()"), "only min, max, abs can be called"),
        (changed("Conditions", "Expression", "z > 1"), "'z', which is no parameter"),
    ],
)
def test_a_file_that_describes_no_space_is_one_line(document, message):
    with pytest.raises(SpaceError, match=message) as told:
        parsed(document)
    assert str(told.value).startswith("file: ")
    assert len(str(told.value)) < 400
    assert "\n" not in str(told.value)


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    with pytest.raises(SpaceError, match="No such file"):
        read_t1(tmp_path / "none.json")
    with pytest.raises(SpaceError, match="it is not JSON"):
        parse_t1(b"\xff\xfe", "file")
    deep = json.dumps(changed("TuningParameters", "Values", [7])).replace(
        "[7]", "[" * 900 + "]" * 900
    )
    with pytest.raises(SpaceError, match=r"nested too deeply|not a finite number"):
        parse_t1(deep.encode(), "file")
    with pytest.raises(SpaceError, match="cannot write"):
        write_t1(parsed(t1(0)), tmp_path / "none" / "t1.json")


def test_the_published_problem_has_the_space_that_was_measured(tmp_path):
    problem = read_t1(shared_file("measured_spaces/convolution_T1.json"))
    space = problem.space
    records = read_any(shared_file("measured_spaces/convolution_A100.json.gz"))
    measured = [space.index_of(record.config["values"]) for record in records]
    assert np.array_equal(np.sort(measured), space.feasible_indices())
    write_t1(problem, tmp_path / "t1.json")
    again = read_t1(tmp_path / "t1.json").space
    assert again.fingerprint() == space.fingerprint()
    assert np.array_equal(again.feasible_indices(), space.feasible_indices())
