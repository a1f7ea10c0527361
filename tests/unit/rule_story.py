"""A campaign in memory whose rounds end by as many rules as possible.

`PYTHONPATH=tests python tests/unit/rule_story.py` writes its ledger to `tests/golden/rules/`, once
for every version of the rules: what was concluded then is what later versions have to live with.
"""

from __future__ import annotations

import gzip
import math
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from test_kills import Joins, Shows

from roofsmith.analysis.clock import agreement, by_clock
from roofsmith.domain.campaign import Event
from roofsmith.domain.comparison import Judgement, PairSample
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Incorrect
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.ports import Observer, Scope
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.records import check_chain, unseal
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_repair, fake_target
from roofsmith.testing.inspector import FakeInspector
from roofsmith.testing.judge import FakeJudge, FakeKernels
from roofsmith.testing.tracer import FakeTracer

GOLDEN = Path(__file__).parents[1] / "golden" / "rules"
SWEEPS = 24
FIRST, AGAIN, CLOCK = 0, 1, 2
CLOCK_CALLS = 500
SMALL, LARGE = (1000, 2000), (400_000, 500_000)
WRONG = Incorrect(reason="outside_budget", detail="off by 1")


@dataclass(frozen=True)
class Fate:
    """How an idea's kernel measures: its time over the incumbent's."""

    name: str
    all: float = 1.0
    small: float | None = None
    large: float | None = None
    first: float | None = None
    """All of it in the first measurement, where that is another."""
    clock: float | None = None
    """All of it by the judge's clock, where that is another."""
    noise: float = 0.004
    """Standard deviation of the logarithm of a time."""
    noise_small: float | None = None
    at: Mapping[int, float] = field(default_factory=dict)
    """On workloads of this size, where a class isn't alike."""
    wrong: bool = False
    repair: bool = False
    aim: str = "global"
    """The class that should gain."""

    def factor(self, size: int, instance: int) -> float:
        whole = {FIRST: self.first, CLOCK: self.clock}.get(instance)
        of_class = self.small if size in SMALL else self.large
        return self.at.get(size, next(f for f in (whole, of_class, self.all) if f is not None))

    def spread(self, size: int) -> float:
        on_small = size in SMALL and self.noise_small is not None
        return self.noise_small if on_small and self.noise_small is not None else self.noise


FATES = (
    Fate("a gain", 0.8),
    Fate("less by the judge's clock", 0.7, clock=0.8),
    Fate("a little less by the judge's clock", 0.8, clock=0.87),
    Fate("nothing by the judge's clock", 0.7, clock=1.0),
    Fate("nobody can tell by the judge's clock", 0.98, clock=0.999, noise=0.006),
    Fate("gone when it is measured again", 1.0, first=0.9),
    Fate("a small class seems to pay", 0.85, small=1.015, noise_small=0.025),
    Fate("a small class pays a little, twice", 0.85, small=1.007, noise_small=0.001),
    Fate("a small class pays", 0.85, small=1.05),
    Fate("one workload pays", 0.8, at={SMALL[0]: 1.08, SMALL[1]: 0.7}),
    Fate("one workload may pay", 0.85, at={SMALL[0]: 1.045, SMALL[1]: 0.7}, noise_small=0.03),
    Fate("a class gains", small=0.7, aim="small"),
    Fate("another class pays for a tie", small=1.0, large=1.08, aim="small"),
    Fate("a tie", 1.0),
    Fate("too noisy", 0.97, noise=0.2),
    Fate("wrong", wrong=True),
    Fate("wrong again", wrong=True, repair=True),
    Fate("right", 0.9, repair=True),
    Fate("wrong and dropped", wrong=True),
    Fate("diverges", small=1.5, large=0.5),
    *(Fate(f"slower {n}", 1.1 + n / 10) for n in range(5)),
)


class Book(FakeJudge):
    """Concludes what the real judge concludes, from times that fates give."""

    def __init__(self, world: FakeWorld, judge: FakeJudge, target: Target) -> None:
        super().__init__(target, world.kernels, judge._classes, judge._floors)
        self._world = world

    def _within(self, scope: Scope) -> Book:
        labels = {label for found in scope.classes for label in found.workloads}
        few = tuple(w for w in self._target.workloads if w.label in labels)
        book = Book(self._world, self, self._target.model_copy(update={"workloads": few}))
        book._classes = scope.classes
        return book

    def _judged(
        self, candidate: Built, incumbent: Built, observer: Observer, *, quick: bool = False
    ) -> Judgement:
        found = super()._judged(candidate, incumbent, observer, quick=quick)
        if not found.clock or found.comparison is None:
            return found
        target = self._target
        clocked = by_clock(found.clock, target.workloads, self._classes, self._floors, target.keep)
        assert clocked is not None, "every workload has valid pairs"
        match agreement(found.comparison, clocked):
            case "forged":
                update = {"outcome": Cheated(reason="clock_forged"), "verdict": "rejected"}
            case "unresolved":
                update = {"verdict": "unverified"}
            case "exaggerated":
                verdict = clocked.sure.overall.verdict
                update = {"comparison": clocked.sure, "verdict": verdict}
            case "agrees":
                update = {}
        return found.model_copy(update=update)

    def _pairs(
        self, candidate: Built, incumbent: Built, *, instance: int
    ) -> tuple[PairSample, ...]:
        fate = _fate_of(candidate.candidate_id, self._world.ideas)
        seed = f"{incumbent.candidate_id} {candidate.candidate_id} {instance}"
        noise = random.Random(seed)
        return tuple(
            PairSample(
                workload=workload.label,
                sweep=sweep,
                instance=instance,
                first="incumbent" if sweep % 2 else "candidate",
                incumbent_time_s=(_time_s(1.0, fate.spread(size), noise),),
                candidate_time_s=(_time_s(fate.factor(size, instance), fate.spread(size), noise),),
                calls=CLOCK_CALLS if instance == CLOCK else 1,
            )
            for sweep in range(SWEEPS)
            for workload in self._target.workloads
            for size in (workload.dims["n"],)
        )


def story() -> FakeWorld:
    """Every fate is an idea's, but for the dispatch: that is the engine's own."""
    workloads = tuple(
        Workload(dims={"n": size}, config_class=name)
        for name, sizes in (("small", SMALL), ("large", LARGE))
        for size in sizes
    )
    target = fake_target(workloads=workloads, stop=StopPolicy(max_iterations=60))
    kernels, ideas = FakeKernels(), list[Proposal]()
    for number, fate in enumerate(FATES):
        if fate.repair:
            idea = fake_repair(ideas[-1].model_copy(update={"repair": False}), number)
        else:
            idea = fake_idea(target, fate.name)
            promised = {"target_class": fate.aim, "predicted_speedup": 1.25}
            aimed = idea.hypothesis.model_copy(update=promised)
            idea = idea.model_copy(update={"hypothesis": aimed})
        kernels.add(idea.candidate, outcome=WRONG if fate.wrong else None)
        ideas.append(idea)
    return FakeWorld(
        target, kernels, ideas, merger=Joins(), tracer=FakeTracer(), inspector=FakeInspector()
    )


def told() -> list[Event]:
    """The story's ledger, by today's rules."""
    world = story()
    judge = Book(world, world.fake_judge(), world.target)
    Engine(replace(world, judge=judge, disassembler=Shows()).parts(), "story").run()
    return world.records


def golden(version: int) -> Path:
    """Where the ledger of a version of the rules is."""
    return GOLDEN / f"rules-{version}.jsonl.gz"


@cache
def events_of(version: int) -> tuple[Event, ...]:
    """What that ledger holds."""
    lines = gzip.decompress(golden(version).read_bytes()).splitlines()
    records = [unseal(line) for line in lines]
    check_chain(records)
    return tuple(record.event() for record in records)


def write(version: int) -> Path:
    """Tell the story once more, and keep its ledger; never in place of one that is kept."""
    path = golden(version)
    if path.exists():
        sys.exit(f"{path} exists: what was concluded by version {version} stays as it is")
    with tempfile.TemporaryDirectory() as folder:
        ledger = JsonlLedger(Path(folder, "ledger.jsonl"))
        for event in told():
            ledger.append(event)
        path.write_bytes(gzip.compress(Path(folder, "ledger.jsonl").read_bytes(), mtime=0))
    return path


def _fate_of(candidate_id: str, ideas: Sequence[Proposal]) -> Fate:
    """The engine's own dispatch of the kernel that diverged has the better of both."""
    known = {idea.candidate.id: fate for idea, fate in zip(ideas, FATES, strict=True)}
    return known.get(candidate_id, Fate("a dispatch", small=1.0, large=0.5))


def _time_s(factor: float, spread: float, noise: random.Random) -> float:
    return float(f"{1e-3 * factor * math.exp(noise.gauss(0.0, spread)):.4g}")


if __name__ == "__main__":
    from roofsmith.analysis.rulebook import RULES

    print(write(RULES))
