"""Answers of workers: those that are ones pass, and whatever else a template may write does not."""

import pytest

from autotune.measure.pool.response_checks import invalid_reason

TIMES = {"seconds": 0.5, "span": [1.0, 1.5]}
ERROR = {
    "error": {"code": "UNKNOWN", "stage": "run", "message": "m"},
    "max_error": float("nan"),
    "fatal": False,
}
BUILT = {"code_hash": "aa", "binary": {}, "kernels": [{"name": "k", "registers": 9}]}
RAN = {
    "costs_s": [1e-3], "max_error": 0.0, "raced": False, "noise": None, "clocks": {"sm_mhz": 9},
}  # fmt: skip
CEILING = {"ceiling": {"peak_flops": {"float32": 1e9}, "copy_bytes_s": 1e9}, "notes": []}


@pytest.mark.parametrize(
    ("role", "op", "body"),
    [
        ("build", "open", {}),
        ("build", "open", {"subject": {}, "binary": None}),
        ("build", "open", {"refused": "why"}),
        ("run", "open", {"reference": "given", "notes": ["a line"], "checks": []}),
        ("run", "open", {"refused": "why"}),
        ("build", "build", BUILT),
        ("build", "build", ERROR),
        ("run", "run", RAN),
        ("run", "run", ERROR),
        ("run", "enter", {"max_error": 0.0}),
        ("run", "enter", ERROR),
        ("run", "round", {"costs_s": [1e-3, 2e-3], "noise": 0.1, "clocks": None}),
        ("run", "round", ERROR),
        ("run", "ceiling", CEILING),
        ("run", "baseline", {"baseline": [1e-3]}),
        ("run", "baseline", {"baseline": None}),
    ],
)
def test_an_answer_fits_and_one_that_lacks_a_key_or_has_one_too_many_does_not(role, op, body):
    whole = {**body, **TIMES}
    assert invalid_reason(role, op, whole) is None
    assert invalid_reason(role, op, {**whole, "policy": 1}) == "policy"
    for key in TIMES:
        assert invalid_reason(role, op, {k: v for k, v in whole.items() if k != key}) == key
    for key in body:
        rest = {k: v for k, v in whole.items() if k != key}
        described = (role, op) == ("build", "open")  # those who were not asked describe nothing
        assert invalid_reason(role, op, rest) is not None or (described and len(body) == 1)


@pytest.mark.parametrize(
    ("role", "op", "body", "wrong"),
    [
        ("run", "open", {"notes": [], "checks": []}, "reference"),
        ("run", "run", {**RAN, "costs_s": []}, "costs_s"),
        ("run", "run", {**RAN, "costs_s": [1e-3, "1"]}, "costs_s"),
        ("run", "run", {**RAN, "costs_s": [float("nan")]}, "costs_s"),
        ("run", "run", {**RAN, "costs_s": [-1.0]}, "costs_s"),
        ("run", "run", {**RAN, "raced": 1}, "raced"),
        ("run", "run", {**RAN, "span": [1.0]}, "span"),
        ("run", "run", {**ERROR, "error": {"code": "UNKNOWN"}}, "error"),
        ("build", "build", {**BUILT, "code_hash": 7}, "code_hash"),
        ("build", "build", {**BUILT, "binary": "no"}, "binary"),
        ("run", "ceiling", {"ceiling": {"peak_flops": {}, "copy_bytes_s": 0.0}}, "ceiling"),
        ("run", "ceiling", {"ceiling": {"copy_bytes_s": 1.0}}, "ceiling"),
        ("run", "baseline", {"baseline": []}, "baseline"),
    ],
)
def test_an_answer_with_a_wrong_value_is_none(role, op, body, wrong):
    assert invalid_reason(role, op, {**TIMES, **body}) == wrong
