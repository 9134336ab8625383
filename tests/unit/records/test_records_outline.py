"""The outline of a line says what its record says, however the line is written."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import NewerSchemaError, Record, RecordError
from records.outline import Outline
from records.trial_lines import read_trial

LINE = {
    "schema": 1,
    "workload": {"template": "matmul", "args": {"n": 64, "dtype": "float32"}},
    "target": "llvm",
    "config": {"index": 3, "values": {"tile": 4, "pack": True, "split": [2, 3], "order": "rows"}},
    "costs_s": [0.002, 0.001, 0.004],
    "policy": {"repeats": 3},
    "device": {"kind": "cpu", "name": "Intel Xeon", "threads": 2},
    "versions": {"python": "3.11.7"},
    "seed": 7,
    "timestamp": 12.5,
    "fingerprints": {"space": "ab", "template": "cd", "code": "ef"},
    "build_s": 0.5,
    "max_error": 0.0,
    "steps": [["split", "C", "i#0", "factor", 4], ["reorder", "C", "k", "j"], ["vectorize", "C"]],
}
FAILURE = {"code": "RUN_TIMEOUT", "stage": "run", "message": 'he said "no", "seed": 3, [["a"]]'}
FINAL = {"comparison": "x", "rank": 0, "over_default": None, "range": None, "rounds": [1, 2, 3]}


def text_of(data):
    return json.dumps(data, separators=(",", ":")).encode()


def outcome(read, line):
    """What reading a line gives, or the kind of error."""
    try:
        return read(line)
    except RecordError as error:
        return type(error)
    except (ValueError, RecursionError):
        return ValueError


def check(line):
    """Reading an outline, also a second time, says what a record says."""
    wanted = outcome(lambda text: Outline.of_record(Record.from_line(text)), line)
    for _ in range(2):
        assert outcome(Outline.of_line, line) == wanted


def test_the_outline_of_a_line_is_that_of_its_record():
    check(text_of(LINE))
    check(text_of(LINE) + b"\n")
    assert not isinstance(read_trial(text_of(LINE)), Record)  # the quick way was taken


CHANGES = {
    "a failure": {"costs_s": None, "error": FAILURE},
    "an even number of costs": {"costs_s": [0.1, 0.2]},
    "costs that are integers": {"costs_s": [1, 2]},
    "a final record": {"final": FINAL},
    "a failure in finals": {"costs_s": None, "error": FAILURE, "final": {**FINAL, "rounds": None}},
    "unknown keys": {"later": {"seed": 1}},
    "constants": {"workload": {**LINE["workload"], "constant": [0]}},
    "nothing on the device": {"device": {}},
    "no steps": {"steps": []},
    "steps with lists in them": {"steps": [["tile", [1, [2]], []], ["a", "],["]]},
    "an infinite error": {"max_error": "inf"},
    "integers beyond 64 bits": {"config": {"index": 2**70, "values": {"a": 2**70}}},
    "a value beyond 64 bits": {"config": {"index": 1, "values": {"a": [2**70]}}},
    "text of another script": {"config": {"index": 1, "values": {"größe": "日\ud800"}}},
    "no values": {"config": {"index": 1, "values": {}}},
    "lists in lists of a knob": {"config": {"index": 1, "values": {"a": [1, [2, None]]}}},
    "a knob that is a large fraction": {"config": {"index": 1, "values": {"a": 1e300}}},
    "the largest cost": {"costs_s": [10**18]},
    "a time that is an integer": {"timestamp": 2**53 + 1},
    "a seed beyond 64 bits": {"seed": 2**64},
    "more in an error": {"costs_s": None, "error": {**FAILURE, "line": 3}},
    "no error": {"error": None, "steps": None, "noise": None},
    "resources": {"kernels": [{"name": "k", "registers": 32}], "clocks": {"sm_mhz": 1980}},
    "nothing in final": {"final": None},
}
WRONG = {
    "both": {"error": FAILURE},
    "neither": {"costs_s": None},
    "no cost": {"costs_s": []},
    "a cost of zero": {"costs_s": [0.0]},
    "a cost as text": {"costs_s": ["1"]},
    "a knob that is an object": {"config": {"index": 1, "values": {"a": {}}}},
    "a knob that steers a terminal": {"config": {"index": 1, "values": {"\x1b[2J": 1}}},
    "an index that is true": {"config": {"index": True, "values": {}}},
    "no index": {"config": {"values": {}}},
    "a seed that is a fraction": {"seed": 1.5},
    "a time that is text": {"timestamp": "now"},
    "a fingerprint that is a number": {"fingerprints": {"template": 3}},
    "an error without a stage": {"costs_s": None, "error": {"code": "UNKNOWN", "message": ""}},
    "steps that are an object": {"steps": {}},
    "raced that is a number": {"raced": 1},
    "an error beyond all numbers": {"max_error": "much"},
    "a final without a rank": {"final": {"comparison": "x"}},
    "an error that is no text": {"costs_s": None, "error": {**FAILURE, "code": 3}},
    "a cost beyond the largest": {"costs_s": [10**18 + 1]},
    "a seed that no float holds": {"seed": 10**400},
    "a time that no float holds": {"timestamp": 10**400},
    "a step that no float holds": {"steps": [["split", 10**400]]},
    "kernels that are an object": {"kernels": {}},
    "clocks that are a list": {"clocks": []},
    "no policy": {"policy": None},
    "a schema that is a fraction": {"schema": 1.0},
    "a newer schema": {"schema": 99},
    "a device that steers a terminal": {"device": {"name": "a\x1bb"}},
}


def changed(changes):
    data = {**LINE, **changes}
    return text_of({name: value for name, value in data.items() if value is not None})


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_line_may_say_is_read(change):
    assert isinstance(Outline.of_line(changed(CHANGES[change])), Outline)
    check(changed(CHANGES[change]))


@pytest.mark.parametrize("change", WRONG)
def test_a_line_of_no_record_has_no_outline(change):
    check(text_of(LINE))  # its neighbour is known
    assert outcome(Outline.of_line, changed(WRONG[change])) in (RecordError, NewerSchemaError)
    check(changed(WRONG[change]))


@pytest.mark.parametrize(
    "line",
    [
        # Parts of the line stand where they must not, or twice.
        text_of(LINE).replace(b',"seed":7', b',"seed":7,"target":"cuda"'),
        text_of(LINE).replace(b',"seed":7', b',"seed":7,"device":{}'),
        text_of(LINE).replace(b',"seed":7', b',"seed":7,"schema":99'),
        text_of(LINE).replace(b',"costs_s"', b',"workload":3,"costs_s"'),
        text_of(LINE).replace(b'"index":3', b'"index":3,"policy":{},"seed":3'),
        text_of(LINE).replace(b'"code":"ef"}', b'"code":"ef"').replace(b"]]}", b"]]}}"),
        text_of(LINE).replace(b"]]}", b"]]}]]}"),
        text_of(LINE).replace(b"]]}", b'],["x"}]}'),
        text_of(LINE).replace(b"]]}", b"]]}\x0b"),
        text_of(LINE).replace(b"]]}", b"]]}}"),
        text_of(LINE).replace(b'"k"', b'"k'),
        text_of(LINE).replace(b'"factor",4', b'"factor",NaN'),
        text_of(LINE).replace(b'"factor",4', b'"factor",1e999'),
        text_of(LINE).replace(b'"factor",4', b'"factor","\xff"'),
        text_of(LINE).replace(b'"Intel', b'"\xffIntel'),
        text_of(LINE).replace(b'"threads":2', b'"threads":1e999'),
        text_of(LINE).replace(b'"seed":7', b'"seed":"a","seed":7'),
        text_of(LINE).replace(b'"target"', b'"target":%s,"target"' % (b"9" * 5001)),
        text_of(LINE).replace(b'"policy"', b'"policy":[-%s],"policy"' % (b"9" * 4301)),
        text_of(LINE).replace(b'"policy"', b'"policy":%s,"policy"' % (b"9" * 4300)),
        text_of(LINE).replace(b'"order":"rows"', b'"order":"%s"' % (b"9" * 5001)),
        text_of(LINE).replace(b'"schema":1,', b""),
        text_of(LINE).replace(b'"factor",4', b'"factor",' + b"[" * 70 + b"]" * 70),
        b"\xef\xbb\xbf" + text_of(LINE),
    ],
)
def test_a_line_in_disorder_is_read_as_its_record_is(line):
    check(text_of(LINE))
    check(line)


@given(st.integers(0, 2**32 - 1))
def test_damaged_lines_are_read_as_their_records_are(seed):
    random_ = random.Random(seed)
    data = {**LINE, **random_.choice([*CHANGES.values()])}
    line = bytearray(text_of({name: value for name, value in data.items() if value is not None}))
    for _ in range(random_.randint(1, 3)):
        place = random_.randrange(len(line))
        match random_.randrange(4):
            case 0:
                line[place] = random_.choice(b'{}[]",:0 1\\\n\x00\xff')
            case 1:
                del line[place : place + random_.randint(1, 30)]
            case 2:
                start = random_.randrange(len(line))
                line[place:place] = line[start : start + random_.randint(1, 200)]
            case 3:
                del line[place:]
                line += b"}"
    check(text_of(LINE))
    check(bytes(line))


def test_what_lines_share_is_forgotten_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr("records.trial_lines._MOST_REMEMBERED", 3)
    for n in range(10):
        check(changed({"workload": {"template": f"t{n}", "args": {}}, "steps": [["s", n], ["t"]]}))
