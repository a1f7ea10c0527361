"""Every kernel of the corpus before the real judge, and before the naive one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from roofsmith import api
from roofsmith.api.hardware import leased_machine, machine_of
from roofsmith.api.subjects import candidate_from, parse_workloads
from roofsmith.api.wiring import OpenTarget
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built, Candidate, Language
from roofsmith.domain.outcome import Passed
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.domain.values import Value
from roofsmith.errors import NoIdleGpuError, RoofsmithError
from roofsmith.judge.version import judge_version
from roofsmith.ports import Gate, Observer
from roofsmith.selftest.harness import NaiveVerdict, naive_verdict
from roofsmith.selftest.samples import HARMLESS, CorpusSample, Operator, operator

BUDGET_S = 2.0
"""For the measurements of one kernel: differences of 5% show, and nothing here asks for less."""


TRIES = 3
UNDECIDED = ("passed/unverified", "passed/inconclusive")
"""What measuring comes to that is too short to catch whoever is caught by chance, call by call: an
attack that ends so is judged once more, `TRIES` times at most. Chosen."""

BROKEN = "error"
"""Outcome of a kernel that roofsmith itself failed to judge."""


class SampleFinding(Value):
    id: str
    language: Language
    is_attack: bool
    attack_class: str
    about: str
    expected: tuple[str, ...]
    outcome: str
    """`cheated/clock_forged`, or `passed/tie` with the verdict, or `error`."""
    detail: str = ""
    """Of the outcome, with its numbers."""
    speedup: float | None = None
    """By the judge; None where nothing was timed."""
    right: bool
    """The attack was caught, or the honest kernel wasn't rejected."""
    right_reason: bool
    """And that for a reason that was expected: a code, or, of what passed, that it is harmless."""
    naive: NaiveVerdict | None = None
    """None: not asked, or it came to no verdict."""
    deceives_naive: bool | None = None
    """Whether an attack wins there what it says it does; None where that wasn't tried."""
    source: str = ""
    """Digest of the kernel's file."""
    judge: str = ""
    """Which judge it was: a digest of its sources."""
    judgements: int = 1
    """How many it took; the last one counts."""
    seconds: float
    """Of all these judgements; what it was built in isn't counted if several were judged."""

    @property
    def is_rejected(self) -> bool:
        """Whether the judge refused it, with a code; `error` isn't a judgement."""
        return self.outcome != BROKEN and not self.outcome.startswith("passed/")


class Unexamined(Value):
    """A kernel that this machine can't run."""

    id: str
    reason: str


Progress = Callable[[int, CorpusSample], Observer]
"""Told which sample comes next, by its index; what the judge says meanwhile goes to the result."""


class SelftestExaminer:
    """Judges kernels of the corpus; what an operator needs is set up once for all of them.

    Of a GPU's kernels, one GPU is held as long as the block lasts, also for the naive harness.
    """

    def __init__(
        self,
        settings: Settings,
        chosen: Sequence[CorpusSample] = (),
        *,
        naive: bool = True,
        budget_s: float = BUDGET_S,
    ) -> None:
        """Nothing starts yet.

        Args:
            settings: where caches are.
            chosen: what will be judged: built side by side, before the first of its language is.
            naive: ask the naive harness, too.
            budget_s: for the measurements of each kernel.
        """
        self._settings, self._chosen = settings, tuple(chosen)
        self._naive, self._budget_s = naive, budget_s
        self._missing: dict[Language, str | None] = {}
        self._gates: dict[Language, Gate | None] = {}
        self._opened: dict[tuple[str, Language], tuple[OpenTarget, ExitStack]] = {}
        self._machines = ExitStack()

    def __enter__(self) -> SelftestExaminer:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._machines:
            for key in list(self._opened):
                self._end(key)

    def examine(self, sample: CorpusSample, observer: Observer) -> SampleFinding | Unexamined:
        """Judge one kernel.

        Raises:
            NoIdleGpuError: it runs on a GPU, and none is idle.
        """
        if reason := self._lack(sample.language, observer):
            return Unexamined(id=sample.id, reason=reason)
        task = operator(sample.operator, sample.language)
        opinion = self._opinion(sample, task) if self._naive else None
        begin = time.monotonic()
        judgements = 0
        try:
            opened = self._open(task, sample.language, observer).heard_by(observer)
            while True:
                judgements += 1
                judgement = api.judge_with(
                    opened, candidate_from(sample.path, sample.flags),
                    custom_only=sample.must_be_custom, sanitize=sample.must_be_sanitized,
                )  # fmt: skip
                if judgements == TRIES or not _may_be_caught_yet(sample, judgement):
                    break
        except NoIdleGpuError:
            raise
        except RoofsmithError as error:
            self._end((task.name, sample.language))  # what is left of it may not be sound
            broken = str(error)
            return _finding(sample, opinion, self._naive, begin, outcome=BROKEN, detail=broken)
        comparison = judgement.comparison
        return _finding(
            sample, opinion, self._naive, begin,
            outcome=label_of(judgement),
            detail=judgement.outcome.detail,
            speedup=comparison.overall.speedup if comparison else None,
            right=is_right(sample, judgement),
            right_reason=is_right_reason(sample, judgement),
            judgements=judgements,
        )  # fmt: skip

    def _lack(self, language: Language, observer: Observer) -> str | None:
        """Why kernels in a language can't run here; None: they can."""
        if language not in self._missing:
            try:
                machine = self._machines.enter_context(
                    leased_machine(self._settings, language, observer)
                )
                machine.toolchain.build_all(self._candidates(language))
            except NoIdleGpuError:
                raise
            except RoofsmithError as error:
                self._missing[language] = error.message
            else:
                self._missing[language] = None
                self._gates[language] = machine.gate
        return self._missing[language]

    def _candidates(self, language: Language) -> list[Candidate]:
        alike = [sample for sample in self._chosen if sample.language == language]
        bases = {operator(sample.operator, language).base for sample in alike}
        return [
            *(candidate_from(sample.path, sample.flags) for sample in alike),
            *(candidate_from(base, None) for base in sorted(bases)),
        ]

    def _opinion(self, sample: CorpusSample, task: Operator) -> NaiveVerdict | None:
        """What the naive harness says; it knows no gate of its own.

        It times the two kernels one after the other, so that a busy machine may hide a gain from
        it: an attack that it found nothing wrong with is shown to it `TRIES` times at most.
        """
        for _ in range(TRIES):
            if (gate := self._gates[sample.language]) is not None:
                gate.pass_through()
            opinion = naive_opinion(sample, task, self._settings)
            fooled = opinion is not None and opinion.correct
            if not (sample.is_attack and fooled) or _deceives(sample, opinion):
                break
        return opinion

    def _open(self, task: Operator, language: Language, observer: Observer) -> OpenTarget:
        key = (task.name, language)
        if key not in self._opened:
            against = api.Subject(
                path=task.base, reference=task.reference, workloads=task.workloads
            )
            stack, settings = ExitStack(), _for(language, self._settings)
            made = api.opened_against(against, language, self._budget_s, settings, observer)
            self._opened[key] = stack.enter_context(made), stack
        return self._opened[key][0]

    def _end(self, key: tuple[str, Language]) -> None:
        if key in self._opened:
            _, stack = self._opened.pop(key)
            stack.close()


def examine(
    chosen: Sequence[CorpusSample],
    settings: Settings,
    progress: Progress,
    *,
    naive: bool = True,
    budget_s: float = BUDGET_S,
) -> Iterator[SampleFinding | Unexamined]:
    """Judge kernel after kernel.

    Raises:
        NoIdleGpuError: some of it runs on a GPU, and none is idle.
    """
    with SelftestExaminer(settings, chosen, naive=naive, budget_s=budget_s) as examiner:
        for index, sample in enumerate(chosen):
            yield examiner.examine(sample, progress(index, sample))


def _for(language: Language, settings: Settings) -> Settings:
    """Clocks are a GPU's: a kernel for the processors runs without holding any."""
    wanted = settings.lock_clocks and language not in HOST_LANGUAGES
    return replace(settings, lock_clocks=wanted)


def _finding(
    sample: CorpusSample,
    opinion: NaiveVerdict | None,
    asked: bool,
    begin: float,
    *,
    outcome: str,
    detail: str,
    speedup: float | None = None,
    right: bool = False,
    right_reason: bool = False,
    judgements: int = 1,
) -> SampleFinding:
    return SampleFinding(
        id=sample.id,
        language=sample.language,
        is_attack=sample.is_attack,
        attack_class=sample.attack_class,
        about=sample.about,
        expected=sample.expected,
        outcome=outcome,
        detail=detail,
        speedup=speedup,
        right=right,
        right_reason=right_reason,
        naive=opinion,
        deceives_naive=_deceives(sample, opinion) if asked and sample.is_attack else None,
        source=sample.digest,
        judge=judge_version(),
        judgements=judgements,
        seconds=round(time.monotonic() - begin, 2),
    )


def label_of(judgement: Judgement) -> str:
    """`kind/reason`, or `passed/verdict`."""
    outcome = judgement.outcome
    if isinstance(outcome, Passed):
        return f"{outcome.kind}/{judgement.verdict}"
    return f"{outcome.kind}/{outcome.reason}"


def _may_be_caught_yet(sample: CorpusSample, judgement: Judgement) -> bool:
    """Whether an attack got away for now, and won nothing."""
    undecided = sample.is_attack and label_of(judgement) in UNDECIDED
    return undecided and not is_right(sample, judgement)


def is_right(sample: CorpusSample, judgement: Judgement) -> bool:
    """Whether an attack was caught, or an honest kernel let through.

    An attack that passes is caught only where it is known to gain nothing then, and it was not
    called faster.
    """
    passed = isinstance(judgement.outcome, Passed)
    if HARMLESS in sample.expected:
        return (sample.is_attack or passed) and judgement.verdict != "faster"
    return passed is not sample.is_attack


def is_right_reason(sample: CorpusSample, judgement: Judgement) -> bool:
    """Whether it was decided for one of the reasons that were expected."""
    if not is_right(sample, judgement):
        return False
    label = HARMLESS if isinstance(judgement.outcome, Passed) else label_of(judgement)
    return not sample.is_attack or label in sample.expected


def _deceives(sample: CorpusSample, opinion: NaiveVerdict | None) -> bool:
    if opinion is None:
        return False
    return opinion.faster if sample.wins == "faster" else opinion.correct


def naive_opinion(sample: CorpusSample, task: Operator, settings: Settings) -> NaiveVerdict | None:
    """What the naive harness says on the first workload; None where it came to no verdict."""
    candidate, base = (
        _library(path, flags, settings)
        for path, flags in ((sample.path, sample.flags), (task.base, None))
    )
    if candidate is None or base is None:
        return None
    (first, *_) = parse_workloads(task.workloads)
    return naive_verdict(sample.language, candidate, base, task.reference, first.dims)


def _library(kernel: Path, flags: str | None, settings: Settings) -> Path | None:
    candidate = candidate_from(kernel, flags)
    built = machine_of(settings, candidate.language).toolchain.build(candidate)
    return built.library if isinstance(built, Built) else None
