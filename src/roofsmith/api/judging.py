"""Judging: one candidate, or many against one incumbent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from roofsmith.analysis.cost import unsaid_operations
from roofsmith.analysis.scan.sources import with_remarks
from roofsmith.analysis.short_kernels import judged_time_note
from roofsmith.api.canary import canary_builds, require_compiled
from roofsmith.api.clocks import clock_notes
from roofsmith.api.head_start import NOTHING_BEGUN, HeadStart
from roofsmith.api.named import incumbent_of
from roofsmith.api.subjects import candidate_from, require_allowed, target_of
from roofsmith.api.telling import told_candidate
from roofsmith.api.wiring import OpenTarget, open_target
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Candidate, Language
from roofsmith.domain.options import Judging, Subject
from roofsmith.domain.outcome import Passed
from roofsmith.domain.returning import told_of
from roofsmith.domain.target import HOST_LANGUAGES, KeepPolicy, Target, default_keep
from roofsmith.engine import records
from roofsmith.errors import UsageError
from roofsmith.ports import Observer, Scope, required
from roofsmith.store.sources import LANGUAGES
from roofsmith.toolchains.custom_code import CustomCode


def judge(
    candidate: Path,
    against: Subject,
    how: Judging,
    settings: Settings,
    observer: Observer,
    begun: HeadStart = NOTHING_BEGUN,
) -> Judgement:
    """Build both kernels; check and time the candidate against the other.

    Args:
        candidate: kernel file.
        against: the incumbent, with reference and workloads; flags and entry are the candidate's,
            too.
        how: it is judged; `custom_only` holds whatever the target of `against` says of that.
        settings: where caches are.
        observer: hears what happens.
        begun: what goes on already.

    Raises:
        UsageError: a file or option is wrong.
        BaselineError: the incumbent doesn't build, or doesn't pass.
    """
    incumbent = incumbent_of(against, how)
    challenger = _challenger(candidate, against.flags, incumbent)
    require_allowed(challenger)
    if how.canary:
        require_compiled(challenger.language)
    if how.custom_only and (refused := CustomCode().before_build(challenger)):
        # before anything is built or surveyed
        return Judgement(outcome=refused, verdict="rejected", wall_s=0.0)
    ways = {"custom_only": how.custom_only, "sanitize": how.sanitize}
    with opened_against(
        incumbent, challenger.language, how.budget, settings, observer, (challenger,), begun
    ) as opened:
        drawn = (*told_of(challenger.kernel.text), *opened.draw_notes())
        if not how.canary:
            found = judge_with(opened, challenger, **ways)
            return found.model_copy(update={"notes": (*drawn, *found.notes)})
        with canary_builds(opened.machine, settings) as builds:
            evaluator = replace(opened.evaluator, toolchain=builds.toolchain)
            judgement = judge_with(replace(opened, evaluator=evaluator), challenger, **ways)
            proof = builds.notes({"candidate": challenger, "incumbent": opened.target.baseline})
            return judgement.model_copy(update={"notes": (*drawn, *judgement.notes, *proof)})


def judge_with(
    opened: OpenTarget,
    challenger: Candidate,
    *,
    custom_only: bool = False,
    sanitize: bool = False,
) -> Judgement:
    """Judge a candidate against an open target's own kernel; see `judge`.

    What is known of reference and incumbent is kept for the next one.

    Raises:
        BaselineError: the incumbent doesn't build, or doesn't pass.
    """
    evaluator = opened.evaluator_for(custom_only=custom_only or opened.target.custom_only)
    opened.evaluate_baseline(Scope())
    found = evaluator.evaluate(challenger, opened.target.baseline, Scope())
    judgement = required(found.judgement)
    if found.failure is not None:
        return judgement
    seen: tuple[str, ...] = ()
    if judgement.verdict == "faster" or (sanitize and isinstance(judgement.outcome, Passed)):
        scope = Scope(inspect=opened.smallest)
        inspection = evaluator.evaluate(challenger, None, scope).inspection
        judgement = records.inspected(judgement, inspection)
        seen = inspection.notes if inspection is not None else ()
    notes = (
        *judgement.notes, *seen, *found.notes, *_short(judgement, opened.target), *_unsaid(opened),
        *clock_notes(opened.machine.devices),
    )  # fmt: skip
    if judgement.verdict == "faster":
        needed = opened.size_notes(judgement.outcome, challenger)
        notes = (*needed, *notes, *opened.oracle.tolerated().cautions())
    return with_remarks(judgement.model_copy(update={"notes": notes}), challenger)


def _unsaid(opened: OpenTarget) -> tuple[str, ...]:
    """That floors count bytes alone, where they do: reading takes as long as a judgement."""
    bytes_only = any(bound.bytes_only for bound in opened.survey.bounds)
    return (unsaid_operations(opened.target, is_read=False),) if bytes_only else ()


def _short(judgement: Judgement, target: Target) -> tuple[str, ...]:
    found = judgement.comparison
    if found is None or target.language in HOST_LANGUAGES:
        return ()
    times_s = [(one.workload, one.candidate_time_s) for one in found.workloads]
    note = judged_time_note(times_s, target.timing)
    return () if note is None else (note,)


@contextmanager
def opened_against(
    against: Subject,
    language: Language,
    budget_s: float | None,
    settings: Settings,
    observer: Observer,
    candidates: tuple[Candidate, ...] = (),
    begun: HeadStart = NOTHING_BEGUN,
) -> Iterator[OpenTarget]:
    """Survey reference and incumbent, for as many judgements as the block makes.

    Args:
        against: the incumbent, with reference and workloads.
        language: of the candidates.
        budget_s: for the measurements of each; None: the default policy's.
        settings: where caches are.
        observer: hears of the survey and of every judgement.
        candidates: that are known already.
        begun: what goes on already.

    Raises:
        UsageError: a file or option is wrong.
    """
    policy = _policy(language, budget_s)
    target = target_of(against, policy)
    if budget_s is not None:  # a target file's own policy knows nothing of it
        keep = target.keep.model_copy(update={"judge_budget_s": policy.judge_budget_s})
        target = target.model_copy(update={"keep": keep})
    builds = (target.baseline, *candidates)
    with open_target(target, settings, observer, builds=builds, begun=begun) as opened:
        yield opened


def _challenger(path: Path, flags: str | None, against: Subject) -> Candidate:
    if against.path.suffix in LANGUAGES:
        return candidate_from(path, flags, against.entry, against.reference)
    target = target_of(against)
    if target.command is not None:
        raise UsageError(
            f"{against.path} is a repository, which is judged by campaigns alone",
            hint="roofsmith optimize TARGET, and roofsmith tell",
        )
    return told_candidate(path, flags, target.baseline, target)


def _policy(language: Language, budget_s: float | None) -> KeepPolicy:
    policy = default_keep(language)
    if budget_s is None:
        return policy
    try:
        return KeepPolicy(noise_band=policy.noise_band, judge_budget_s=budget_s)
    except ValidationError as error:
        raise UsageError(f"--budget {budget_s}: {error.errors()[0]['msg']}") from error
