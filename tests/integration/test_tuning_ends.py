"""How a run ends: nothing left to try, nothing legal, interrupted; and what it says then."""

import pytest
from support.fake_measurer import FakeMeasurer, run

from autotune.errors import UsageError
from autotune.task.task import Task
from autotune.tuner.run.events import End
from autotune.tuner.search.baselines import GridTuner, RandomTuner
from records import RecordStore


def test_a_space_without_a_feasible_configuration_ends_the_run_at_once(store, tmp_path):
    source = tmp_path / "infeasible.py"
    source.write_text(
        "from autotune import te\nfrom autotune.template import template\n\n"
        "@template('infeasible', reference=lambda a: a)\n"
        "def infeasible(cfg):\n"
        "    k = cfg.define_knob('k', [1, 2])\n"
        "    cfg.add_constraint(k > 2, 'k is large')\n"
        "    A = te.placeholder((8,), name='A')\n"
        "    B = te.compute((8,), lambda i: A[i], name='B')\n"
        "    return te.create_schedule(B.op), [A, B]\n"
    )
    summary, measurer = run(Task.from_reference(f"{source}:infeasible", {}), store, 4)
    assert summary.ended is End.EXHAUSTED
    assert (summary.trials, measurer.asked, summary.default_costs_s) == (0, [], None)


def test_an_exhausted_space_ends_the_run(task, store):
    feasible = len(task.space.feasible_indices())
    summary, measurer = run(task, store, feasible + 10)
    assert summary.ended is End.EXHAUSTED
    assert summary.trials == feasible
    assert len(set(measurer.asked)) == feasible


def test_an_interruption_keeps_what_was_measured_and_a_rerun_completes_it(task, store):
    measurer = FakeMeasurer(interrupt_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(task, store, 10, measurer, RandomTuner(task.space, 0))
    assert [record.index for record in store.load()] == measurer.asked
    assert len(measurer.asked) == 3
    _, rest = run(task, store, 10, FakeMeasurer(), RandomTuner(task.space, 0))
    assert len({*measurer.asked, *rest.asked}) >= 10
    assert not {*measurer.asked} & {*rest.asked}


def test_the_summary_names_the_best_and_the_failures(task, store):
    summary, _ = run(task, store, 4, FakeMeasurer(failing=[0, 3]))
    assert summary.best is not None
    assert summary.best.index == 1
    assert summary.failures == {"RUN_TIMEOUT": 2}
    assert summary.ended is not End.EXHAUSTED
    nothing, _ = run(task, RecordStore(store.path.with_name("x")), 1, FakeMeasurer(failing=[0]))
    assert nothing.best is None


@pytest.mark.parametrize(("trials", "batch"), [(-1, 8), (4, 0)])
def test_senseless_numbers_are_refused(task, store, trials, batch):
    with pytest.raises(UsageError, match="trials must be >= 0 and batch >= 1"):
        run(task, store, trials, batch=batch)


REFUSING = """
from autotune import te
from autotune.template import template

@template("refusing", reference=lambda a: a + 1)
def refusing(cfg, legal: int, size: int = 40):
    k = cfg.define_knob("k", list(range(1, size + 1)))
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name=f"B{k}")  # which cannot be traced
    s = te.create_schedule(B.op)
    cfg.add_constraint(k <= legal, "k is legal")
    s[B].split(B.op.axis[0], factor=k)
    return s, [A, B]
"""


@pytest.mark.filterwarnings("ignore:template 'refusing'")
def test_refused_proposals_are_told_but_neither_measured_nor_trials(tmp_path, store):
    (tmp_path / "refusing.py").write_text(REFUSING)
    own = Task.from_reference(f"{tmp_path}/refusing.py:refusing", {"legal": 5})
    tuner = GridTuner(own.space, 0)
    summary, measurer = run(own, store, 8, tuner=tuner)
    assert set(measurer.asked) == set(range(5))
    assert (summary.trials, summary.ended) == (5, End.EXHAUSTED)
    assert summary.refused == {"k is legal": 35}
    assert summary.failures == {}
    assert [o.error for o in tuner.observations] == [None] * 5 + ["INSTANTIATION_ERROR"] * 35


@pytest.mark.filterwarnings("ignore:template 'refusing'")
def test_a_run_ends_when_nothing_but_refused_proposals_comes(tmp_path, store, monkeypatch):
    (tmp_path / "refusing.py").write_text(REFUSING)
    monkeypatch.setattr("autotune.tuner.run.session.MAX_REFUSED", 50)
    args = {"legal": 3, "size": 1000}
    own = Task.from_reference(f"{tmp_path}/refusing.py:refusing", args)
    summary, measurer = run(own, store, 8)
    assert set(measurer.asked) == {0, 1, 2}
    assert summary.ended is End.EXHAUSTED
    assert 50 <= summary.refused["k is legal"] <= 70
