"""Whether the database of experiments saves rounds: campaigns without it, and with it.

    python benchmarks/experience.py --out benchmarks/results/experience.json

Every case is a textbook kernel in C. Its first campaign knows nothing; its second one has the
rounds of all other cases' first campaigns, and none of its own kernel file. Engine, cards,
compiler, check and profiler are the real ones. A kernel's time is the least of many calls, which
other work on the machine changes little, in place of the judge's paired samples; what both
campaigns of a case judge is measured once. The same command goes on with the cases that its file
lacks.
"""

from __future__ import annotations

import argparse
import math
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean

from experience_cases import CASES, Case
from result_file import Made, made_now, mean_interval, say, write
from roofsmith.analysis.experiments import experiments
from roofsmith.analysis.recommend import recommend, situation_of
from roofsmith.api.wiring import LateLineage, OpenTarget, make_proposer, open_target
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, replay
from roofsmith.domain.comparison import Judgement, Screening
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.values import Value
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.parts import nothing_cited
from roofsmith.ports import Judge, Measured, Observer, Profiler, Scope
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target
from roofsmith.testing.judge import FakeJudge, FakeKernels
from roofsmith.testing.observer import SilentObserver

SHARE = 0.95
"""Of the final speedup, that a campaign has to have reached."""
BURSTS, BURST_S = 15, 3e-3
"""Bursts of calls that a kernel's least time is taken from, and the length of each, about."""
INSTANCES = 3
"""Fresh processes that do so: where memory lies makes a difference from one to the next."""


class Tried(Value):
    """One round."""

    tactic: str
    outcome: str
    decision: str
    predicted: float | None
    speedup: float | None
    total_speedup: float


class Run(Value):
    """One campaign."""

    rounds: tuple[Tried, ...]
    stopped: str
    wall_s: float

    @property
    def final(self) -> float:
        """Speedup over the naive kernel."""
        return self.rounds[-1].total_speedup if self.rounds else 1.0

    @property
    def needed(self) -> int:
        """Rounds until `SHARE` of the final speedup was there."""
        return self.rounds_to(SHARE * self.final)

    def rounds_to(self, speedup: float) -> int:
        """Rounds until that was there; one more than there are where it never was."""
        reached = (n for n, r in enumerate(self.rounds, 1) if r.total_speedup >= speedup)
        return 0 if speedup <= 1 else next(reached, len(self.rounds) + 1)

    @property
    def least(self) -> int:
        """The same, had what was kept been tried first, the largest gains before the others."""
        gains = sorted(
            (r.speedup or 1.0 for r in self.rounds if r.decision == "kept"), reverse=True
        )
        reached = (n for n in range(len(gains)) if math.prod(gains[:n]) >= SHARE * self.final)
        return next(reached, len(gains)) if self.needed else 0


class CaseRow(Value):
    """Both campaigns of a case; None: not run yet."""

    case: str
    family: str
    dims: dict[str, int]
    without: Run | None = None
    with_others: Run | None = None
    experiments: int = 0
    """Of other cases, that the second campaign could ask."""


class Summary(Value):
    """Follows from the rows that have both campaigns."""

    campaigns: int
    rounds_without: int
    """Until `SHARE` of the final speedup, all campaigns together."""
    rounds_with: int
    rounds_with_to_same: int
    """With the database, until `SHARE` of the final speedup without it."""
    least_rounds: int
    """Of those without: had each campaign tried what it kept first."""
    fewer: float
    """Share of the rounds that were saved."""
    fewer_rounds: int
    """Campaigns that needed fewer, more."""
    more_rounds: int
    final_ratio: float
    """Final speedup with the database over that without: geometric mean."""
    final_ratio_ci: tuple[float, float] | None
    """95%, by Student's distribution over campaigns."""
    all_rounds_without: int
    all_rounds_with: int


class ExperienceRecord(Value):
    """A result file."""

    made: Made
    summary: Summary | None = None
    cases: tuple[CaseRow, ...] = ()

    def of(self, case: Case) -> CaseRow:
        """A case's row, empty if there is none yet."""
        empty = CaseRow(case=case.name, family=case.family, dims=dict(case.dims))
        return next((row for row in self.cases if row.case == case.name), empty)

    def put(self, row: CaseRow) -> ExperienceRecord:
        """With a case's newest state."""
        rows = {one.case: one for one in self.cases} | {row.case: row}
        cases = tuple(rows.values())
        return self.model_copy(update={"cases": cases, "summary": summarize(cases)})


class LeastTimeJudge(FakeJudge):
    """By the book, on the real check and each kernel's least time; what a case's other campaign
    measured isn't measured again."""

    def __init__(self, opened: OpenTarget, judge: Judge, before: Campaign | None) -> None:
        self._kernels = FakeKernels()
        self._before = before
        for one in before.rounds if before is not None else ():
            self._kernels.outcomes[one.candidate.id] = one.judgement.outcome
        floors = {bound.workload: bound.floor_time_s for bound in opened.survey.bounds}
        super().__init__(opened.target, self._kernels, opened.survey.classes, floors)
        self._opened, self._judge = opened, judge

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        """Of a candidate that was looked at."""
        if self._check(candidate):
            for workload in self._opened.target.workloads:
                key = candidate.candidate_id, workload.label
                if timed and key not in self._times_s:
                    self._times_s[key] = self._least_s((candidate,), workload)[0]
        return super().measure(candidate, observer, timed=timed)

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        """The same."""
        self._compete(candidate, incumbent)
        return super().screen(candidate, incumbent)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> Judgement:
        """The same."""
        self._compete(candidate, incumbent)
        return super().compare(candidate, incumbent, observer, scope)

    def _check(self, built: Built) -> bool:
        """Whether it is right; what was looked at before isn't again."""
        outcomes = self._kernels.outcomes
        if built.candidate_id not in outcomes:
            found = self._judge.measure(built, SilentObserver(), timed=False)
            outcomes[built.candidate_id] = found.outcome
        return outcomes[built.candidate_id].kind == "passed"

    def _compete(self, candidate: Built, incumbent: Built) -> None:
        """Time a candidate by the ratio of least times in bursts that take turns."""
        if not (self._check(candidate) and self._check(incumbent)):
            return
        times, first, second = self._times_s, incumbent.candidate_id, candidate.candidate_id
        for workload in self._opened.target.workloads:
            ratio = self._known_ratio(first, second, workload.label)
            if ratio is None:
                seen = [self._least_s((incumbent, candidate), workload) for _ in range(INSTANCES)]
                ratio = geometric_mean([a / b for a, b in seen])
            times[second, workload.label] = times[first, workload.label] / ratio

    @property
    def _times_s(self) -> dict[tuple[str, str], float]:
        return self._kernels.times_on_s

    def _known_ratio(self, first: str, second: str, label: str) -> float | None:
        for one in self._before.rounds if self._before is not None else ():
            comparison = one.judgement.comparison
            if (one.incumbent_id, one.candidate.id) == (first, second) and comparison is not None:
                return next(w.estimate.speedup for w in comparison.workloads if w.workload == label)
        return None

    def _least_s(self, kernels: Sequence[Built], workload: Workload) -> list[float]:
        arguments = self._opened.oracle.inputs(workload, seed=1)
        runner = self._opened.machine.runner
        with ExitStack() as stack:
            sessions = [
                stack.enter_context(runner.open(built, arguments, threads=1)) for built in kernels
            ]
            once = [min(session.call(3)) for session in sessions]
            calls = [min(200, max(2, round(BURST_S / one_s))) for one_s in once]
            bursts = [
                [min(session.call(count)) for session, count in zip(sessions, calls, strict=True)]
                for _ in range(BURSTS)
            ]
        return [min(times) for times in zip(*bursts, strict=True)]


class KnownProfiler:
    """Port `Profiler`: what a case's other campaign saw isn't profiled again."""

    def __init__(self, profiler: Profiler, before: Campaign | None) -> None:
        self._profiler = profiler
        seen = (before.baseline, *before.rounds) if before is not None else ()
        self._known = {
            (one.candidate.id, one.profile.workload): one.profile
            for one in seen
            if one is not None and one.profile is not None
        }

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters of one kernel."""
        known = self._known.get((built.candidate_id, workload.label))
        return known or self._profiler.profile(built, workload)


def campaign(
    case: Case,
    directory: Path,
    settings: Settings,
    iterations: int,
    others: Sequence[Experiment],
    before: Campaign | None,
) -> Run:
    """One campaign in a directory, which is made anew.

    Args:
        case: the kernel.
        directory: of the campaign.
        settings: where caches are.
        iterations: at most so many rounds.
        others: rounds that it may learn from.
        before: the case's campaign that had none of them.
    """
    shutil.rmtree(directory, ignore_errors=True)
    target = load_target(
        case.write(directory.with_name(f"{directory.name}-target")),
        overrides={"stop.max_iterations": iterations, "threads": 1, "held_out": 0, "learn": True},
    )
    begin = time.monotonic()
    with (
        CampaignDirectory.create(directory) as files,
        open_target(target, settings, SilentObserver()) as opened,
    ):
        evaluator = replace(
            opened.evaluator, judge=LeastTimeJudge(opened, opened.evaluator.judge, before),
            profiler=KnownProfiler(opened.evaluator.profiler, before),
            judge_on=None, inspector=None, tracer=None,
        )  # fmt: skip
        opened = replace(opened, evaluator=evaluator)
        lineage = LateLineage(directory, case.name, target.baseline, None)
        parts = replace(
            opened.parts(make_proposer("recipes"), files, lineage, nothing_cited),
            recommended=lambda started: recommend(others, situation_of(started)),
        )
        found = Engine(parts, case.name).run()
    return run_of(found, time.monotonic() - begin)


def run_of(found: Campaign, wall_s: float) -> Run:
    """What a campaign came to."""
    stopped = found.stopped
    return Run(
        rounds=tuple(
            Tried(
                tactic=one.hypothesis.tactic,
                outcome=one.judgement.outcome.kind,
                decision=one.decision.kind,
                predicted=one.hypothesis.predicted_speedup,
                speedup=one.judgement.comparison and one.judgement.comparison.overall.speedup,
                total_speedup=one.total_speedup,
            )
            for one in found.rounds
        ),
        stopped=f"{stopped.code}: {stopped.detail}" if stopped else "",
        wall_s=round(wall_s, 1),
    )


def summarize(rows: Sequence[CaseRow]) -> Summary | None:
    """Of the rows that have both campaigns; None: there are none."""
    pairs = [(r.without, r.with_others) for r in rows if r.without and r.with_others]
    if not pairs:
        return None
    ratios = [math.log(b.final / a.final) for a, b in pairs]
    ci = mean_interval(ratios) if len(ratios) > 1 else None
    without, others = (sum(run.needed for run in side) for side in zip(*pairs, strict=True))
    return Summary(
        campaigns=len(pairs),
        rounds_without=without,
        rounds_with=others,
        rounds_with_to_same=sum(b.rounds_to(SHARE * a.final) for a, b in pairs),
        least_rounds=sum(a.least for a, _ in pairs),
        fewer=1 - others / without if without else 0.0,
        fewer_rounds=sum(b.needed < a.needed for a, b in pairs),
        more_rounds=sum(b.needed > a.needed for a, b in pairs),
        final_ratio=math.exp(sum(ratios) / len(ratios)),
        final_ratio_ci=None if ci is None else (math.exp(ci[0]), math.exp(ci[1])),
        all_rounds_without=sum(len(a.rounds) for a, _ in pairs),
        all_rounds_with=sum(len(b.rounds) for _, b in pairs),
    )


def main() -> None:
    """Run what the file lacks, print, write."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--keep", type=Path, default=Path("campaigns/experience"))
    made.add_argument("--max-iterations", type=int, default=10)
    made.add_argument("--case", nargs="+", choices=[case.name for case in CASES])
    made.add_argument("--out", type=Path, required=True)
    options = made.parse_args()
    settings = Settings(options.keep.absolute() / "cache", options.keep.absolute())
    result = ExperienceRecord(made=made_now())
    if options.out.exists():
        result = ExperienceRecord.model_validate_json(options.out.read_text(encoding="utf-8"))
    chosen = [case for case in CASES if not options.case or case.name in options.case]
    for case in chosen:
        result = run_both(case, result, options, settings, alone=True)
    for case in chosen:
        result = run_both(case, result, options, settings, alone=False)
    print(table(result))


def run_both(
    case: Case, result: ExperienceRecord, options: argparse.Namespace, settings: Settings, *,
    alone: bool,
) -> ExperienceRecord:  # fmt: skip
    """With one more of a case's campaigns, if the record lacks it."""
    row, side = result.of(case), "without" if alone else "with_others"
    if getattr(row, side) is not None:
        return result
    first = options.keep.absolute() / "without"
    others = () if alone else learned_elsewhere(case, first)
    before = None if alone else campaign_in(first / case.name)
    place = options.keep.absolute() / side / case.name
    with ProcessPoolExecutor(1, get_context("spawn")) as alone_in:  # of what a campaign opens,
        given = (case, place, settings, options.max_iterations, others, before)
        found = alone_in.submit(campaign, *given).result()  # some stays open until its process ends
    result = result.put(row.model_copy(update={side: found, "experiments": len(others)}))
    write(result, options.out)
    say(f"{case.name}, {side}: {told(found)}")
    return result


def learned_elsewhere(case: Case, place: Path) -> tuple[Experiment, ...]:
    """The rounds of every other kernel file's campaign."""
    found = (campaign_in(place / other.name) for other in CASES if other.name != case.name)
    return tuple(one for past in found if past is not None for one in experiments(past))


def campaign_in(directory: Path) -> Campaign | None:
    """What a directory's ledger holds; None: there is none."""
    return replay(JsonlLedger(directory / "ledger.jsonl").events())


def told(found: Run) -> str:
    """A campaign in a line; `*` was kept."""
    steps = ", ".join(
        f"{one.tactic.removeprefix('recipe:')} {one.speedup or 0:.2f}"
        f"{'*' if one.decision == 'kept' else ''}"
        for one in found.rounds
    )
    return f"{found.final:.2f}x, {found.needed} of {len(found.rounds)} rounds: {steps}"


def table(result: ExperienceRecord) -> str:
    """The result for people."""
    lines = [
        f"{row.case:<20} {a.needed:>2} of {len(a.rounds):>2} to {a.final:6.2f}x;"
        f" with the others' {b.needed:>2} of {len(b.rounds):>2} to {b.final:6.2f}x"
        for row in result.cases
        if (a := row.without) is not None and (b := row.with_others) is not None
    ]
    if (sums := result.summary) is not None:
        low, high = sums.final_ratio_ci or (0.0, math.inf)
        lines.append(
            f"{sums.campaigns} cases: {sums.rounds_without} rounds to {SHARE:.0%} without,"
            f" {sums.rounds_with} with, {sums.rounds_with_to_same} to the same speedup"
            f" ({-sums.fewer:+.0%}; fewer in {sums.fewer_rounds}, more in {sums.more_rounds}),"
            f" {sums.least_rounds} at the least without;"
            f" final speedup {sums.final_ratio:.3f} [{low:.3f}, {high:.3f}];"
            f" all rounds {sums.all_rounds_without} and {sums.all_rounds_with}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
