"""Judging: one candidate, or many against one incumbent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from roofsmith.analysis.scan import library_calls, with_remarks
from roofsmith.analysis.short_kernels import judged_time_note
from roofsmith.app.canary import canary_builds, require_compiled
from roofsmith.app.clocks import clock_notes
from roofsmith.app.subjects import Subject, candidate_from, require_allowed, target_of
from roofsmith.app.wiring import Workshop, workshop
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Candidate, Language
from roofsmith.domain.outcome import BuildFailed, Cheated, Passed
from roofsmith.domain.target import HOST_LANGUAGES, KeepPolicy, default_keep
from roofsmith.engine import records
from roofsmith.engine.workbench import changed_signature
from roofsmith.errors import UsageError
from roofsmith.ports import Observer


def judge(
    candidate: Path,
    flags: str | None,
    against: Subject,
    budget_s: float | None,
    settings: Settings,
    observer: Observer,
    *,
    custom_only: bool = False,
    sanitize: bool = False,
    canary: bool = False,
) -> Judgement:
    """Build both kernels; check and time the candidate against the other.

    Args:
        candidate: kernel file.
        flags: of the candidate; None: the default ones.
        against: the incumbent, with reference and workloads.
        budget_s: for the measurements; None: the default policy's.
        settings: where caches are.
        observer: hears what happens.
        custom_only: reject a candidate whose source leaves the work to a library.
        sanitize: have every CUDA candidate that passes run under compute-sanitizer, not only one
            that is faster.
        canary: compile both anew, with a random word that whatever is run must hold.

    Raises:
        UsageError: a file or option is wrong.
        BaselineError: the incumbent doesn't build, or doesn't pass.
    """
    challenger = candidate_from(candidate, flags)
    require_allowed(challenger)
    if canary:
        require_compiled(challenger.language)
    if rejected := _refused(challenger, custom_only=custom_only):
        return rejected
    with contest(against, challenger.language, budget_s, settings, observer) as ring:
        if not canary:
            return ring.judge(challenger, observer, sanitize=sanitize)
        with canary_builds(ring.shop.machine, settings) as builds:
            machine = replace(ring.shop.machine, toolchain=builds.toolchain)
            anew = Contest(replace(ring.shop, machine=machine))
            judgement = anew.judge(challenger, observer, sanitize=sanitize)
            proof = builds.notes({"candidate": challenger, "incumbent": ring.shop.target.baseline})
            return judgement.model_copy(update={"notes": (*judgement.notes, *proof)})


@dataclass(frozen=True, slots=True)
class Contest:
    """One incumbent, and all that judging candidates against it needs."""

    shop: Workshop

    def judge(
        self,
        challenger: Candidate,
        observer: Observer,
        *,
        custom_only: bool = False,
        sanitize: bool = False,
    ) -> Judgement:
        """See `judge`; what is known of reference and incumbent is kept for the next one."""
        if rejected := _refused(challenger, custom_only=custom_only):
            return rejected
        shop = replace(self.shop, observer=observer)
        incumbent = shop.built_baseline()
        built = shop.build(challenger)
        if isinstance(built, BuildFailed):
            return Judgement(outcome=built, verdict="rejected", wall_s=0.0)
        if changed := changed_signature(built.signature, incumbent.signature):
            return Judgement(outcome=changed, verdict="rejected", wall_s=0.0)
        judgement = shop.judge.compare(built, incumbent, observer)
        seen: tuple[str, ...] = ()
        if judgement.verdict == "faster" or (sanitize and isinstance(judgement.outcome, Passed)):
            inspection = shop.inspect(built)
            judgement = records.inspected(judgement, inspection)
            seen = inspection.notes if inspection is not None else ()
        notes = (
            *judgement.notes, *seen, *built.notes, *_short(judgement, shop),
            *clock_notes(shop.machine),
        )  # fmt: skip
        if judgement.verdict == "faster":
            notes = (*notes, *shop.oracle.tolerated().cautions())
        return with_remarks(judgement.model_copy(update={"notes": notes}), challenger)


def _short(judgement: Judgement, shop: Workshop) -> tuple[str, ...]:
    """Which time was judged, where that matters."""
    found = judgement.comparison
    if found is None or shop.target.language in HOST_LANGUAGES:
        return ()
    times_s = [(one.workload, one.candidate_time_s) for one in found.workloads]
    note = judged_time_note(times_s, shop.target.timing)
    return () if note is None else (note,)


@contextmanager
def contest(
    against: Subject,
    language: Language,
    budget_s: float | None,
    settings: Settings,
    observer: Observer,
) -> Iterator[Contest]:
    """Survey reference and incumbent, for as many judgements as the block makes.

    Args:
        against: the incumbent, with reference and workloads.
        language: of the candidates.
        budget_s: for the measurements of each; None: the default policy's.
        settings: where caches are.
        observer: sees the survey.

    Raises:
        UsageError: a file or option is wrong.
    """
    target = target_of(against, _policy(language, budget_s))
    with workshop(target, settings, observer) as shop:
        yield Contest(shop)


def _refused(challenger: Candidate, *, custom_only: bool) -> Judgement | None:
    """The rejection of a library's work where custom code is demanded."""
    found = library_calls(challenger) if custom_only else ()
    if not found:
        return None
    used = Cheated(reason="library_call", detail="; ".join(remark.text for remark in found))
    return Judgement(outcome=used, verdict="rejected", wall_s=0.0)


def _policy(language: Language, budget_s: float | None) -> KeepPolicy:
    policy = default_keep(language)
    if budget_s is None:
        return policy
    try:
        return KeepPolicy(noise_band=policy.noise_band, judge_budget_s=budget_s)
    except ValidationError as error:
        raise UsageError(f"--budget {budget_s}: {error.errors()[0]['msg']}") from error
