"""One line per record of a campaign, as pieces of text with styles."""

from __future__ import annotations

import textwrap
from typing import assert_never

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.compare import LARGEST_RATIO, is_disturbed
from roofsmith.analysis.cost import unsaid_operations
from roofsmith.analysis.doubt import doubt_about
from roofsmith.analysis.fractions import fraction_of_candidate
from roofsmith.analysis.whole_runs import warnings
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import (
    Baseline,
    Campaign,
    Committed,
    Event,
    Kept,
    Masked,
    Noted,
    Profiled,
    Resumed,
    RolledBack,
    Round,
    Started,
    Stopped,
)
from roofsmith.domain.comparison import Judgement, Timing
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.outcome import Cheated, Passed
from roofsmith.domain.proposal import Planned
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.yardstick import PyTorchBaselineResult, PyTorchBaselines
from roofsmith.report.reported import LABEL
from roofsmith.report.standings import ratio_over
from roofsmith.report.summarize import kernel_threads, summarize

Line = list[tuple[str, str]]
"""Pieces of text, each with a rich style; an empty style is plain."""

WIDE = 110
"""Columns from which a round fits one line; below, it takes two."""
MOST_LINES = 4
"""Of why a round says nothing of its change."""
_FIGURES_WIDTH = 70
"""What a round's line holds beside its statement, in columns that are aligned."""
_VERDICT_STYLES = {
    "faster": "green",
    "slower": "red",
    "tie": "yellow",
    "inconclusive": "yellow",
    "unverified": "yellow",
    "rejected": "magenta",
}


def lines_for(event: Event, campaign: Campaign, width: int = WIDE) -> list[Line]:
    """What a screen of `width` columns says about a record that was just written."""
    match event:
        case Started():
            return _started(event)
        case Baseline():
            return [_baseline(event, campaign.started)]
        case Round():
            lines = round_lines(event, width, bytes_only=campaign.started.bytes_only)
            beside = warnings(event.judgement, campaign.started.target.keep.error_rate)
            said = [_beneath(text, width) for text in beside]
            return [*lines, *_unbelieved(event, campaign, width), *said]
        case PyTorchBaselines():
            return [_yardstick(result) for result in event.results]
        case Stopped():
            return [_stopped(event, campaign)]
        case Resumed():
            return [
                [("resumed  ", "bold"), (f"after round {_last_round(campaign)}; {event.note}", "")]
            ]
        case Masked():
            return [_masked(event)]
        case Noted():
            note = f"round {event.round}: {event.text}"
            return [[("noted  ", "bold"), (fmt.one_line(note, width - 7), "")]]
        case Refusal():
            return [_refused(event, width)]
        case Diagnosed():
            return [_diagnosed(event)]
        case Profiled():
            return [_profiled(event)]
        case Committed() | Planned():
            return []
        case _:
            assert_never(event)


def _diagnosed(event: Diagnosed) -> Line:
    """`diagnosis  level 2, after 3 fruitless rounds; other directions: tiling, prefetch`."""
    material = event.material
    attempts = fmt.plural(len(material.attempts), "fruitless round")
    text = f"level {event.level}, after {attempts}"
    if material.review is not None:
        text += f"; other directions: {', '.join(d.category for d in material.review.directions)}"
    return [("diagnosis  ", "bold"), (text.replace("_", " "), "")]


def _profiled(event: Profiled) -> Line:
    """`profile  round 4: memory-bound on n=1024, by callgrind`."""
    seen = f"round {event.round}: {event.bottleneck.kind}-bound on {event.profile.workload}"
    return [("profile  ", "bold"), (f"{seen}, by {event.profile.tool or 'no profiler'}", "")]


def _refused(event: Refusal, width: int) -> Line:
    """`refused  no change: the proposed kernel and its build are the incumbent's`."""
    if event.reason in ("gave_up", "no_repair"):  # nothing is wrong with it
        return [("gave up  ", "bold"), (fmt.one_line(event.detail, width - 9), "")]
    said = f"{event.reason.replace('_', ' ')}: {event.detail}"
    return [("refused  ", "bold"), (fmt.one_line(said, width - 9), "yellow")]


def _masked(event: Masked) -> Line:
    what = "masked   " if event.masked else "unmasked "
    return [(what, "bold"), (f"rounds {', '.join(map(str, event.rounds))}: {event.reason}", "")]


def _beneath(text: str, width: int) -> Line:
    return [("    ", ""), (fmt.one_line(text, width - 4), "yellow")]


def round_lines(round_: Round, width: int, *, bytes_only: bool = False) -> list[Line]:
    """`#3 parallel rows over 2 threads   faster  1.92x [1.90, 1.94]   41% of roofline   kept`."""
    verdict = round_.judgement.verdict
    number = (f"#{round_.round:<3}", "bold")
    figures = [
        (f"{verdict:<12}  ", _VERDICT_STYLES[verdict]),
        (f"{measured_ratio(round_.judgement):<21}  ", ""),
        (f"{_of_roofline(round_.judgement, bytes_only):<17} ", ""),
        decided(round_),
    ]
    statement = f"{'again: ' * bool(round_.hypothesis.again)}{round_.hypothesis.statement}"
    if width < WIDE:
        if width < _FIGURES_WIDTH + 4:
            figures = _tight(round_, figures, bytes_only)
        return [[number, (fmt.one_line(statement, width - 4), "")], [("    ", ""), *figures]]
    room = width - _FIGURES_WIDTH
    return [[number, (f"{fmt.one_line(statement, room - 2):<{room}}", ""), *figures]]


def _unbelieved(round_: Round, campaign: Campaign, width: int) -> list[Line]:
    """Why a ratio isn't believed, or there is none, where the change isn't to blame."""
    judgement = round_.judgement
    if judgement.outcome.kind == "unstable":
        told = textwrap.wrap(fmt.visible(judgement.outcome.detail), width - 4)
        return [_beneath(line, width) for line in told[:MOST_LINES]]
    is_unverified = judgement.verdict == "unverified"
    if not is_unverified and not is_disturbed((*judgement.samples, *judgement.confirmation)):
        return []
    doubt = doubt_about(round_, campaign)
    return [] if doubt is None else [_beneath(doubt.why, width)]


def _tight(round_: Round, figures: Line, bytes_only: bool) -> Line:
    """The same without padding, and with the bare share of the roofline."""
    verdict, ratio, _, decision = figures
    short = [verdict, ratio, (own_fraction(round_.judgement, bytes_only), ""), decision]
    told = [(text.strip(), style) for text, style in short if text.strip()]
    return [piece for part in told for piece in (part, ("  ", ""))][:-1]


def measured_ratio(judgement: Judgement) -> str:
    """The overall ratio with its interval, or why there is none. Forged times have none."""
    if judgement.comparison is not None and not isinstance(judgement.outcome, Cheated):
        overall = judgement.comparison.overall
        if overall.ci[1] >= LARGEST_RATIO:
            return f"{fmt.speedup(overall.speedup)} ({fmt.plural(overall.pairs, 'pair')})"
        return fmt.ratio(overall.speedup, overall.ci)
    if isinstance(judgement.outcome, Passed):
        return "not measured"
    return judgement.outcome.kind.replace("_", " ")


def own_fraction(judgement: Judgement, bytes_only: bool = False) -> str:
    """How near the candidate itself came to its bound; empty if nobody knows."""
    if judgement.comparison is None or isinstance(judgement.outcome, Cheated):
        return ""
    fraction = fraction_of_candidate(judgement.comparison)
    return "" if fraction is None else fmt.share(fraction, bytes_only)


def _of_roofline(judgement: Judgement, bytes_only: bool) -> str:
    fraction = own_fraction(judgement, bytes_only)
    return f"{fraction:>4}{'' if bytes_only else ' of roofline'}" if fraction else ""


def decided(round_: Round) -> tuple[str, str]:
    """The decision in a word or two, with its style."""
    match round_.decision:
        case Kept():
            aim = round_.hypothesis.target_class
            return ("kept" if aim == "global" else f"kept for {aim}", "bold green")
        case RolledBack():
            return ("rolled back", "dim")
        case _:
            assert_never(round_.decision)


def limit_line(bound: Bound) -> str:
    """`N=4096,D=4096  at least 3.2 ms, memory roof`."""
    if bound.floor_time_s is None:
        return f"{bound.workload}  bound UNKNOWN"
    roof = "bytes only" if bound.bytes_only else f"{bound.limiter} roof"
    return f"{bound.workload}  at least {fmt.time(bound.floor_time_s)}, {roof}"


def _started(event: Started) -> list[Line]:
    device = fmt.on_device(event.environment.device.name, kernel_threads(event))
    lines: list[Line] = [[("device    ", "bold"), (device, "")]]
    for bound in event.bounds:
        text = limit_line(bound)
        reason = f" ({bound.reason})" if bound.floor_time_s is None and bound.reason else ""
        lines.append([("roofline  ", "bold"), (text + reason, "")])
    if event.bytes_only:
        lines.append([("operations", "bold"), (f" {unsaid_operations(event.target)}", "yellow")])
    lines += [
        [(f"{check.name:<10}", "bold"), (check.detail, "yellow")]
        for check in (event.examination.checks if event.examination else ())
        if (check.area, check.level) == ("processor", "limited")
    ]
    if event.target.command is not None:
        lines.append([("figures   ", "bold"), (f"{LABEL} by the repository's benchmark", "")])
    return lines


def _baseline(event: Baseline, started: Started) -> Line:
    times = ", ".join(
        _value_and_share(timing, started, named=place == 0)
        for place, timing in enumerate(event.timings)
    )
    kind = event.bottleneck.kind
    where = f" on {event.profile.workload}" if len(event.timings) > 1 else ""
    limit = "" if kind == "unknown" else f"; {kind}-bound{where}"
    return [("#1  ", "bold"), (f"baseline  {times}{limit}", "")]


def _value_and_share(timing: Timing, started: Started, *, named: bool) -> str:
    value = fmt.measured(timing.time_s, started.target.measure, named=named)
    if timing.floor_time_s is None:
        return value
    share = timing.floor_time_s / timing.time_s
    only = ", bytes only" if started.bytes_only else ""
    return f"{value} ({fmt.share(share, started.bytes_only).split(' (')[0]} of roofline{only})"


def _yardstick(result: PyTorchBaselineResult) -> Line:
    """`against  eager: 1.31x [1.29, 1.33]`: how much faster the kernel is."""
    ratio = ratio_over(result.judgement)
    text = measured_ratio(result.judgement) if ratio is None else fmt.ratio(ratio.value, ratio.ci)
    return [("against  ", "bold"), (f"{result.name}: {text}", "")]


def _stopped(event: Stopped, campaign: Campaign) -> Line:
    style = "bold green" if event.code in ("goal_reached", "efficiency_reached") else "bold"
    said = f"{event.code.replace('_', ' ')}: {event.detail}"
    headline = summarize(campaign).headline
    if headline is not None:
        said += f"; {fmt.speedup(headline.value)} over the baseline"
    return [("stopped  ", style), (said, "")]


def _last_round(campaign: Campaign) -> int:
    if campaign.rounds:
        return campaign.rounds[-1].round
    return 1 if campaign.baseline else 0
