"""Records of final comparisons: what they must hold, and that they go before trials."""

from dataclasses import replace

import pytest
from support.report_events import final, record

from records import Entry, Journal, Record, RecordError, RecordStore, best, finals, ranked, summary


def test_the_latest_comparison_goes_before_all_trials_by_its_ranks():
    lucky, slow = record(1, 0.1), record(2, 0.9)
    old = [replace(final(1, (0.5,), rank=0, comparison="a"), timestamp=1.0)]
    new = [
        replace(final(index, (0.6,), rank=rank, comparison="b"), timestamp=2.0)
        for index, rank in ((3, 1), (2, 0))
    ]
    given = [lucky, *new, slow, *old]  # several logs, one after the other
    assert finals(given) == new
    assert ranked(given) == [new[1], new[0], lucky, slow]
    assert best(given) == new[1]
    assert ranked([slow, lucky]) == [lucky, slow]


def test_who_failed_in_a_comparison_is_not_chosen():
    failed = replace(record(1), final=final(1, (1.0,), rank=0).final)
    other = final(2, (0.6,), rank=1)
    assert best([record(1, 0.1), failed, other]) == other


def test_who_failed_in_its_latest_comparison_is_not_chosen_by_its_trial_either():
    failed = replace(record(1), final=final(1, (1.0,), rank=1, comparison="b").final, timestamp=2.0)
    trials = [record(1, 0.1), record(2, 0.2)]
    assert best([*trials, failed]) == trials[1]
    earlier = [final(3, (0.3,), comparison="a"), final(1, (0.4,), rank=1, comparison="a")]
    assert ranked([*trials, *earlier, failed]) == [earlier[0], trials[1]]
    later = replace(final(1, (0.4,), comparison="c"), timestamp=3.0)
    assert best([*trials, *earlier, failed, later]) == later


def test_a_summary_counts_trials_alone():
    (row,) = summary([record(1, 0.1), record(2), final(1, (0.3, 0.3))])
    assert (row.trials, row.ok, row.best_cost_s, row.compared) == (2, 1, 0.3, True)


def test_the_best_of_a_summary_is_that_of_all_records_if_many_failed_in_their_comparison():
    trials = [record(index, 0.1 + index / 100) for index in range(30)]
    failed = [
        replace(record(index), final=final(1, (1.0,), rank=index, comparison="a").final)
        for index in range(20)
    ]
    (row,) = summary([*trials, *failed])
    assert best([*trials, *failed]) == trials[20]
    assert (row.best_index, row.best_cost_s) == (trials[20].index, trials[20].cost_s)


def test_a_final_record_survives_its_line_and_old_lines_have_none():
    written = final(1, (0.3, 0.4), over_default=1.5, ends=[1.4, 1.6])
    assert Record.from_json(written.to_json()) == written
    assert not written.is_trial
    plain = record(1, 0.3)
    assert "final" not in plain.to_json()
    assert Record.from_json(plain.to_json()).is_trial


@pytest.mark.parametrize(
    "about",
    [
        {"rank": 0}, {"comparison": "c"}, {"comparison": 1, "rank": 0},
        {"comparison": "c", "rank": 0, "over_default": 1.0},
        {"comparison": "c", "rank": 0, "over_default": 1.0, "range": [1.0]},
        {"comparison": "c", "rank": 0, "over_default": "x", "range": [1.0, 2.0]},
        {"comparison": "c", "rank": -5},
        {"comparison": "c", "rank": 0, "over_default": -3.0, "range": [1.0, 2.0]},
        {"comparison": "c", "rank": 0, "over_default": 1.0, "range": [0.0, 2.0]},
        {"comparison": "c", "rank": 0, "over_default": 3.0, "range": [5.0, 1.0]},
        {"comparison": "c", "rank": 0, "rounds": [1, 2]},
        {"comparison": "c", "rank": 0, "rounds": 1},
        {"comparison": "c", "rank": 0, "rounds": ["1"]},
    ],
)  # fmt: skip
def test_what_is_no_comparison_is_refused(about):
    with pytest.raises(RecordError, match=r"^final"):
        replace(record(1, 0.3), final=about)


def test_a_journal_takes_a_configuration_once_per_comparison_all_or_none(tmp_path):
    journal = Journal(RecordStore(tmp_path / "log.jsonl"))
    assert journal.add(record(1, 0.3))
    first = [final(1, (0.3,), comparison="a"), final(2, (0.4,), comparison="a", rank=1)]
    assert journal.add_all(first) == first
    assert journal.add_all([*first, final(1, (0.3,), comparison="b")])[0].final["comparison"] == "b"
    assert len({Entry.of(r) for r in RecordStore(tmp_path / "log.jsonl").load()}) == 4
    assert not journal.add(record(1, 0.2))
