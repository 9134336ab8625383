"""What a run achieved: a table of default, best and ceiling, and one last line."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from autotune.report.progress import WorkloadStatus, all_failures, failures_text
from autotune.report.ratio import Ratio
from autotune.report.text_tables import TableColumn, fitted
from autotune.report.units import duration_text, percent_text, three_digits, time_text
from autotune.system.words import counted
from autotune.tuner.run.events import End, TuneSummary

LIBRARY = "cuBLAS"  # The only library of a vendor that is timed.
_ABOVE = 1.1  # Share of the ceiling that only a wrong ceiling explains: its measurement errs, too.


def over_default(status: WorkloadStatus) -> Ratio | None:
    """Return how much faster the best of a finished workload is than its default.

    None if either was not timed, or they are one and the same.
    """
    summary = status.summary
    if summary is None or summary.best is None or status.best_is_default:
        return None
    if not summary.best.is_trial:
        return Ratio.of_final(summary.best)
    return Ratio.of(summary.best.costs_s, summary.default_costs_s)


def outcome_table(statuses: Sequence[WorkloadStatus], width: int) -> list[str]:
    """Return the table that a run ends with as lines; none if there is nothing to compare.

    statuses: of the workloads that were tuned to their end, each with its summary.
    width: columns of the terminal.
    """
    columns = outcome_columns(statuses)
    if not columns or len(statuses) == 1:
        return fitted(columns, width) if columns else []
    return fitted([columns[0].folded(max(12, width // 3)), *columns[1:]], width)


def outcome_columns(statuses: Sequence[WorkloadStatus]) -> list[TableColumn]:
    """Return the columns of that table."""
    return _columns_of_one(statuses[0]) if len(statuses) == 1 else _columns_of_several(statuses)


def remarks(statuses: Sequence[WorkloadStatus]) -> list[str]:
    """Return why a run ended before its number of trials, and remarks on unusual figures."""
    lines = []
    for status in statuses:
        assert status.summary is not None
        name = f"{status.job.label}: " if status.job.label else ""
        if status.summary.why:
            how = "failed" if status.summary.ended is End.FAILED else "stopped"
            lines.append(f"{name}{how}: {status.summary.why}")
        if status.summary.refused:
            lines.append(f"{name}{refusals_text(status.summary.refused)}")
        if final := _final_text(status):
            lines.append(f"{name}{final}")
        if (status.share or 0.0) > _ABOVE:
            lines.append(f"{name}faster than the ceiling as measured: was the machine busy then?")
    return lines


def _final_text(status: WorkloadStatus) -> str:
    """Return a remark on a result that is no clear win in a final comparison, else ""."""
    summary = status.summary
    if summary is None or summary.best is None:
        return ""
    if not summary.best.is_trial:
        if not status.best_is_default:
            return ""
        return "the default is the result: timed beside it, no other was clearly faster"
    lacking = _lacks_final(status)
    return f"{lacking}: the times are those of trials" if lacking else ""


def _lacks_final(status: WorkloadStatus) -> str:
    """Return why a run has no final comparison behind its result; "" if it has one."""
    summary = status.summary
    if summary is None or summary.best is None or not summary.best.is_trial:
        return ""
    return "" if status.best_is_default else summary.no_finals


def nothing_measured(summary: TuneSummary) -> str:
    """Return that a run without trials measured nothing, and why, as far as that is known."""
    if summary.refused:
        return f"nothing was measured: {refusals_text(summary.refused)}"
    over = summary.ended is End.TIME
    return f"nothing was measured{' before the time was over: give more' if over else ''}"


def refusals_text(refused: Mapping[str, int]) -> str:
    """Return which rules rejected proposals that were then not built."""
    total = sum(refused.values())
    what = "1 proposal was" if total == 1 else f"{total} proposals were"
    rules = ", ".join(f"{rule} rejects {count}" for rule, count in refused.items())
    return f"{what} refused: {rules}"


def _columns_of_one(status: WorkloadStatus) -> list[TableColumn]:
    """Return default, best and ceiling, a row each; nothing if there is nothing to compare."""
    summary, work = status.summary, status.job.work
    assert summary is not None
    times = {
        "default": summary.default_cost_s,
        "best": status.best_s,
        LIBRARY: status.library_s,
        "ceiling": status.ceiling_s,
    }
    known = {name: time_s for name, time_s in times.items() if time_s is not None}
    if len(known) < 2:
        return []
    ratio, default_s, ceiling_s = over_default(status), known.get("default"), status.ceiling_s
    ratios, ranges = dict.fromkeys(known, ""), dict.fromkeys(known, "")
    if "best" in known:
        ratios["best"], ranges["best"] = _ratio_texts(status)
    if default_s is not None and (ratio is None or not ratio.noisy):
        for name in known.keys() & {LIBRARY, "ceiling"}:
            ratios[name] = f"{three_digits(default_s / known[name])}x"
    shares = ["" if ceiling_s is None else percent_text(ceiling_s / t) for t in known.values()]
    return [
        TableColumn("", list(known), 0, right=False),
        TableColumn("time", [time_text(time_s) for time_s in known.values()], 1),
        TableColumn("throughput", [work.speed_text(time_s) for time_s in known.values()], 2),
        TableColumn(f"of {status.roof}", shares, 3),
        TableColumn("over default", list(ratios.values()), 4),
        TableColumn("range", list(ranges.values()), 5),
    ]


def _columns_of_several(statuses: Sequence[WorkloadStatus]) -> list[TableColumn]:
    """Return a row per workload."""
    rows = []
    for status in statuses:
        summary = status.summary
        assert summary is not None
        time_s, share = status.best_s, status.share
        rows.append(
            (
                status.job.label,
                _time(summary.default_cost_s),
                _time(time_s) or "nothing valid",
                _time(status.ceiling_s),
                "" if time_s is None else status.job.work.speed_text(time_s),
                "" if share is None else f"{percent_text(share)} {status.roof}",
                *_ratio_texts(status),
                str(summary.trials),
            )
        )
    ranks = {"": 0, "default": 5, "best": 1, "ceiling": 6, "throughput": 7, "of ceiling": 2}
    ranks |= {"over default": 3, "range": 4, "trials": 8}
    return [
        TableColumn(name, cells, rank, right=bool(name))
        for (name, rank), cells in zip(ranks.items(), zip(*rows, strict=True), strict=True)
    ]


def _ratio_texts(status: WorkloadStatus) -> tuple[str, str]:
    """Return the best's ratio to the default, and its range."""
    ratio = over_default(status)
    if ratio is None:
        return ("itself" if status.best_is_default else ""), ""
    return ratio.text, ratio.range_text


def _time(seconds: float | None) -> str:
    return "" if seconds is None else time_text(seconds)


def last_line(
    statuses: Sequence[WorkloadStatus], elapsed_s: float, noise: float | None = None
) -> str:
    """Return the result of a run in one line.

    statuses: of the workloads that were tuned to their end, each with its summary.
    elapsed_s: wall time of the whole run.
    noise: by what share a reference kernel was slower at worst, if the machine was noisy.
    """
    said = _best_of_one(statuses[0]) if len(statuses) == 1 else _best_of_several(statuses)
    summaries = [status.summary for status in statuses if status.summary is not None]
    said.append(counted(sum(summary.trials for summary in summaries), "trial"))
    if failures := all_failures(summary.failures for summary in summaries):
        said.append(failures_text(failures))
    lacking = sum(bool(_lacks_final(status)) for status in statuses)
    if lacking:
        where = "" if len(statuses) == 1 else f" of {lacking} of them"
        said.append(f"no final comparison{where}")
    if len(statuses) == 1 and summaries[0].ended is End.EXHAUSTED and not summaries[0].why:
        copies = summaries[0].copies
        same = f", {counted(copies, 'copy', 'copies')} aside" if copies else ""
        said.append(f"the space holds no more{same}")
    if noise is not None:
        said.append(f"noisy machine ({percent_text(noise)})")
    said.append(duration_text(elapsed_s))
    return "; ".join(said)


def _best_of_one(status: WorkloadStatus) -> list[str]:
    if status.best is None:
        summary = status.summary
        if summary is None or summary.trials:
            return ["nothing valid was found"]
        return [nothing_measured(summary)]
    said = [f"best {time_text(status.best.cost_s)}", status.speed]
    if status.share_text:
        said.append(status.share_text)
    if (ratio := over_default(status)) is not None:
        said.append(ratio.sentence("the default"))
    elif status.best_is_default:
        said.append("which is the default")
    return [", ".join(said), f"config {status.best.index}"]


def _best_of_several(statuses: Sequence[WorkloadStatus]) -> list[str]:
    summaries = [status.summary for status in statuses if status.summary is not None]
    found = sum(summary.best is not None for summary in summaries)
    said = [f"best of {found} of {len(summaries)} workloads"]
    ratios = [r for s in statuses if (r := over_default(s)) is not None and not r.noisy]
    if ratios:
        mean = statistics.geometric_mean(ratio.value for ratio in ratios)
        among = "" if len(ratios) == found else f" of {len(ratios)} of them"
        said.append(f"{three_digits(mean)}x the default, geometric mean{among}")
    return [", ".join(said)]
