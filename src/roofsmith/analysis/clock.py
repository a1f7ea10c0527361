"""Whether a gain that was timed in the candidate's own process is there by the judge's clock, too.

What a worker says of time is a claim: candidate code can change every clock and event within its
reach. The judge's own clock sees messages as well, which cost tenths of a millisecond, so it times
long segments. Messages take the same on both sides and draw its ratio towards 1: a gain by this
clock is there, and is rather larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from roofsmith.analysis.compare import LARGEST_RATIO, compare, is_disturbed, is_hopeless
from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.comparison import Comparison, Estimate, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload

Agreement = Literal["agrees", "exaggerated", "unresolved", "forged"]

CLOCK_ERROR_RATE = 0.05
"""Of the interval that a claim is held against: it was proven twice at its own rate before, and 5
pairs are enough for this one. Where the claim isn't believed, the judge's clock has to prove the
gain at the target's own rate."""
SLACK = 0.02
SLACK_SHARE = 0.25
"""How far a claimed log ratio may lie above the interval by the judge's clock: long segments keep
less in caches than short ones, and a small share of them is messages."""
FORGED_SHARE = 0.5
"""If certainly more than this share of the least gain that is claimed isn't there, neither caches
nor messages explain it, unless the workers' own clocks miss it on long segments as well; if this
share is there in all likelihood, most of it is real."""
MESSAGES_S = 7e-4
"""What messages may cost a segment beside the calls: waking a worker's main thread took up to
0.55 ms on two processors, with calls as fast as without it. Of a segment that isn't much longer the
clock can't tell how much is the kernel's."""

MOST_FACTOR = 8
"""Multiple of the fewest pairs that the clock may take to tell a gain from none. Chosen; what is
found with it: benchmarks/results/gain_power.json."""
MOST_SWEEPS = 8
"""The same of sweeps, void ones included, while it hasn't even the fewest. With more than half of
the pairs void it says nothing anyhow, and so it gives up when half of that many sweeps are void."""
LEAST_AGAINST = 3
"""Pairs of processes that have to speak before the clock contradicts a claim: one that is disturbed
as long as it lives outweighs what one other says. It doesn't help where most are disturbed: the
simulated gain of 1.64x that was recorded as 1.46x, seed 1625 of
benchmarks/results/simulated_campaigns.json."""


@dataclass(frozen=True, slots=True)
class Clocked:
    """What long segments say by the judge's clock."""

    likely: Comparison
    """With intervals at `CLOCK_ERROR_RATE`, as if nothing of the candidate's waiting were others'
    work: it could make it itself, and none would say that it claims too much."""
    sure: Comparison
    """The same with intervals at the target's own error rate."""
    reach: Comparison
    """The same as `sure`, if messages cost the candidate as much as they may, and the incumbent
    nothing: what could be there at the most."""
    told: Comparison | None = None
    """What the workers' clocks say of the same segments; None where they have none."""

    @property
    def pairs(self) -> int:
        """Complete sweeps without a void pair."""
        return self.likely.overall.pairs


def by_clock(
    samples: Sequence[PairSample],
    workloads: Sequence[Workload],
    classes: Sequence[ConfigClass],
    floors: Mapping[str, float | None],
    policy: KeepPolicy,
) -> Clocked | None:
    """What a winner's long segments say; see `analysis.compare.compare` for the arguments.

    Returns:
        None if a workload has no valid pair, or most are void: whoever uses several threads takes
        longer on a busy machine, and has forged nothing.
    """
    if is_disturbed(samples):
        return None
    lenient = policy.model_copy(update={"error_rate": CLOCK_ERROR_RATE})
    likely, sure, reach = (
        compare(some, workloads, classes, floors, own)
        for some, own in (
            (_at_least(samples), lenient),
            (samples, policy),
            (_at_most(samples), policy),
        )
    )
    if likely is None or sure is None or reach is None:
        return None
    return Clocked(likely, sure, reach, compare(told(samples), workloads, classes, floors, policy))


def agreement(claimed: Comparison, clocked: Clocked | None) -> Agreement:
    """What the judge's clock says of a gain.

    A claim that a forger made of nothing would agree by chance as often as an interval is wrong. At
    `CLOCK_ERROR_RATE` it therefore takes most of the gain to be there, and not just some of it,
    which is much less likely; any gain at all is enough at the target's own rate.

    Args:
        claimed: by the workers' clocks; a win.
        clocked: by the judge's; None: it saw nothing valid.

    Returns:
        `forged` if most of even the least gain within a claim's interval is certainly out of reach
        of the judge's clock, and the workers' own say that it is there even then: where they miss
        it as well, long segments keep less in caches than short ones, and nobody lied;
        `unresolved` if that clock can't tell the gain from none; `exaggerated` if there is a gain,
        but a smaller one than was claimed, so that what the judge's clock is sure of is what
        counts; else `agrees`.
    """
    if clocked is None:
        return "unresolved"
    seen = (clocked.likely, clocked.sure, clocked.reach, *([clocked.told] if clocked.told else []))
    overall = _Gain(claimed.overall, *(found.overall for found in seen))
    by_class = zip(claimed.classes, *(found.classes for found in seen), strict=True)
    classes = [
        _Gain(*(found.estimate for found in one))
        for one in by_class
        if one[0].estimate.verdict == "faster"
    ]
    held = (overall, *classes)
    if any(gain.is_forged for gain in held):
        return "forged"
    gains = (overall,) if claimed.overall.verdict == "faster" else classes
    if any(gain.is_exaggerated for gain in held):
        return "exaggerated" if all(gain.is_certain for gain in gains) else "unresolved"
    return "agrees" if all(gain.is_confirmed for gain in gains) else "unresolved"


def has_spoken(claimed: Comparison, samples: Sequence[PairSample], clocked: Clocked | None) -> bool:
    """Whether there is no need, or no sense, in more of the clock's pairs.

    Args:
        claimed: by the workers' clocks; a win.
        samples: the clock's pairs so far, void ones included; at least one.
        clocked: what `by_clock` makes of them.
    """
    least = least_observations(CLOCK_ERROR_RATE)
    pairs = clocked.pairs if clocked is not None else 0
    if clocked is None or pairs < least:
        most = MOST_SWEEPS * least
        return samples[-1].sweep + 1 >= most or is_hopeless(samples, most)
    if pairs >= MOST_FACTOR * least:
        return True
    seen = agreement(claimed, clocked)
    speaking = {sample.instance for sample in samples if sample.void is None}
    if seen in {"exaggerated", "forged"} and len(speaking) < LEAST_AGAINST:
        return False
    is_open = seen == "exaggerated" and clocked.sure.overall.verdict == "inconclusive"
    return seen != "unresolved" and not is_open


def clock_note(claimed: Comparison, clocked: Clocked | None) -> str:
    """One line for people: the claim, and what the judge's clock says."""
    if clocked is None:
        return "the judge's own clock saw no valid pair"
    found = clocked.likely.overall
    low, high = found.ci
    note = (
        f"{claimed.overall.speedup:.3f}x by the workers' clocks, {found.speedup:.3f}x"
        f" [{low:.3f}, {high:.3f}] by the judge's own on long segments"
    )
    if clocked.told is None or agreement(claimed, clocked) not in ("unresolved", "exaggerated"):
        return note
    return f"{note}, where the workers' say {clocked.told.overall.speedup:.3f}x"


@dataclass(frozen=True, slots=True)
class _Gain:
    """Of the whole or of a class: as claimed, and by the judge's clock."""

    claimed: Estimate
    likely: Estimate
    sure: Estimate
    reach: Estimate
    told: Estimate | None = None

    @property
    def is_forged(self) -> bool:
        """Whether the clock certainly misses most of it, however little was claimed, and whoever
        claimed it does so there, too."""
        least = self.claimed.ci[0]
        admits = self.told is not None and _is_beyond(least, self.told.speedup, FORGED_SHARE)
        return not admits and _is_beyond(least, self.reach.ci[1], FORGED_SHARE)

    @property
    def is_exaggerated(self) -> bool:
        """Whether the clock misses more of it than caches and messages take, in all likelihood."""
        return _is_beyond(self.claimed.speedup, self.likely.ci[1], SLACK_SHARE)

    @property
    def is_certain(self) -> bool:
        """Whether there is one, at the target's own error rate."""
        return self.sure.ci[0] > 1

    @property
    def is_confirmed(self) -> bool:
        """Whether there is one for certain, or most of it is there in all likelihood."""
        least = FORGED_SHARE * math.log(self.claimed.speedup)
        return self.is_certain or math.log(self.likely.ci[0]) > least


def told(samples: Sequence[PairSample]) -> tuple[PairSample, ...]:
    """The clock's pairs by the workers' clocks; none where a side has none.

    What the clock has beyond the calls is waiting, but for messages, and none of theirs.
    """
    made = []
    for sample in samples:
        if sample.claimed_s is None:
            return ()
        clocked_s = map(fmean, (sample.incumbent_time_s, sample.candidate_time_s))
        outside_s = (c - t - MESSAGES_S for c, t in zip(clocked_s, sample.claimed_s, strict=True))
        waited_s = (w - max(out, 0.0) for w, out in zip(sample.waited_s, outside_s, strict=True))
        incumbent_s, candidate_s = sample.claimed_s
        update = {
            "incumbent_time_s": (incumbent_s,), "candidate_time_s": (candidate_s,),
            "waited_s": tuple(max(w, 0.0) for w in waited_s), "calls": 1, "claimed_s": None,
        }  # fmt: skip
        made.append(sample.model_copy(update=update))
    return tuple(made)


def _at_least(samples: Sequence[PairSample]) -> list[PairSample]:
    """The same pairs, with all of the candidate's waiting as its own."""
    return [s.model_copy(update={"waited_s": (s.waited_s[0], 0.0)}) for s in samples]


def _at_most(samples: Sequence[PairSample]) -> list[PairSample]:
    """The same pairs, less what messages may cost the candidate."""
    made = []
    for sample in samples:
        messages_s = MESSAGES_S / sample.calls
        times_s = tuple(max(t - messages_s, t / LARGEST_RATIO) for t in sample.candidate_time_s)
        made.append(sample.model_copy(update={"candidate_time_s": times_s}))
    return made


def _is_beyond(claimed: float, reach: float, share: float) -> bool:
    """Whether more than a share of a claimed ratio's logarithm is out of reach."""
    gain = math.log(claimed)
    return gain - math.log(reach) > max(SLACK, share * gain)
