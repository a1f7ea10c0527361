"""Why what looked like a gain doesn't count, and what to do next. Pure.

Causes are asked in order; the first that has something to say is the one that is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final

from roofsmith.analysis.bounds import is_bounded, waiting_of
from roofsmith.analysis.clock import FORGED_SHARE, MESSAGES_S
from roofsmith.analysis.compare import LARGEST_RATIO, is_disturbed
from roofsmith.analysis.figures import one_line, plural, ratio, time
from roofsmith.analysis.heard import Heard, first_look, heard
from roofsmith.analysis.techniques import signs
from roofsmith.analysis.unproven import has_many_disturbed
from roofsmith.analysis.whole_runs import is_unseen
from roofsmith.domain.campaign import Campaign, Kept, Round, Started
from roofsmith.domain.comparison import Comparison, Estimate, Judgement, PairSample
from roofsmith.domain.outcome import Passed

_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Doubt:
    """A sentence each, for whoever proposed the change."""

    why: str
    """With the figures of both sides."""
    next: str
    """What to do about it."""


def doubt_about(round_: Round, campaign: Campaign) -> Doubt | None:
    """None: it was kept, failed for another reason, or nothing looked like a gain."""
    if isinstance(round_.decision, Kept):
        return None
    case = _Case(round_, campaign.grounds(round_.judgement.validation))
    return next((found for cause in _CAUSES if (found := cause(case)) is not None), None)


@dataclass(frozen=True)
class _Case:
    round_: Round
    grounds: Started

    @property
    def judgement(self) -> Judgement:
        return self.round_.judgement

    @property
    def passed(self) -> bool:
        return isinstance(self.judgement.outcome, Passed)

    @property
    def counting(self) -> tuple[PairSample, ...]:
        return self.judgement.confirmation or self.judgement.samples

    @cached_property
    def heard(self) -> Heard:
        return heard(self.judgement, self.grounds)

    @cached_property
    def first(self) -> Estimate | None:
        return self.aim_of(first_look(self.judgement, self.grounds))

    @property
    def aim(self) -> Estimate | None:
        """What counts of what should gain."""
        return self.aim_of(self.judgement.comparison)

    def aim_of(self, found: Comparison | None) -> Estimate | None:
        return None if found is None else found.of(self.round_.hypothesis.target_class)

    @property
    def edge(self) -> float:
        """The least ratio that isn't within the noise band."""
        return 1 + self.grounds.target.keep.noise_band

    @cached_property
    def on_a_quiet_machine(self) -> str:
        """What to do about disturbed pairs."""
        again = (
            "tell it again (say so in `again`; the pairs so far count) while nothing else runs on"
            " the machine; `roofsmith doctor` shows the load"
        )
        device, threads = self.grounds.environment.device, self.grounds.target.threads
        if device.kind != "cpu" or "parallelism" not in signs(self.round_.candidate):
            return again
        most = plural(threads or device.cores, "thread")
        return f"use at most {most}, none of which waits for another's processor; or {again}"


def _caught(case: _Case) -> Doubt | None:
    """It failed by its times, or by what threads of its own did."""
    outcome = case.judgement.outcome
    if isinstance(outcome, Passed) or outcome.reason not in _ADVICE:
        return None
    if outcome.reason == "clock_forged" and (found := _busy_afterwards(case)) is not None:
        return found
    return Doubt(one_line(outcome.detail or case.round_.decision.rule), _ADVICE[outcome.reason])


_ADVICE: Final = {
    "clock_forged": "make the gain hold for single calls on cold inputs, and do all of the work"
    " within `solve`",
    "below_floor": "see that every output is computed from the inputs of its own call; if it is,"
    " correct `flops` or `bytes` of the reference",
    "stale_output": "join threads and streams before `solve` returns, and keep nothing between"
    " calls",
    "work_outside_window": "join threads and streams before `solve` returns, and write to the"
    " outputs of the call alone",
    "leftover_work": "join side streams before the call returns",
    "leftover_process": "wait for every process that is started",
    "ran_out_of_turn": "let threads wait for work asleep, not on timers or signals",
    "extra_processors": "leave the affinity of threads alone, and start no more than there are"
    " processors",
}
"""By reasons of failures that may look like gains; docs/judge.md has all reasons."""


def _disturbed(case: _Case) -> Doubt | None:
    """Most pairs are void, so the rest proves nothing."""
    pairs, aim = case.counting, case.aim
    is_unseen = case.judgement.comparison is None
    if not case.passed or not pairs or not (is_disturbed(pairs) or is_unseen):
        return None
    left = "nothing can be said" if aim is None else f"the {_said(aim)} of the rest proves nothing"
    return Doubt(f"{_void(pairs)}, and {left}", case.on_a_quiet_machine)


def _busy_afterwards(case: _Case) -> Doubt | None:
    """By the judge's clock, much of a segment lies outside of its calls."""
    if (clocks := _clocks(case)) is None or (found := _outside(case.judgement.clock)) is None:
        return None
    candidate_s, incumbent_s, calls = found
    return Doubt(
        f"{clocks}: of segments of {plural(calls, 'call')}, {time(candidate_s)} of the candidate's"
        f" and {time(incumbent_s)} of the incumbent's lie outside of the calls, so threads of the"
        " kernel were still busy when a call had returned",
        "join the threads, or wait for all of their work, before `solve` returns; let a pool that"
        " has nothing to do sleep",
    )


def _unseen_by_clock(case: _Case) -> Doubt | None:
    """The judge's own clock sees less of the gain, or can't tell."""
    clocks, found = _clocks(case), case.heard.clocked
    if clocks is None or not case.passed:
        return None
    if found is None:
        return Doubt(f"{clocks}: {_void(case.judgement.clock)}", case.on_a_quiet_machine)
    claimed, told = case.heard.claimed, case.aim_of(found.told)
    gain = case.aim_of(claimed)
    if gain is None or told is None or _is_there(told, gain):
        return Doubt(
            f"{clocks}, which can't tell such a gain from none",
            f"make the gain larger than the noise of long segments, or {case.on_a_quiet_machine}",
        )
    return Doubt(
        f"{clocks}, and {told.speedup:.3f}x by the workers' own on the same long segments: the"
        " gain is there in short segments alone",
        "look for what stays warm or awake for a few calls only (caches, huge pages, a pool that"
        " spins), and make the gain hold on cold inputs, call by call",
    )


def _undecided(case: _Case) -> Doubt | None:
    """The interval crosses an edge of the noise band."""
    aim = case.aim
    if not case.passed or aim is None or aim.verdict not in ("inconclusive", "unverified"):
        return None
    pairs = (*case.judgement.samples, *case.judgement.confirmation)
    is_busy = has_many_disturbed(pairs)
    also = f"; {waiting_of(pairs) or _void(pairs)}" if is_busy else ""
    why = f"{_said(aim)} after {plural(aim.pairs, 'pair')}, where a gain begins at {case.edge:g}x"
    if is_busy and aim.speedup > case.edge:
        next_ = case.on_a_quiet_machine
    elif aim.ci[1] > case.edge and aim.ci[0] * aim.ci[1] > 1:
        next_ = f"add to it what makes the gain larger, or {case.on_a_quiet_machine}"
    elif aim.ci[1] <= case.edge:
        next_ = "leave it: its interval says that there is no gain"
    else:
        next_ = "leave it: nothing speaks for a gain that is worth another try as it is"
    return Doubt(f"{why}{also}", next_)


def _gone_again(case: _Case) -> Doubt | None:
    aim, first = case.aim, case.first
    if not (case.passed and case.judgement.confirmation and aim and first):
        return None
    if "faster" not in (aim.verdict, first.verdict) or aim.verdict == first.verdict:
        return None
    return Doubt(
        f"{_said(first)} in the first measurement, {_said(aim)} in the second, in fresh processes",
        "look for what differs from process to process, such as where memory comes to lie or how"
        " threads are placed; a larger gain is there in both",
    )


def _too_small(case: _Case) -> Doubt | None:
    aim = case.aim
    if not case.passed or aim is None or aim.verdict != "tie" or aim.speedup <= 1:
        return None
    return Doubt(
        f"{_said(aim)} is a tie: less than {case.edge:g}x can't be told from the noise",
        f"tell it together with what takes the same idea beyond {case.edge:g}x",
    )


def _clock_touched(case: _Case) -> Doubt | None:
    """A repository's benchmark alone sees the gain of a source that touches what measures."""
    judgement, target = case.judgement, case.grounds.target
    found, runs = judgement.comparison, judgement.whole_runs
    if not judgement.remarks or not is_unseen(found, runs, target.keep.error_rate):
        return None
    return Doubt(
        "the benchmark's own clock alone sees the gain, and the source touches that",
        "leave clocks, and modules that aren't the kernel's, alone; where somebody has read it and"
        " it is right, `command.trusts_clock: true` in the target says so",
    )


def _at_others_expense(case: _Case) -> Doubt | None:
    """What should gain does, and somebody else pays."""
    aim, comparison = case.aim, case.judgement.comparison
    if not case.passed or aim is None or comparison is None or aim.verdict != "faster":
        return None
    rule = one_line(case.round_.decision.rule, _LONGEST)
    losers = [one.workload for one in comparison.workloads if one.estimate.speedup < 1]
    if not losers:
        look = f"look at `roofsmith campaign show DIR round {case.round_.round}` and `counters`"
        return Doubt(f"{_said(aim)}, but {rule}", f"{look}: a check after the timing spoke")
    return Doubt(
        f"{_said(aim)}, but {rule}",
        f"keep the old path where it is the better one ({one_line(', '.join(losers), 120)}), by a"
        " branch on the sizes, and name the class that gains in `target_class`",
    )


_CAUSES: Final[tuple[Callable[[_Case], Doubt | None], ...]] = (
    _caught,
    _disturbed,
    _busy_afterwards,
    _unseen_by_clock,
    _undecided,
    _gone_again,
    _too_small,
    _clock_touched,
    _at_others_expense,
)


def _clocks(case: _Case) -> str | None:
    """Both clocks' ratios, where the judge's leaves nothing of a gain, or can't tell."""
    found, claimed = case.heard, case.aim_of(case.heard.claimed)
    if claimed is None or found.seen in (None, "agrees"):
        return None
    if found.seen == "exaggerated" and case.aim is not None and case.aim.verdict == "faster":
        return None
    by_workers = f"{claimed.speedup:.3f}x by the workers' clocks"
    own = None if found.clocked is None else case.aim_of(found.clocked.likely)
    return f"{by_workers}, {'no valid pair' if own is None else _said(own)} by the judge's"


def _outside(samples: Sequence[PairSample]) -> tuple[float, float, int] | None:
    """Seconds of a segment outside of its calls, the candidate's and the incumbent's, and calls.

    Of the workload on which they differ most; None: by no more than messages may take.
    """
    found: dict[str, list[tuple[float, float, int]]] = {}
    for pair in samples:
        if pair.void is None and not is_bounded(pair) and pair.claimed_s is not None:
            incumbent_s, candidate_s = (
                (clock[0] - claimed) * pair.calls
                for clock, claimed in zip(
                    (pair.incumbent_time_s, pair.candidate_time_s), pair.claimed_s, strict=True
                )
            )
            found.setdefault(pair.workload, []).append((candidate_s, incumbent_s, pair.calls))
    typical = [
        (median(one[0] for one in seen), median(one[1] for one in seen), seen[0][2])
        for seen in found.values()
    ]
    widest = max(typical, key=lambda one: one[0] - one[1], default=None)
    return widest if widest is not None and widest[0] - widest[1] > MESSAGES_S else None


def _is_there(told: Estimate, gain: Estimate) -> bool:
    """Whether much of a gain is there on long segments, by the same clock."""
    return math.log(told.speedup) > FORGED_SHARE * math.log(gain.speedup)


def _void(pairs: Sequence[PairSample]) -> str:
    void = [pair.void for pair in pairs if pair.void is not None]
    such = f" (such as: {one_line(void[0], 120)})" if void else ""
    return f"{len(void)} of {plural(len(pairs), 'pair')} don't count{such}"


def _said(found: Estimate) -> str:
    """With three decimals, as the rules say it: a noise band is 1% or less."""
    if found.ci[1] == LARGEST_RATIO:
        return ratio(found.speedup, found.ci)
    return f"{found.speedup:.3f}x [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"
