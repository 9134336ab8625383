"""Records of a data set for tests, and what their rows should be."""

from __future__ import annotations

import pandas as pd

from autotune.feature import get_curve_feature, get_curve_name, get_itervar_feature
from features import flatten_names, flatten_rows, versioned
from records import Record

ADD = ("broadcast_add", {"n": 300, "dtype": "float32"})
OWN = """
from autotune import te
from autotune.template import template

@template("own", flops=lambda n: n)
def own(cfg, n: int):
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    factor = cfg.define_knob("factor", [2, 4, 8, 16, 5])
    if {traced}factor) > 4:
        s[B].split(B.op.axis[0], factor=factor)
    return s, [A, B]
"""


def record_of(task, index, **more):
    config = task.space.config(index).to_json()
    outcome = {} if "error" in more else {"costs_s": (2e-3, 1e-3, 4e-3)}
    return Record(
        workload=task.workload.to_json(),
        target=str(task.target),
        config=config,
        fingerprints={**task.fingerprints_of(index), "code": f"{index:016x}"},
        device={"kind": "cpu", "name": "Xeon"},
        seed=3,
        timestamp=1e9 + index,
        **{**outcome, **more},
    )


MISSING = ["template_changed", None, "not_in_space", "no_template", "bad_arguments", "bad_target"]
"""Why the last of `records` have no features."""

PINNED = ["train", "train", "train"]
ALL = ("itervar", "curve", "autotvm08", "knob")


def texts(column):
    return [None if pd.isna(text) else text for text in column]


def assert_same(found, expected):
    """As pandas' own assertion, but quick where there are many columns."""
    assert found.columns.tolist() == expected.columns.tolist()
    assert found.dtypes.astype(str).tolist() == expected.dtypes.astype(str).tolist()
    for name, dtype in expected.dtypes.items():
        if dtype in ("category", "string"):
            assert texts(found[name]) == texts(expected[name])
        else:
            assert found[name].to_numpy().tobytes() == expected[name].to_numpy().tobytes()


def own_features(task, index):
    """Features of one configuration, from its own loops, without any plan."""
    plain = task.concrete_structure(index)
    found = {}
    for layout in ("itervar", "autotvm08"):
        rows = get_itervar_feature(plain.schedule, plain.tensors, layout=layout)
        names = [versioned(layout, name) for name in flatten_names(rows)]
        found |= zip(names, flatten_rows(rows), strict=True)
    names = [versioned("curve", name) for name in get_curve_name()]
    found |= zip(names, get_curve_feature(plain.schedule, plain.tensors), strict=True)
    return found
