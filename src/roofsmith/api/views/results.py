"""What people are shown of judgements, measurements and campaigns."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.bottleneck import decided_by
from roofsmith.analysis.compare import LOOK_ERROR_RATE
from roofsmith.analysis.compiled import MAX_LINES, candidates_for, described
from roofsmith.analysis.cost import is_bytes_only, unsaid_operations
from roofsmith.analysis.departures import departures
from roofsmith.analysis.doubt import doubt_about
from roofsmith.analysis.fractions import attainable_share, final_fraction
from roofsmith.analysis.rulebook import RULES
from roofsmith.analysis.spending import COLUMNS, spending_rows, spendings
from roofsmith.analysis.unproven import waiting_in
from roofsmith.analysis.whole_runs import warnings
from roofsmith.api.views.blocks import Blocks, Table
from roofsmith.api.views.records import decided, measured_ratio, own_fraction
from roofsmith.domain.campaign import Campaign, Round, Stopped
from roofsmith.domain.comparison import ErrorReport, Judgement, Timing, worst_of_outputs
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.engine.retrying import due_retry
from roofsmith.engine.verify import VerifyFinding
from roofsmith.ports import Measured
from roofsmith.report.arithmetic import before_and_after
from roofsmith.report.headline import rests_on
from roofsmith.report.inspections import inspection_lines
from roofsmith.report.next_steps import DIFFERENCE, taken_home
from roofsmith.report.reported import LABEL, notice
from roofsmith.report.steps import status_of
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import Summary
from roofsmith.store.lineage_place import remembered

if TYPE_CHECKING:
    from roofsmith.api.finished import FinishedCampaign
    from roofsmith.api.looking import Look
    from roofsmith.api.session import ToldRounds
    from roofsmith.api.verification import Verification

ASIDES = ("same arrays again", "launch to launch")
"""Times of a GPU's kernel that nothing is decided on: caches warm, and as the host launches it."""
ERRORS = ("workload", "output", "inputs", "norm error", "allowed", "element error", "allowed")
"""Columns of `error_rows`."""
_MOST_ROWS = 12
"""Workloads that `tell` has a row for."""
_MANY = 5
"""Places of which the same is said, beyond which a line names the first of them only."""


def judgement(found: Judgement) -> Blocks:
    """Verdict, ratio with interval, and a line per workload."""
    comparison, passed = found.comparison, isinstance(found.outcome, Passed)
    ratio = f"  {measured_ratio(found)}" if comparison and passed else ""
    yield from [f"{found.verdict}{ratio}", *_failure_lines(found.outcome)]
    if comparison:
        yield Table(
            ("workload", "speedup", "candidate", "incumbent", "roofline"),
            [
                (
                    w.workload,
                    fmt.ratio(w.estimate.speedup, w.estimate.ci),
                    fmt.time(w.candidate_time_s),
                    fmt.time(w.incumbent_time_s),
                    _share(w.floor_time_s, w.candidate_time_s, is_bytes_only(found.notes)),
                )
                for w in comparison.workloads
            ],
        )
    yield from _isolation(found.isolation)
    yield from (f"note: {note}" for note in found.notes)


def _isolation(label: str | None) -> list[str]:
    """What kept a kernel apart; nothing where none ran."""
    return [] if label is None else [f"isolation: {label}"]


def measured(found: Measured, measure: Measure = TIME, *, bytes_only: bool = False) -> Blocks:
    """Right or wrong, how far off, and how fast."""
    yield from _failure_lines(found.outcome) or [status_of(found.outcome)]
    if found.timings:
        asides = any(timing.launch_time_s is not None for timing in found.timings)
        yield Table(
            ("workload", measure.name, "interval", "roofline", *(ASIDES if asides else ())),
            [_timing_row(one, measure, asides, bytes_only) for one in found.timings],
        )
    elif found.errors:
        yield Table(ERRORS, error_rows(found.errors))
    yield from (described(kernel) for kernel in found.resources)
    if found.inspection is not None:
        yield from inspection_lines(found.inspection)
    yield from _isolation(found.isolation)
    yield from (f"note: {note}" for note in found.notes)


def profiles(found: Sequence[Profile]) -> Blocks:
    """Counters per workload."""
    for profile in found:
        yield f"{profile.workload}  ({_tool(profile)})"
        if profile.counters:
            yield Table(
                ("counter", "value"),
                [(c.name, fmt.counter(c.value, c.unit, c.name)) for c in profile.counters],
            )
        yield from (described(kernel) for kernel in profile.resources)
        yield from (f"note: {note}" for note in profile.notes)


def bottlenecks(found: Sequence[tuple[str, Bottleneck]]) -> Blocks:
    """What limits a kernel on each workload, and why we think so."""
    for label, bottleneck in found:
        kind = f"{bottleneck.kind}-bound" if bottleneck.kind != "unknown" else "UNKNOWN"
        sure = f"confidence {fmt.percent(bottleneck.confidence)}"
        share = fmt.share(bottleneck.roofline_fraction, is_bytes_only(bottleneck.evidence))
        yield from [
            f"{label}  {kind}, {share} of roofline, {sure}",
            f"  {decided_by(bottleneck)}",
            *(f"  {line}" for line in bottleneck.evidence),
        ]
    for kind in dict.fromkeys(one.kind for _, one in found if one.kind != "unknown"):
        yield f"what helps: roofsmith knowledge route --bottleneck {kind} (--op, --gpu, --lang)"


def finished(found: FinishedCampaign) -> Blocks:
    """The table of rounds, the total, and where to look next."""
    campaign = found.campaign
    if campaign.rounds:
        yield Table(
            ("round", "decision", "verdict", "speedup", "roofline", "change"),
            [_round_row(round_, campaign.started.bytes_only) for round_ in campaign.rounds],
            shorten=5,
        )
        yield ""
    if spent := spending_rows(spendings(campaign)):
        yield Table(COLUMNS, spent, shorten=0)
        yield ""
    yield from [*_result_lines(found), "", *_next_lines(found)]


def looked(found: Look) -> Blocks:
    """Right or wrong on a draw, about how fast, what doesn't hold, and what a round would meet."""
    seen = found.judgement.comparison
    yield from _failure_lines(found.judgement.outcome) or ["right on one draw"]
    if found.is_right and seen is not None:
        of = f"{len(seen.workloads)} of {fmt.plural(found.workloads, 'workload')}"
        yield (
            f"about {fmt.ratio(seen.overall.speedup, seen.overall.ci)} over the kernel that holds,"
            f" in {fmt.plural(seen.overall.pairs, 'pair')} on {of}; either end of such an interval"
            f" is wrong once in {1 / LOOK_ERROR_RATE:.0f} times"
        )
    elif found.is_right:
        yield "every pair was disturbed by other processes"
    if found.cited:
        yield from found.stale or (f"what it cites holds ({found.cited})",)
    yield from (f"note: {text}" for text in (*found.judgement.notes, *found.remarks))
    yield "nothing is decided or recorded by it; `roofsmith tell` judges it as a round"


def told(found: ToldRounds) -> Blocks:
    """One round from outside, the dispatch that followed from it, and the end that they led to."""
    if (refusal := found.refusal) is not None:
        how = refusal.reason.replace("_", " ")
        yield f"{how if found.gave_up else f'refused ({how})'}: {refusal.detail}"
        if refusal.hypothesis is not None:
            yield f"it said: {fmt.one_line(refusal.hypothesis.statement)}"
    for round_ in found.rounds:
        yield from _told_lines(round_)
        yield from (f"beside its idea: {one}" for one in departures(found.campaign, round_))
        error_rate, rule = found.campaign.started.target.keep.error_rate, round_.decision.rule
        yield from (text for text in warnings(round_.judgement, error_rate) if text not in rule)
        yield from _before_and_after(round_.judgement, found.campaign)
        yield from _about_it(round_)
        if (doubt := doubt_about(round_, found.campaign)) is not None:
            yield from [f"why:  {doubt.why}", f"next: {doubt.next}"]
    yield from (f"remark: {remark}" for remark in found.remarks)
    if found.stopped:
        yield _stopped_line(found.stopped)


def _told_lines(round_: Round) -> list[str]:
    decision, judgement = round_.decision, round_.judgement
    says_itself = judgement.self_reported and judgement.comparison is not None
    return [
        f"round {round_.round}: {decided(round_)[0]}  {measured_ratio(judgement)}",
        decision.rule,
        *([f"no dispatch follows: {round_.unsplit}"] if round_.unsplit else []),
        *([decision.dispatch.sentence] if decision.kind == "kept" and decision.dispatch else []),
        *([f"{LABEL} by the repository's own benchmark"] if says_itself else []),
        *(f"unsourced: {number} (cite it with --fact)" for number in round_.unsourced),
        *_failure_lines(judgement.outcome)[1:],  # the first says what the rule says
    ]


def _about_it(round_: Round) -> Iterator[str]:
    """How far off a candidate is, in a line, and what its GPU kernels take."""
    off = [
        f"`{one.output}` by {fmt.error(one.norm_error)} of {fmt.error(one.norm_budget)} norm-wise,"
        f" {fmt.error(one.element_error)} of {fmt.error(one.element_budget)} element-wise"
        for one in worst_of_outputs(round_.judgement.errors)
    ]
    if off:
        yield f"error, of what is allowed: {'; '.join(off)}"
    if round_.profile is not None:
        yield from map(described, candidates_for(round_.profile)[:MAX_LINES])


def _before_and_after(found: Judgement, campaign: Campaign) -> Blocks:
    """A row per workload, the slowest first: what the kernel took before, and takes now."""
    if found.comparison is None or not isinstance(found.outcome, Passed):
        return
    target = campaign.started.target
    rows = sorted(found.comparison.workloads, key=lambda one: -one.incumbent_time_s)
    yield Table(
        ("workload", "before", "after", "speedup", "of roofline"),
        [
            (one.workload, before, after, fmt.ratio(one.estimate.speedup, one.estimate.ci), shares)
            for one in rows[:_MOST_ROWS]
            for before, after, shares in [
                before_and_after(
                    found,
                    one,
                    target.measure,
                    target.keep.error_rate,
                    bytes_only=campaign.started.bytes_only,
                )
            ]
        ],
    )
    if (left := len(rows) - _MOST_ROWS) > 0:
        yield f"{fmt.plural(left, 'faster workload')} left out; --json has all"


def verification(found: Verification) -> Blocks:
    """What was recomputed, and what doesn't follow."""
    if not found.findings:
        sizes = ("record", found.records), ("round", found.rounds), ("commit", found.commits)
        size = ", ".join(fmt.plural(count, name) for name, count in sizes)
        what = "every comparison and decision follows from the raw samples"
        yield f"verified: {size}; {'no fact is contradicted' if found.versions else what}"
    yield from _grouped(found.findings)
    yield from _other_rules(found)
    yield from (f"note: {line}" for line in _grouped(found.notes))
    yield from (f"not checked: {line}" for line in _grouped(found.unchecked))


def _other_rules(found: Verification) -> Iterator[str]:
    """What was decided by other versions of the rules, and so was looked at as facts alone."""
    if not found.versions:
        return
    age = "older" if found.versions[-1] < RULES else "other"
    numbers = ", ".join(map(str, found.versions))
    yield (
        f"decided by {age} rules (version {numbers}; today's is {RULES}): chain, samples, medians"
        " and totals were checked; what today's rules would conclude otherwise is a note:"
        f" {fmt.plural(len(found.notes), 'note')}"
    )


def _grouped(findings: Iterable[VerifyFinding]) -> Iterator[str]:
    """A line each, but one for what is said of many places; JSON names every one."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        places.setdefault(finding.what, []).append(finding.where)
    for what, where in places.items():
        if len(where) > _MANY:
            yield f"{where[0]} and {len(where) - 1} more: {what}"
        else:
            yield from (f"{place}: {what}" for place in where)


def _failure_lines(outcome: Outcome) -> list[str]:
    if isinstance(outcome, Passed):
        return []
    lines = [f"{status_of(outcome)} ({outcome.reason})", *outcome.detail.splitlines()]
    return [*lines, f"log: {outcome.log}"] if outcome.log else lines


def _round_row(round_: Round, bytes_only: bool) -> tuple[str, ...]:
    return (
        f"#{round_.round}",
        decided(round_)[0],
        round_.judgement.verdict,
        measured_ratio(round_.judgement),
        own_fraction(round_.judgement, bytes_only),
        fmt.one_line(round_.hypothesis.statement),
    )


def _timing_row(
    timing: Timing, measure: Measure, asides: bool, bytes_only: bool
) -> tuple[str, ...]:
    row = (
        timing.workload,
        fmt.measured(timing.time_s, measure),
        fmt.measured_interval(timing.ci, measure),
        _share(timing.floor_time_s, timing.time_s, bytes_only),
    )
    if not asides:
        return row
    others = (timing.hot_time_s, timing.launch_time_s)
    return (*row, *(fmt.UNKNOWN if time_s is None else fmt.time(time_s) for time_s in others))


def _stopped_line(stopped: Stopped) -> str:
    return f"stopped: {stopped.code.replace('_', ' ')}: {stopped.detail}"


def _attainable(campaign: Campaign) -> str:
    share = attainable_share(final_fraction(campaign), campaign.started.bounds)
    shown = fmt.share(share, campaign.started.bytes_only)
    return "" if share is None else f"{shown} of what memory gives under the judge's conditions, "


def _result_lines(found: FinishedCampaign) -> list[str]:
    campaign = found.campaign
    stopped = campaign.stopped
    summary = summarize(campaign)
    lines = [
        f"{_headline(summary)} over the baseline, "
        f"{fmt.share(final_fraction(campaign), campaign.started.bytes_only)} of the roofline, "
        f"{_attainable(campaign)}{fmt.plural(len(campaign.kept), 'change')} kept"
        f" of {len(campaign.rounds)}, {fmt.duration(found.wall_s)}"
    ]
    lines += [text for text in (rests_on(campaign, summary),) if text]
    lines += _unseen(summary)
    if campaign.started.bytes_only:
        lines.append(unsaid_operations(campaign.started.target))
    lines += _warned(campaign)
    if stopped:
        lines.append(_stopped_line(stopped))
    lines += _undecided(campaign)
    if said := notice(campaign.started.target):
        lines.append(said)
    lines.append(f"report:  {_near(found.report)}")
    if found.branch:
        lines.append(f"commits: branch {found.branch}")
    return [*lines, *(f"note:    {note}" for note in found.notes)]


def _headline(summary: Summary) -> str:
    ratio = summary.headline
    return fmt.UNKNOWN if ratio is None else fmt.ratio(ratio.value, ratio.ci)


def _unseen(summary: Summary) -> Iterator[str]:
    """How fast it is where no proposer could look, beside the headline."""
    if summary.unseen is not None:
        yield summary.unseen.line


def _warned(campaign: Campaign) -> Iterator[str]:
    """What stands beside gains that only a repository's own benchmark sees."""
    error_rate = campaign.started.target.keep.error_rate
    for round_ in campaign.kept:
        for text in warnings(round_.judgement, error_rate):
            yield f"round {round_.round}: {text}"


def _undecided(campaign: Campaign) -> Iterator[str]:
    """Where nothing was kept: how many changes nobody can say anything of, why, and what helps."""
    steps = [step for step in summarize(campaign).steps if step.is_undecided]
    tried = fmt.plural(len(campaign.rounds), "change")
    if spoiled := [step.outcome for step in steps if step.is_incumbents]:
        detail = fmt.first_line(spoiled[-1].detail if spoiled[-1] is not None else "")
        yield f"undecided: {len(spoiled)} of {tried}: the kernel that holds failed: {detail}"
    numbers = {step.number for step in steps if not step.is_incumbents}
    if numbers and not campaign.kept:
        waiting = waiting_in([r.judgement for r in campaign.rounds if r.round in numbers])
        why = waiting or "intervals hold both a gain and none, and nobody disturbed many pairs"
        helps = "`roofsmith doctor` shows the load" if waiting else "`keep.judge_budget_s` is time"
        yield f"undecided: {len(numbers)} of {tried}: {why}; {helps}"


def _next_lines(found: FinishedCampaign) -> list[str]:
    where = shlex.quote(_near(found.directory))
    commands = (
        *_goes_on(found, where),
        *_taken_home(found, where),
        (f"roofsmith verify {where}", "recompute every decision from the raw samples"),
        (f"roofsmith ask {where}", "what an outside proposer needs; `tell` judges its change"),
    )
    width = max(len(command) for command, _ in commands)
    return ["next:", *(f"  {command:<{width}}  {why}" for command, why in commands)]


def _taken_home(found: FinishedCampaign, where: str) -> Iterator[tuple[str, str]]:
    home = taken_home(found.campaign)
    if home is not None:
        built = f"; build it with {home.build}" if home.build else ""
        place = remembered(found.directory)
        known = place is not None and place.kernel
        to, whose = ("", "your files") if known else (" --to DIR", "a folder")
        yield f"roofsmith apply {where}{to}", f"put the kernel into {whose} ({DIFFERENCE}){built}"


def _goes_on(found: FinishedCampaign, where: str) -> Iterator[tuple[str, str]]:
    """How to go on after this end, if there is a command for it: more rounds, more time."""
    for step in summarize(found.campaign).next_steps:
        if step.command is not None and step.command.startswith("roofsmith resume ."):
            yield step.command.replace(" .", f" {where}", 1), step.title.lower()
    stopped = found.campaign.stopped
    if stopped and stopped.code == "out_of_ideas" and due_retry(found.campaign, resumed=True):
        yield f"roofsmith resume {where}", "judge again what was disturbed, on a quieter machine"
    elif stopped and stopped.code == "out_of_ideas":
        steps = summarize(found.campaign).next_steps
        left = next((one.title for one in steps if one.title.startswith("Answer the")), "")
        why = f"have an agent think of more{f': {left[0].lower()}{left[1:]}' if left else ''}"
        yield f"roofsmith resume {where} --proposer auto,agent:NAME", why


def _near(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _share(floor_time_s: float | None, time_s: float, bytes_only: bool) -> str:
    return fmt.share(None if floor_time_s is None else floor_time_s / time_s, bytes_only)


def _tool(profile: Profile) -> str:
    return "no counters" if profile.tool == "none" else profile.tool


def error_rows(errors: Sequence[ErrorReport]) -> list[tuple[str, ...]]:
    """A row per workload and output, under `ERRORS`; JSON has every kind of inputs."""
    tried: dict[tuple[str, str], list[ErrorReport]] = {}
    for error in errors:
        tried.setdefault((error.workload, error.output), []).append(error)
    return [_error_row(reports) for reports in tried.values()]


def _error_row(reports: Sequence[ErrorReport]) -> tuple[str, ...]:
    worst = max(reports, key=lambda report: report.share)
    kinds = worst.inputs if len(reports) == 1 else f"{worst.inputs} (worst of {len(reports)})"
    figures = (worst.norm_error, worst.norm_budget, worst.element_error, worst.element_budget)
    return (worst.workload, worst.output, kinds, *map(fmt.error, figures))
