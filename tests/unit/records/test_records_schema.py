"""The JSON Schema that ships says what a record's own check says, and the docs say the same."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measured

from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime import environment
from autotune.target import Target
from autotune.task.task import Task
from records import Record, RecordError
from records.json_schema import json_schema

SCHEMA = json_schema()
DOCS = Path(__file__).parents[3] / "docs" / "records.md"
VERSIONS = Path(__file__).parent / "versions"


def is_integer(_, value):
    """Integers are written without a decimal point, which JSON Schema does not tell apart."""
    return isinstance(value, int) and not isinstance(value, bool)


TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=TYPES)(
    SCHEMA
)


def full(**changes):
    """Return a record in which every field is given."""
    data = {
        "workload": {"template": "matmul", "args": {"n": 64, "shape": [1, None]}, "constant": [1]},
        "target": "cuda -arch=sm_90",
        "config": {"index": 3, "values": {"k": 8, "tile": [4, [2]], "order": "mn", "on": True}},
        "costs_s": [1e-3, 2e-3],
        "policy": TimingPolicy().to_json(),
        "device": {"kind": "gpu", "name": "G", "multiprocessors": 132},
        "versions": {"python": "3.11", "nvrtc": "13.0"},
        "seed": 3,
        "timestamp": 1.5,
        "fingerprints": {"space": "00", "template": "11", "code": "22"},
        "build_s": 0.5,
        "run_s": 1,
        "max_error": 1e-6,
        "raced": True,
        "noise": 0.01,
        "kernels": [{"name": "k", "registers": 40}],
        "clocks": {"sm_mhz": 1980},
        "steps": [["split", "C", 0, 8]],
        "final": {
            "comparison": "a",
            "rank": 0,
            "rounds": [1, 3],
            "over_default": 1.5,
            "range": [1.4, 1.6],
        },
    }
    return Record(**{**data, **changes}).to_json()


FAILED = {"code": "WRONG_ANSWER", "stage": "check", "message": "no"}
BASES = [
    full(),
    full(costs_s=None, error=FAILED, final=None, max_error=float("nan")),
    full(final={"comparison": "a", "rank": 1, "over_default": None, "range": None}),
]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("data", BASES)
def test_what_records_write_is_valid(data):
    assert list(VALIDATOR.iter_errors(data)) == []


def test_lines_of_all_versions_are_valid():
    lines = [line for path in VERSIONS.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) > 5
    for line in lines:
        assert list(VALIDATOR.iter_errors(json.loads(line))) == []


ODD = st.one_of(
    st.sampled_from(
        [None, True, False, 0, 1, 2, -1, 1.0, 0.5, 1e-19, 1e19, 10**400, -(10**400), [], {}, ""]
    ),
    st.sampled_from(
        [[1], [0], ["1"], [1, 2], [True], [None], {"a": 1}, {"a\n": 1}, {"a": {"b": 10**400}}]
    ),
    st.sampled_from(
        ["inf", "nan", "a\n", "\x1b[2J", "\x9b", "\u202e", "é", [{}], [[{"a": 1}]], [1.5, 2.5]]
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=6,
    ),
)


def places(data, at=()):
    """Yield the path of every value of plain data."""
    if at:
        yield at
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items if isinstance(data, dict | list) else ():
        yield from (places(value, (*at, key)) if isinstance(value, dict | list) else [(*at, key)])


@st.composite
def mutated(draw):
    """Draw a record of which a few values are others, gone or more."""
    data = copy.deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(list(places(data))))
        inside = data
        for key in path:
            inside = inside[key]
        match draw(st.sampled_from(["change", "change", "remove", "add"])):
            case "change":
                inside[last] = copy.deepcopy(draw(ODD))  # it may be changed next
            case "remove":
                del inside[last]
            case "add" if isinstance(inside, dict):
                inside[draw(st.sampled_from([*KEYS, "new", "a\n"]))] = copy.deepcopy(draw(ODD))
    return data


KEYS = [f.name for f in dataclasses.fields(Record)] + ["constant", "range", "rounds", "name"]


def accepts(read):
    try:
        read()
    except RecordError:
        return False
    return True


def has_a_number_for_each_cost(data):
    """Whether `final.rounds`, where it is a list, is as long as `costs_s`: no schema says it."""
    final = data.get("final")
    rounds = final.get("rounds") if isinstance(final, dict) else None
    costs = data.get("costs_s") or []
    lists = isinstance(rounds, list) and isinstance(costs, list)
    return not lists or len(rounds) == len(costs)


@given(mutated())
def test_a_records_own_check_and_the_schema_agree(data):
    valid = VALIDATOR.is_valid(data)
    if has_a_number_for_each_cost(data):
        assert accepts(lambda: Record.from_json(data)) == valid
        assert accepts(lambda: Record.from_line(json.dumps(data).encode())) == valid


# -- no field is forgotten -----------------------------------------------------------------------


def rows_of_docs():
    """Return the rows of the table of keys in docs/records.md: key, and what is said of it."""
    text = DOCS.read_text()
    table = text[text.index("| key | value |") :].split("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))


def test_the_documentation_the_schema_and_the_class_have_the_same_fields():
    fields = ["schema", *(f.name for f in dataclasses.fields(Record))]
    assert list(SCHEMA["properties"]) == fields
    assert sorted(rows_of_docs()) == sorted(fields)


def nested():
    """Yield the fields inside of fields that the schema names: field, key."""
    for name, schema in SCHEMA["properties"].items():
        inside = schema.get("items", schema)
        yield from ((name, key) for key in inside.get("properties", ()))


@pytest.mark.parametrize(("field", "key"), list(nested()))
def test_the_documentation_names_what_is_inside_of_fields(field, key):
    assert re.search(rf"[`\"]{key}[`\"]", rows_of_docs()[field])


def test_every_field_of_the_schema_says_what_it_is():
    for name, schema in SCHEMA["properties"].items():
        inside = schema.get("items", schema).get("properties", {})
        for found in (schema, *inside.values()):
            assert found["description"].endswith("."), name


def test_what_is_measured_here_has_no_key_that_the_schema_lacks():
    target = Target.of("llvm")
    task = Task.from_reference("matmul", {"m": 8, "n": 8, "k": 8}, target)
    policy, versions = TimingPolicy().to_json(), environment.versions(target)
    data = measured(task, 0, policy=policy, versions=versions).to_json()
    assert VALIDATOR.is_valid(data)
    known = set(nested())
    for field in ("workload", "config", "policy", "device", "versions", "fingerprints"):
        assert {(field, key) for key in data[field]} <= known
