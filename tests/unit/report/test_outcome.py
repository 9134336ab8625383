"""The table and the line that a run ends with: true ratios, whatever the width."""

from dataclasses import replace

import pytest
from support.report_events import final, finished, record

from autotune.report.outcome import last_line, outcome_table, remarks
from autotune.report.ratio import Ratio
from autotune.report.units import Work
from autotune.tuner.run.events import End


def test_a_ratio_is_that_of_medians_with_what_the_repeats_leave_open():
    ratio = Ratio.of((0.4, 0.5, 0.6), (0.9, 1.0, 1.1))
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 1.5, 2.75))
    assert ratio.sentence("the default") == "2.00x the default (1.50 to 2.75)"


def test_one_disturbed_repeat_of_five_changes_little():
    ratio = Ratio.of((0.5, 0.5, 0.5, 0.5, 9.0), (1.0, 1.0, 1.25, 1.0, 30.0))
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.5))


@pytest.mark.parametrize(
    ("costs_s", "baseline_s", "words"),
    [
        ((0.9, 1.0, 1.1), (1.0, 1.05, 1.2), "level with the default (0.909 to 1.33)"),
        ((0.5,), (1.0, 1.1), "2.10x the default (timed once)"),
        ((0.5, 0.5), (1.0, 3.5), "too noisy for a ratio"),
        ((0.1, 0.5), (1.0, 1.0), "too noisy for a ratio"),
        ((2.0, 2.0), (1.0, 1.0), "0.500x the default (0.500 to 0.500)"),
    ],
)
def test_a_ratio_claims_no_more_than_the_repeats_show(costs_s, baseline_s, words):
    assert Ratio.of(costs_s, baseline_s).sentence("the default") == words


def test_there_is_no_ratio_without_times():
    assert Ratio.of(None, (1.0,)) is None
    assert Ratio.of((1.0,), None) is None


def test_the_last_line_says_how_good_and_how_much_better_than_the_default():
    assert last_line([finished()], 75.0) == (
        "best 500 ms, 2.00 GFLOPS, 2.00x the default (1.73 to 2.45); config 7; 64 trials; 1:15 min"
    )


def test_the_last_line_counts_the_best_by_its_times_beside_the_default():
    chosen = final(7, (0.49, 0.5, 0.51), over_default=1.9, ends=[1.85, 1.95])
    line = last_line([finished(best=chosen, default_costs_s=(0.9, 1.0, 5.0))], 1.0)
    assert line.startswith("best 500 ms, 2.00 GFLOPS, 1.90x the default (1.85 to 1.95); config 7")
    alone = last_line([finished(best=record(7, 0.1))], 1.0)
    assert alone.startswith("best 100 ms, ")


def test_a_run_whose_default_has_won_says_so():
    chosen = final(7, (0.49, 0.5, 0.51))
    status = finished(best=chosen, default_index=7)
    assert ", which is the default; config 7;" in last_line([status], 1.0)
    assert remarks([status]) == [
        "the default is the result: timed beside it, no other was clearly faster"
    ]


def test_a_result_that_rests_on_trials_alone_says_so():
    status = finished(no_finals="too little time for a final comparison")
    assert remarks([status]) == [
        "too little time for a final comparison: the times are those of trials"
    ]
    assert "; 64 trials; no final comparison; " in last_line([status], 1.0)
    assert remarks([finished(no_finals="too little time", default_index=7)]) == []


def test_the_last_line_says_what_is_missing():
    nothing = {"best": None, "default_costs_s": None}
    failed = finished(**nothing, ended=End.EXHAUSTED, trials=1, failures={"WRONG_ANSWER": 1})
    assert last_line([failed], 75.0) == (
        "nothing valid was found; 1 trial; 1 failed (1 wrong answer); the space holds no more; "
        "1:15 min"
    )
    assert "default" not in last_line([finished(default_costs_s=None)], 1.0)
    assert "noisy machine (35 %)" in last_line([finished()], 1.0, noise=0.35)


def test_a_best_that_is_the_default_is_compared_with_nothing():
    status = finished(default_index=7)
    assert ", which is the default; config 7;" in last_line([status], 1.0)
    assert outcome_table([status], 80)[-1].split()[-1] == "itself"


def test_a_run_that_found_nothing_still_shows_default_and_ceiling():
    lines = lines_of(80, best=None)
    assert [line.split()[0] for line in lines] == ["time", "default", "ceiling"]


def lines_of(width, ceiling_s=0.25, **changes):
    return outcome_table([finished(ceiling_s=ceiling_s, **changes)], width)


def test_the_table_has_default_best_and_ceiling():
    assert lines_of(80) == [
        "           time   throughput  of ceiling  over default         range",
        "default  1.00 s  1.00 GFLOPS        25 %",
        "best     500 ms  2.00 GFLOPS        50 %         2.00x  1.73 to 2.45",
        "ceiling  250 ms  4.00 GFLOPS       100 %         4.00x",
    ]


def test_the_table_has_what_the_library_takes_where_it_was_timed():
    status = replace(finished(ceiling_s=0.25), library_s=0.4)
    assert outcome_table([status], 80)[3:] == [
        "cuBLAS   400 ms  2.50 GFLOPS        62 %         2.50x",
        "ceiling  250 ms  4.00 GFLOPS       100 %         4.00x",
    ]


def test_a_narrow_table_keeps_times_and_shares():
    assert lines_of(40) == [
        "           time   throughput  of ceiling",
        "default  1.00 s  1.00 GFLOPS        25 %",
        "best     500 ms  2.00 GFLOPS        50 %",
        "ceiling  250 ms  4.00 GFLOPS       100 %",
    ]


def test_the_table_does_without_a_ceiling_and_hides_what_noise_hides():
    noisy = lines_of(80, ceiling_s=None, default_costs_s=(1.0, 1.0, 9.0))
    assert noisy == [
        "           time   throughput  over default      range",
        "default  1.00 s  1.00 GFLOPS",
        "best     500 ms  2.00 GFLOPS             ?  too noisy",
    ]
    assert lines_of(80, ceiling_s=None, default_costs_s=None) == []


def test_why_a_run_ended_early_is_told():
    assert remarks([finished(ended=End.TIME, why="10 s are over")]) == ["stopped: 10 s are over"]
    failed = finished(label="one", ended=End.FAILED, why="it cannot be measured")
    assert remarks([failed, finished(label="two")]) == ["one: failed: it cannot be measured"]


def test_a_best_that_is_faster_than_the_ceiling_is_explained():
    (said,) = remarks([finished(ceiling_s=0.6)])
    assert said == "faster than the ceiling as measured: was the machine busy then?"
    assert remarks([finished(ceiling_s=0.52)]) == []


def several():
    nothing = {"best": None, "default_costs_s": None}
    return [
        finished(label="matmul-512", ceiling_s=0.25),
        finished(label="softmax", work=Work(None, 8e6), ceiling_s=1e-3, best_costs_s=(2e-3, 2e-3),
                 default_costs_s=(1.6e-2, 1.6e-2)),
        finished(label="broken", failures={"WRONG_ANSWER": 2}, trials=2, **nothing),
    ]  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 200])
def test_several_workloads_have_a_row_each(width):
    lines = outcome_table(several(), width)
    assert max(map(len, lines)) <= width
    assert [line.split()[0] for line in lines[1:]] == ["matmul-512", "softmax", "broken"]
    assert "500 ms" in lines[1]
    assert "nothing valid" in lines[3]
    assert ("8.00x" in lines[2]) == (width >= 80)
    assert ("1.73 to 2.45" in lines[1]) == (width >= 80)
    assert ("GFLOPS" in lines[1]) == (width == 200)


@pytest.mark.parametrize("width", [40, 80])
def test_long_names_of_workloads_are_folded_and_take_no_figures_away(width):
    label = "conv2d_nchw c=512 h=14 w=14 o=512 kh=3 kw=3"
    lines = outcome_table([finished(label=label, ceiling_s=0.25), several()[1]], width)
    assert max(map(len, lines)) <= width
    assert "500 ms" in lines[1]
    assert "50 % ceiling" in lines[1]
    row = lines[1 : [line.split()[0] for line in lines].index("softmax")]
    assert " ".join(line.partition("   ")[0].strip() for line in row) == label


def test_the_last_line_of_several_has_the_mean_ratio_of_those_that_have_one():
    assert last_line(several(), 75.0) == (
        "best of 2 of 3 workloads, 4.00x the default, geometric mean; 130 trials; "
        "2 failed (2 wrong answer); 1:15 min"
    )
