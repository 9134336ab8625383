"""A log of two templates, and the data set that is made of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support.dataset_records import ADD, ALL, OWN, record_of

from autotune.dataset import export, load
from autotune.task.task import Task
from records import RecordStore


@pytest.fixture(scope="session")
def own(tmp_path_factory):
    """Return where a template of a file is."""
    path = tmp_path_factory.mktemp("templates") / "own.py"
    path.write_text(OWN.replace("{traced}", "("))
    return f"{path}:own"


@pytest.fixture(scope="session")
def tasks(own):
    made = (Task.from_reference(*ADD, "llvm"), Task.from_reference(own, {"n": 40}, "llvm"))
    return {task.template.name: task for task in made}


@pytest.fixture(scope="session")
def records(tasks):
    rng = np.random.default_rng(0)
    found = []
    for number, task in enumerate(tasks.values()):
        for index in task.space.sample(9, rng).tolist():
            cost = (1e-3 * (1 + index % 7),) * 3
            found.append(record_of(task, index, costs_s=cost, noise=0.25, build_s=0.5))
        failed = {"code": "WRONG_ANSWER", "stage": "check", "message": 'off by "1",\nor so'}
        index = task.default_index
        found.insert(5 * number, record_of(task, index, error=failed, max_error=math.inf))
    add = tasks["broadcast_add"]
    strange = {"space": "0" * 16, "template": "f" * 16}
    plain = record_of(add, add.default_index)
    found += [
        replace(plain, fingerprints=strange),
        replace(plain, fingerprints=None, device={"name": "Epyc"}, raced=True),
        replace(plain, config={"index": 0, "values": {"nothing": 1}}),
        replace(plain, workload={"template": "gone", "args": {"n": 1}}),
        replace(plain, workload={"template": "softmax", "args": {"k": 1}}),
        replace(plain, target="llvm -fly=high", device={}),
    ]
    return found


@pytest.fixture(scope="session")
def log(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    RecordStore(path).append(records)
    return path


@pytest.fixture(scope="session")
def frame(log, own):
    return load(export([log], log.parent / "all.parquet", ALL, templates=[own]).data)
