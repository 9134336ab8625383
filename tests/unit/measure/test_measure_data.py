"""The plain data of measuring: results, errors, policies, the device."""

import json
import subprocess
import sys

import pytest

from autotune.errors import UsageError
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime import environment
from autotune.target import Target

ERROR = MeasureError(MeasureErrorNo.RUN_TIMEOUT, "run", "too slow")


def test_a_result_is_costs_or_an_error_and_never_both():
    with pytest.raises(ValueError, match="either costs or an error"):
        MeasureResult()
    with pytest.raises(ValueError, match="either costs or an error"):
        MeasureResult(costs_s=(1.0,), error=ERROR)
    with pytest.raises(ValueError, match="at least one cost"):
        MeasureResult(costs_s=())


def test_the_cost_of_a_result_is_the_median_and_a_failure_has_none():
    assert MeasureResult(costs_s=(9.0, 1.0, 2.0)).cost_s == 2.0
    assert MeasureResult(error=ERROR).cost_s is None


def test_the_spread_of_a_result_is_that_of_its_middle_half():
    assert MeasureResult(costs_s=(1.0, 2.0, 4.0, 5.0, 90.0)).spread == pytest.approx(3 / 4)
    assert MeasureResult(costs_s=(2.0, 2.0)).spread == 0
    assert MeasureResult(costs_s=(1.0,)).spread is None
    assert MeasureResult(error=ERROR).spread is None


def test_a_reused_result_keeps_the_costs_but_not_the_times_of_the_worker():
    first = MeasureResult(costs_s=(1.0,), build_s=0.5, run_s=0.2, code_hash="ab", timestamp=5.0)
    again = first.as_reused(build_s=0.1)
    assert (again.costs_s, again.code_hash, again.reused) == ((1.0,), "ab", True)
    assert (again.build_s, again.run_s) == (0.1, None)
    assert again.timestamp > first.timestamp


def test_an_error_survives_json_and_a_code_of_a_later_version_is_unknown():
    assert MeasureError.from_json(json.loads(json.dumps(ERROR.to_json()))) == ERROR
    later = MeasureError.from_json({**ERROR.to_json(), "code": "MELTED"})
    assert later.code is MeasureErrorNo.UNKNOWN


def test_a_policy_survives_json():
    policy = TimingPolicy(
        warmup=2, repeats=3, min_repeat_ms=1.5, budget_ms=10, flush="repeats", race=1.5
    )
    assert TimingPolicy.from_json(json.loads(json.dumps(policy.to_json()))) == policy


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"warmup": 0}, "warmup must be a whole number >= 1, not 0"),
        ({"repeats": 2.5}, "repeats must be a whole number >= 1, not 2.5"),
        ({"min_repeat_ms": -1.0}, "min_repeat_ms must be milliseconds >= 0, not -1.0"),
        ({"budget_ms": float("inf")}, "budget_ms must be milliseconds >= 0, not inf"),
        ({"flush": "always"}, "flush must be off or repeats, not always"),
        ({"race": 1.0}, "race must be a factor > 1, or 0 for no racing, not 1.0"),
        ({"race": True}, "race must be a factor > 1, or 0 for no racing, not True"),
        ({"race": float("nan")}, "race must be a factor > 1, or 0 for no racing, not nan"),
        ({"patience": 3}, "unknown setting.s. patience"),
    ],
)
def test_a_policy_refuses_what_makes_no_sense(settings, words):
    with pytest.raises(UsageError, match=words):
        TimingPolicy.from_json(settings)


def test_times_compare_with_those_of_other_policies_but_for_racing_and_what_is_new():
    policy = TimingPolicy(repeats=3, race=1.5)
    recorded = policy.to_json()
    assert policy.comparable(recorded)
    assert policy.comparable({**recorded, "race": 0})
    before_flushing = {k: v for k, v in recorded.items() if k not in ("flush", "race")}
    assert policy.comparable(before_flushing)
    assert not TimingPolicy(repeats=3, flush="repeats").comparable(before_flushing)
    assert not policy.comparable({**recorded, "repeats": 5})
    assert not policy.comparable({**recorded, "of_a_later_version": 1})


def test_the_device_names_what_a_time_depends_on():
    device = environment.device(Target("llvm", {"mcpu": "haswell", "threads": "3"}))
    assert device["kind"] == "cpu"
    assert device["name"]
    assert device["cores"] >= 1
    assert (device["threads"], device["vector_bytes"]) == (3, 32)


def test_versions_are_known_without_loading_the_libraries():
    code = (
        "import sys; from autotune.runtime import environment; found = environment.versions();"
        "assert found['python'] and found['numpy'] and found['llvmlite'] and found['xgboost'];"
        "print(*{'llvmlite', 'xgboost', 'numpy.linalg'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "llvmlite" not in done.stdout
    assert "xgboost" not in done.stdout
