"""Records that went through another tool's format: a build takes them only if it is told to."""

from dataclasses import replace

import pytest
from support.measured import measured

from autotune.reuse import choose
from autotune.task.task import Task
from records.formats import read_any, write_records


@pytest.fixture(scope="module")
def task():
    return Task.from_reference("matmul", {"m": 8, "n": 16, "k": 4}, "llvm")


@pytest.mark.parametrize("format_name", ["autotvm", "kernel-tuner", "t4"])
def test_a_build_uses_them_only_with_any_and_where_the_knobs_are_the_same(
    task, format_name, tmp_path
):
    path, told = tmp_path / "exported", []
    own = measured(task, task.default_index)
    write_records([own], format_name, path)
    for reuse in ("exact", "kind", "shape"):
        assert choose(task, read_any(path), reuse, notify=told.append) is None
    found = choose(task, read_any(path), "any", notify=told.append)
    assert found is not None
    assert found.config == task.space.config(task.default_index)

    values = dict(own.config["values"])
    values["another"] = values.pop(next(iter(values)))
    write_records([replace(own, config={"index": 0, "values": values})], format_name, path)
    assert choose(task, read_any(path), "any", notify=told.append) is None
