"""An experiment in words: summary, description, result, profile. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from roofsmith.analysis.figures import one_line, ratio
from roofsmith.domain.comparison import Comparison
from roofsmith.domain.experiment import SUMMARY_LENGTH, Experiment, result_of
from roofsmith.wording import printable

_MOST_COUNTERS = 20


class Words(NamedTuple):
    change_summary: str
    detailed_description: str
    raw_result: str
    profiling_info: str


def words_of(row: Experiment, compared: Comparison | None, alike: str = "") -> Words:
    """What a round's experiment says in words; `compared` if it passed, `alike` of attempts before
    it."""
    result = _result(row)
    return Words(
        _summary(_change(row), result),
        "\n\n".join(_description(row, result, alike)),
        "\n".join(_raw_result(row, result, compared)),
        "\n".join(_profile(row)),
    )


def _summary(change: str, result: str) -> str:
    """<What> - <Result>, in `SUMMARY_LENGTH` characters; the result is never cut."""
    tail = f" - {one_line(printable(result), 50)}"
    return one_line(printable(change), SUMMARY_LENGTH - len(tail)) + tail


def _change(row: Experiment) -> str:
    if row.hypothesis is not None:
        return row.hypothesis.statement.rstrip(".")
    return "Baseline" if row.status == "baseline" else "No proposal"


def _result(row: Experiment) -> str:
    if row.status == "baseline":
        return "the starting point"
    if row.effect is None:
        return f"{row.status}: {row.error_message.partition(':')[0]}"
    own = "self-reported " if row.self_reported else ""
    return f"{own}{ratio(row.effect.speedup, row.effect.ci)}, {row.status.replace('_', ' ')}"


def _description(row: Experiment, result: str, alike: str) -> Iterator[str]:
    hypothesis = row.hypothesis
    details = [] if hypothesis is None else [*hypothesis.evidence, *hypothesis.facts]
    why = "" if hypothesis is None else hypothesis.rationale
    yield "\n".join(
        (f"**Approach**: {_change(row)}", *(f"- {one}" for one in details), why)
    ).strip()
    predicted = None if hypothesis is None else hypothesis.predicted_speedup
    notes = [] if predicted is None else [f"- predicted {predicted:.2f}x"]
    notes += [f"- {note}" for note in row.notes]
    yield "\n".join((f"**Result**: {result}", *notes, row.error_message)).strip()
    worked = {"success": "worked", "neutral": "decided little", "failure": "failed"}[row.outcome]
    reasons = (row.rule, *movement(row), *((alike,) if alike else ()))
    yield f"**Why it {worked}**: {'. '.join(reasons)}"
    yield f"**Key insight**: {_insight(row)}"


def _insight(row: Experiment) -> str:
    held = f"held back by {row.bottleneck.kind}" if row.bottleneck is not None else "like this one"
    change, where = _change(row), f"on {row.operator} kernels in {row.backend}, {held}"
    if row.status == "baseline":
        return f"where {row.operator} in {row.backend} begins, {held}"
    if row.is_buggy or row.status == "refused":
        return f"as it was written, it doesn't work: {change}"
    told = {"success": "pays", "neutral": "decides little", "failure": "doesn't pay"}
    if row.hypothesis is not None and row.hypothesis.insight:
        return f"{row.hypothesis.insight.rstrip('.')} ({told[row.outcome]} {where})"
    return f"{told[row.outcome]} {where}: {change}"


def movement(row: Experiment) -> Iterator[str]:
    """The counter that was to move, before and after."""
    name = row.hypothesis.expected_counter if row.hypothesis is not None else None
    if name in row.counters_before and name in row.counters_after:
        yield f"{name} {row.counters_before[name]:.4g} -> {row.counters_after[name]:.4g}"


def _raw_result(row: Experiment, result: str, compared: Comparison | None) -> Iterator[str]:
    if compared is None:
        mark = "BASELINE" if row.status == "baseline" else "CRASH" if row.is_buggy else "FAILURE"
        yield f"Iteration {row.round} Results - [{mark}]:"
        yield f"**Key finding**: {result}"
        return
    mark = {"success": "SUCCESS", "neutral": "NEUTRAL", "failure": "REGRESSION"}[row.outcome]
    yield f"Iteration {row.round} Results - [{mark}]:"
    way = "IMPROVEMENT" if row.score >= 1 else "REGRESSION"
    yield f"**Overall**: {row.score:.4f}x speedup = {(row.score - 1) * 100:+.2f}% [{way}]"
    yield "**Per-kernel breakdown**:"
    found = [(one.workload, one.estimate) for one in compared.workloads]
    for label, estimate in found:
        gain = (estimate.speedup - 1) * 100
        yield f"- {label}: {estimate.speedup:.4f}x ({gain:+.2f}%)"
    results = [result_of(one.speedup, one.ci, is_buggy=False) for _, one in found]
    up, same = results.count("success"), results.count("neutral")
    yield f"**Summary**: {up} improvements, {same} neutral, {len(found) - up - same} regressions"
    yield f"**Key finding**: {_insight(row)}"


def _profile(row: Experiment) -> Iterator[str]:
    if row.bottleneck is not None:
        yield f"Bottleneck before: {row.bottleneck.kind} ({'; '.join(row.bottleneck.evidence)})"
    if row.stall:
        yield f"Longest wait before: {row.stall}"
    both = {**row.counters_before, **row.counters_after}
    for name in list(both)[:_MOST_COUNTERS]:
        ends = (row.counters_before.get(name), row.counters_after.get(name))
        old, new = ("-" if value is None else f"{value:.4g}" for value in ends)
        yield f"- {name}: {old} -> {new}"
    if not both:
        yield "Not profiled."
