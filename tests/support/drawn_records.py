"""Strategies of hypothesis for records, as the writers of other formats may meet them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from records import Record

NAMES = st.text("abcdefgxyz_.0 é", min_size=1, max_size=6)
SCALARS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.booleans(),
    st.floats(-1e12, 1e12),
    st.text(max_size=6),
    st.sampled_from(["InvalidConfig", "2.5", "nan", "", "a,b"]),
)
LISTS = st.one_of(
    st.lists(st.integers(-1, 64), max_size=4),
    st.lists(st.sampled_from(["none", "unroll"]), max_size=3),
    st.permutations(range(3)),
    st.lists(SCALARS, max_size=3),
)
CODES = {
    "INSTANTIATION_ERROR": "instantiate",
    "COMPILE_HOST": "compile",
    "COMPILE_DEVICE": "compile",
    "RUNTIME_DEVICE": "run",
    "WRONG_ANSWER": "check",
    "BUILD_TIMEOUT": "build",
    "RUN_TIMEOUT": "run",
    "UNKNOWN": "run",
}
ERRORS = st.builds(
    lambda code, message: {"code": code, "stage": CODES[code], "message": message},
    st.sampled_from(list(CODES)),
    st.text(max_size=20),
)
COSTS = st.lists(st.floats(1e-12, 1e6) | st.floats(1e-18, 1e18), min_size=1, max_size=4)
SECONDS = st.none() | st.floats(0.0, 1e4)


@st.composite
def records(draw: st.DrawFn, lists: bool = True) -> list[Record]:
    """Draw records of one workload with the same knobs and as many items in each list."""
    workload: dict[str, Any] = {"template": draw(NAMES)}
    workload["args"] = draw(st.dictionaries(NAMES, SCALARS | LISTS, max_size=3))
    target = draw(st.sampled_from(["llvm", "cuda -arch=sm_90", "recorded", ""]))
    device = {"name": draw(NAMES), "threads": 2} if draw(st.booleans()) else {}
    first = draw(st.dictionaries(NAMES, SCALARS | LISTS if lists else SCALARS, max_size=4))
    found = []
    for index in range(draw(st.integers(1, 4))):
        values = {knob: _like(draw, value) if index else value for knob, value in first.items()}
        outcome: dict[str, Any] = (
            {"costs_s": draw(COSTS)} if draw(st.booleans()) else {"error": draw(ERRORS)}
        )
        found.append(
            Record(
                workload=workload,
                target=target,
                device=device,
                config={"index": index, "values": values},
                seed=0,
                timestamp=draw(st.floats(0.0, 4e9)),
                build_s=draw(SECONDS),
                run_s=draw(SECONDS),
                **outcome,
            )
        )
    return found


def _like(draw: st.DrawFn, value: Any) -> Any:
    """Draw a value of a knob that has this one, too."""
    if not isinstance(value, list):
        return draw(SCALARS)
    return [draw(SCALARS) for _ in value]
