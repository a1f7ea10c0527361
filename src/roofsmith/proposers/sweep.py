"""The sweep: search the tunables of the incumbent, and propose the best point that holds up.

One sweep is one round. It screens many points cheaply and asks for a full judgement of at most one:
the source's tunables first, then the build's, from the best point so far. A source that declares
its tunables is taken at its word: only where it declares none are those swept that were found.

The best few are screened again before one is proposed, because the best of many noisy
looks is better than it is.

An incumbent that was swept may be swept once more, where config classes can have settings of their
own: each class's in turn, looked at as the candidate that chooses between them (`class_settings`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import geometric_mean

from roofsmith.analysis.figures import plural
from roofsmith.domain.campaign import Round
from roofsmith.domain.category import Category
from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import Candidate, Language
from roofsmith.domain.outcome import Passed, Unstable
from roofsmith.domain.proposal import Hypothesis, Proposal, ScreenedPoint
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.ports import Brief, Screen
from roofsmith.proposers.class_settings import choosable, for_classes, ladder_of
from roofsmith.proposers.sweep_search import Pace
from roofsmith.proposers.tunables import (
    Assignment,
    Found,
    Group,
    Setting,
    Tunable,
    apply,
    find_tunables,
)

TACTIC = "sweep"
CLASS_TACTIC = "sweep-classes"
BUDGET_S = 22.0
"""Time of a sweep where builds and looks take a few tenths of a second each: dozens of points."""
SLOW_BUILDS_BUDGET_S = 60.0
"""The same on a GPU, where nvcc or hipcc builds, or a worker compiles a Triton kernel at its look:
1 to 3 s a point, one after the other. With builds of 3 to 5 s side by side a point takes 1.5 to
3 s there, so `BUDGET_S` would end with the first ten, from which a search learns next to nothing.
On simulated costs of five tunables, with builds of 4 s, looks of 1 s and 16 processors, 0.81 of the
possible gain (in the logarithm) was left after 22 s and 9 points, 0.65 after 44 s and 20, 0.48
after 60 s and 27."""
SLOW_BUILDS: frozenset[Language] = frozenset({"cuda", "hip", "triton", "torch"})
FINALISTS = 3
"""Points that are screened again."""
FRESH_LOOKS = 2
"""How often each. The look that selected the point counts no more."""
LOOKS_IN_DOUBT = 3
"""At a winner whose fresh looks lie further apart than it leads. With looks of 2% deviation and 40
points, none better than the start, 25 of 100 simulated sweeps proposed one without these and 6 with
them; where four points were 4% better, 96 and 94. A look takes a second, a round 10 to 40."""
FINALS_SHARE = 0.2
"""Part of the time budget that is kept for screening again."""
PHASE_SHARE = 0.7
"""Part of what is left that a phase may use, so that later phases get their turn."""


_PHASES: tuple[tuple[Group, ...], ...] = (("declared", "found"), ("build",))
"""What is searched together: a block size and the warps that work on it must fit."""


@dataclass(slots=True)
class _Bench:
    """Screens assignments of one incumbent, each candidate once, and keeps every point."""

    incumbent: Candidate
    found: Found
    screen: Screen
    monotonic: Callable[[], float]
    pace: Pace
    make: Callable[[Assignment], Candidate]
    """The candidate with these settings."""
    points: list[ScreenedPoint] = field(default_factory=list)
    refused: bool = False
    """Whether the campaign's time is over: no look is made any more."""
    _seen: dict[str, Screening] = field(default_factory=dict)
    _ranked: list[tuple[float, dict[str, Setting]]] = field(default_factory=list)

    def prepare(self, assignments: Sequence[Mapping[str, Setting]]) -> None:
        candidates = map(self.make, assignments)
        fresh = {c.id: c for c in candidates if c.id not in self._seen}
        if fresh:
            begin = self.monotonic()
            self.screen.prepare(tuple(fresh.values()))
            self.pace.built(len(fresh), self.monotonic() - begin)

    def look(self, assignment: Mapping[str, Setting]) -> float | None:
        """Speedup over the incumbent at a first look; None if the candidate failed."""
        candidate = self.make(assignment)
        known = self._seen.get(candidate.id)
        if known is not None:
            return _speedup(known)
        begin = self.monotonic()
        screening = self._screened(candidate, self.label(assignment))
        if self.refused:
            return None
        self.pace.looked(self.monotonic() - begin)
        self._seen[candidate.id] = screening
        speedup = _speedup(screening)
        if speedup is not None:
            self._ranked.append((speedup, dict(assignment)))
        return speedup

    def look_again(self, assignment: Mapping[str, Setting]) -> float | None:
        """A fresh screening of a point that was looked at before."""
        candidate = self.make(assignment)
        return _speedup(self._screened(candidate, f"{self.label(assignment)} (again)"))

    def finalists(self, threshold: float) -> list[tuple[float, dict[str, Setting]]]:
        """The best points whose first look was above the threshold; best first.

        Points with the same look run the same instructions: the first of them stands for all.
        """
        promising = dict(reversed(self._ranked))
        return sorted(
            ((speedup, point) for speedup, point in promising.items() if speedup > threshold),
            key=lambda point: -point[0],
        )[:FINALISTS]

    def label(self, assignment: Mapping[str, Setting]) -> str:
        """The settings that differ from the incumbent's: `BM=128 NR=8`."""
        current = self.found.current
        changed = (f"{n}={s}" for n, s in assignment.items() if s != current[n])
        return " ".join(changed) or "(incumbent)"

    @property
    def distinct(self) -> int:
        """Candidates that were screened, repeats not counted."""
        return len(self._seen)

    def failures(self) -> str:
        """`2 incorrect, 1 build_failed`; empty if none failed."""
        kinds = Counter(
            screening.outcome.kind
            for screening in self._seen.values()
            if not isinstance(screening.outcome, Passed)
        )
        return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())

    def _screened(self, candidate: Candidate, label: str) -> Screening:
        screening = self.screen(candidate)
        outcome = screening.outcome
        if isinstance(outcome, Unstable) and outcome.reason == "budget_spent":
            self.refused = True
            return screening
        self.points.append(
            ScreenedPoint(
                label=label,
                candidate_id=candidate.id,
                outcome=screening.outcome,
                speedup=screening.speedup,
            )
        )
        return screening


@dataclass(frozen=True, slots=True)
class _Finalist:
    assignment: dict[str, Setting]
    first: float
    fresh: tuple[float, ...]

    @property
    def speedup(self) -> float:
        """The worse of the fresh looks: takes back what choosing the best of three adds.

        For normal noise of deviation s, the best of three means of two looks is 0.6 s too high on
        average, the best of three minima of two looks only 0.1 s. The first look, where
        the campaign's time was over before another.
        """
        return min(self.fresh, default=self.first)


class SweepProposer:
    """Sweeps every new incumbent once.

    Args:
        seed: of the search; the same seed and the same screenings, in batches of the same sizes,
            give the same proposal. One build at a time makes batches of one.
        max_points: distinct candidates screened per sweep.
        budget_s: time per sweep; None: what the incumbent's language needs. Nothing is begun that
            wouldn't be over in time, by what it took so far. What was built in vain otherwise is
            looked at past the end, for as long as it took to build.
        patience: points without progress after which a phase ends.
        monotonic: seconds since some fixed point, such as `Clock.monotonic`.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        max_points: int = 48,
        budget_s: float | None = None,
        patience: int = 14,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seed = seed
        self._max_points = max_points
        self._budget_s = budget_s
        self._patience = patience
        self._monotonic = monotonic
        self._fruitless: set[tuple[str, str]] = set()
        """Tactics, and incumbents on which they came to nothing."""

    @property
    def name(self) -> str:
        return TACTIC

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
        """Sweep the incumbent, unless that was done; the winner, or None if nothing holds up.

        Then the same by config classes.
        """
        if brief.repair is not None:  # settings that give a wrong result are just left
            return None
        found, proposal = _to_sweep(brief), None
        if not already_swept(brief):
            make = partial(apply, brief.incumbent)
            phases = [found.of(*phase) for phase in _PHASES if found.of(*phase)]
            proposal = self._swept(brief, screen, TACTIC, phases, make)
        if proposal is None and not _swept_by_class(brief):
            proposal = self._by_class(brief, screen, found)
        return proposal

    def tell(self, round: Round) -> None:
        """Nothing to learn: the ledger says which incumbents were swept."""

    def _by_class(self, brief: Brief, screen: Screen, found: Found) -> Proposal | None:
        """Settings of each class in turn, of what a size that the kernel sees can choose."""
        ladder, names = ladder_of(brief), choosable(brief.incumbent)
        tunables = [t for t in found.tunables if t.name in names]
        if ladder is None or not tunables:
            return None
        phases = [
            tuple(replace(t, name=f"{t.name} where {sizes}") for t in tunables)
            for sizes in ladder.ranges
        ]

        def settings(point: Assignment) -> list[dict[str, Setting]]:
            return [
                {t.name: point[own.name] for t, own in zip(tunables, phase, strict=True)}
                for phase in phases
            ]

        return self._swept(
            brief, screen, CLASS_TACTIC, phases,
            lambda point: for_classes(brief.incumbent, ladder, settings(point)),
        )  # fmt: skip

    def _swept(
        self,
        brief: Brief,
        screen: Screen,
        tactic: str,
        phases: Sequence[tuple[Tunable, ...]],
        make: Callable[[Assignment], Candidate],
    ) -> Proposal | None:
        """Search one phase after another, and look at the best again."""
        key = tactic, brief.incumbent.id
        if not phases or key in self._fruitless:
            return None
        found = Found(tuple(t for phase in phases for t in phase))
        pace = Pace(screen.side_by_side)
        bench = _Bench(brief.incumbent, found, screen, self._monotonic, pace, make)
        start = self._monotonic()
        threshold = 1 + brief.campaign.started.target.keep.noise_band
        self._search(bench, start, phases)
        finalists = bench.finalists(threshold)
        survivors = self._screen_again(bench, finalists, start)
        winner = max(survivors, key=lambda finalist: finalist.speedup, default=None)
        held = winner is not None and winner.speedup > threshold
        if winner is None or not held or self._is_noise(bench, winner, survivors, threshold):
            self._fruitless.add(key)
            return None
        return Proposal(
            hypothesis=_hypothesis(brief, bench, winner, tactic),
            candidate=make(winner.assignment),
            screened=tuple(bench.points),
        )

    def _is_noise(
        self, bench: _Bench, winner: _Finalist, survivors: Iterable[_Finalist], threshold: float
    ) -> bool:
        """Whether a lead that looks may be off by is gone when the winner is looked at again."""
        spread = max((max(one.fresh) / min(one.fresh) for one in survivors if one.fresh), default=1)
        if winner.speedup / spread > threshold or bench.refused:
            return False
        looks = [bench.look_again(winner.assignment) for _ in range(LOOKS_IN_DOUBT)]
        if bench.refused:
            return False
        passed = [look for look in looks if look is not None]
        return len(passed) < len(looks) or geometric_mean(passed) <= threshold

    def _search(self, bench: _Bench, start: float, phases: Sequence[tuple[Tunable, ...]]) -> None:
        """One search per phase, each from the best point of those before it."""
        # NumPy takes a tenth of a second to import: only a process that sweeps pays for it.
        from roofsmith.proposers.sweep_search import Best, SearchAllowance, SweepSearch

        best = Best(bench.found.current, 1.0)
        known: dict[tuple[tuple[str, Setting], ...], float | None] = {
            tuple(sorted(best.assignment.items())): 1.0
        }
        end = start + self._budget_of(bench.incumbent) * (1 - FINALS_SHARE)
        for left, tunables in zip(range(len(phases), 0, -1), phases, strict=True):
            share = 1.0 if left == 1 else PHASE_SHARE if left == 2 else 1 / left
            deadline = self._monotonic() + share * (end - self._monotonic())
            points = math.ceil(share * (self._max_points - bench.distinct))
            allowance = SearchAllowance(points, self._patience, self._until(deadline, bench))
            best = SweepSearch(tunables, best, bench, known, allowance, self._seed).run()

    def _budget_of(self, incumbent: Candidate) -> float:
        if self._budget_s is not None:
            return self._budget_s
        return SLOW_BUILDS_BUDGET_S if incumbent.language in SLOW_BUILDS else BUDGET_S

    def _until(self, deadline: float, bench: _Bench) -> Callable[[], float]:
        return lambda: 0.0 if bench.refused else deadline - self._monotonic()

    def _screen_again(
        self, bench: _Bench, finalists: Iterable[tuple[float, dict[str, Setting]]], start: float
    ) -> list[_Finalist]:
        """Fresh looks at the finalists, in turns; one that fails now is out.

        Past the time budget, each gets no more than the first of its fresh looks.
        """
        standing = [_Finalist(assignment, first, ()) for first, assignment in finalists]
        for turn in range(FRESH_LOOKS):
            if turn > 0 and self._monotonic() >= start + self._budget_of(bench.incumbent):
                break
            looks = [(finalist, bench.look_again(finalist.assignment)) for finalist in standing]
            if bench.refused:
                break
            standing = [
                _Finalist(finalist.assignment, finalist.first, (*finalist.fresh, speedup))
                for finalist, speedup in looks
                if speedup is not None
            ]
        return standing


def already_swept(brief: Brief) -> bool:
    """Whether the ledger says that the incumbent was swept, or came out of a sweep.

    A sweep that found nothing leaves no round. After a crash it is made once more.
    """
    return any(
        (
            past.hypothesis.tactic == TACTIC
            and brief.incumbent.id in (past.incumbent_id, past.candidate.id)
        )
        or (past.hypothesis.tactic == CLASS_TACTIC and brief.incumbent.id == past.candidate.id)
        for past in brief.remembered
    )


def _to_sweep(brief: Brief) -> Found:
    """The incumbent's tunables, without those that were only found if others are declared."""
    found = find_tunables(
        brief.incumbent, threads=brief.threads, isa=brief.device.isa,
        ran={kernel.name for kernel in brief.profile.resources},
    )  # fmt: skip
    if not found.of("declared"):
        return found
    kept = (t for t in found.tunables if t.group != "found" or t.kind == "launch")
    return replace(found, tunables=tuple(kept))


def _speedup(screening: Screening) -> float | None:
    """None for a failed candidate, and for one that could not be timed."""
    if not isinstance(screening.outcome, Passed) or screening.speedup is None:
        return None
    return screening.speedup if screening.speedup > 0 else None


def _searched(bench: _Bench) -> str:
    failures = bench.failures()
    failed = f" ({failures})" if failures else ""
    return f"swept {_tunables(bench)} over {plural(bench.distinct, 'point')}{failed}"


def _tunables(bench: _Bench) -> str:
    return plural(len(bench.found.tunables), "tunable")


def _category(changed: Sequence[Tunable]) -> Category:
    """What the settings that changed are about; of several kinds, the one that weighs most."""
    kinds = {tunable.kind for tunable in changed}
    if kinds & {"threads", "environment"}:
        return "parallelism"
    if kinds & {"declared", "constant"}:
        return "tiling"
    if "launch" in kinds:
        return "launch"
    return "scheduling" if kinds & {"unroll", "schedule"} else "other"


def _swept_by_class(brief: Brief) -> bool:
    """Whether the ledger says that classes were tried with settings of their own."""
    return any(
        brief.incumbent.id in (past.incumbent_id, past.candidate.id)
        for past in brief.remembered
        if past.hypothesis.tactic == CLASS_TACTIC
    )


def _hypothesis(brief: Brief, bench: _Bench, winner: _Finalist, tactic: str) -> Hypothesis:
    changed = [t for t in bench.found.tunables if winner.assignment[t.name] != t.current]
    settings = ", ".join(f"{t.name} {t.current} -> {winner.assignment[t.name]}" for t in changed)
    lines = [
        f"{t.name} ({t.where}): {t.current} -> {winner.assignment[t.name]}, "
        f"out of {', '.join(map(str, t.choices))}"
        for t in changed
    ]
    fresh = ", ".join(f"{look:.3f}x" for look in winner.fresh)
    # With other thread counts, the cycles summed over all threads say nothing about time.
    counts = not any(t.kind in ("threads", "environment") for t in changed)
    cycles = "cycles" if brief.incumbent.language in HOST_LANGUAGES else "elapsed_cycles"
    return Hypothesis(
        statement=f"Set {settings}: the best of {plural(bench.distinct, 'point')} over "
        f"{_tunables(bench)}",
        rationale="Block sizes, unrolling and build flags have no best value that can be "
        "computed; it depends on this machine's caches, registers and compiler, so it was searched",
        evidence=(
            *brief.bottleneck.evidence,
            *lines,
            f"{_searched(bench)}; the winner looked {winner.first:.3f}x faster at first and "
            f"{fresh} when screened again",
        ),
        answers=brief.bottleneck.kind,
        expected_counter=cycles if counts else None,
        expected_change=f"down to {1 / winner.speedup:.0%}" if counts else None,
        expected_delta=1 / winner.speedup if counts else None,
        predicted_speedup=winner.speedup,
        category="dispatch" if tactic == CLASS_TACTIC else _category(changed),
        tactic=tactic,
        source="Jones, Schonlau & Welch, Efficient Global Optimization, J. Global Optim. 13, 1998",
    )
