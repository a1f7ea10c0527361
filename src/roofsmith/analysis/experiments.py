"""The rounds of a campaign as experiments. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from functools import lru_cache
from typing import Any, Final

from roofsmith.analysis.bases import kernel_under
from roofsmith.analysis.experiment_words import words_of
from roofsmith.analysis.family_guess import function_names, guess_family, mentions
from roofsmith.analysis.flops import FAMILIES
from roofsmith.analysis.fractions import fraction_of_timings
from roofsmith.analysis.moved import bottleneck_before, profile_before
from roofsmith.domain.campaign import Baseline, Campaign, Round
from roofsmith.domain.category import TRANSFERRING
from roofsmith.domain.dialects import DIALECTS, dialect_of
from roofsmith.domain.experiment import UNKNOWN_FAMILY, Experiment
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.knowledge import library_arch
from roofsmith.domain.outcome import Failure, Passed, Unstable
from roofsmith.domain.profile import Profile
from roofsmith.domain.refusal import PASSES, Refusal
from roofsmith.domain.target import Target
from roofsmith.domain.values import canonical_json, content_id

_MOST_ALIKE: Final = 3
"""Earlier attempts that a description compares with."""
LONGEST_FILE: Final = 5_000
"""Lines: comparing twice as many takes several seconds."""
_BY_SUFFIX: Final = {
    "c": "c",
    **dict.fromkeys(("cpp", "cc", "cxx", "h", "hh", "hpp", "hxx", "inc", "inl"), "cpp"),
    **dict.fromkeys(("cu", "cuh"), "cuda"),
    "hip": "hip",
}
_IS_HIP: Final = re.compile(r"\bhip(?:/hip_|[A-Z])|\bck(?:_tile)?(?:::|/)")
"""HIP's own names, or those of AMD's Composable Kernel; repositories use other suffixes too."""
_IMPORTS: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+(triton|torch)\b", re.MULTILINE)
_PYTHON: Final = ("triton", "torch")
"""What a kernel that imports them is written in, unless it is in a dialect; the first counts."""
_CLEARNESS: Final = ("command", "python", "torch", "cpp", "c")
"""What may be no more than a kernel's wrapper, the least telling first."""
BACKENDS: Final = (*dict.fromkeys((*_BY_SUFFIX.values(), *DIALECTS, *_PYTHON, *_CLEARNESS)),)
"""What kernels are written in, as experiments name it."""


def experiments(campaign: Campaign) -> tuple[Experiment, ...]:
    """One for every round, the baseline and the masked ones included."""
    shared = _shared(campaign)
    baseline = campaign.baseline
    first = () if baseline is None else (_of_baseline(campaign, baseline, shared),)
    return (*first, *(_of_round(campaign, round_, shared) for round_ in campaign.rounds))


def refused(campaign: Campaign) -> tuple[Experiment, ...]:
    """One for every proposal that was refused; of those that had nothing to propose, none."""
    shared = _shared(campaign)
    numbered = enumerate(campaign.refusals, start=1)
    return tuple(
        _of_refusal(campaign, refusal, number, shared)
        for number, refusal in numbered
        if refusal.reason not in PASSES
    )


def _written_in(path: str, text: str) -> str | None:
    suffix = path.rpartition(".")[2].lower()
    if suffix == "py":
        imported = set(_IMPORTS.findall(text))
        plain = next((name for name in _PYTHON if name in imported), "python")
        return dialect_of(text) or plain
    language = _BY_SUFFIX.get(suffix)
    if language in ("cpp", "cuda") and "cuda" not in text and _IS_HIP.search(text):
        return "hip"
    return "cuda" if language == "cpp" and "__global__" in text else language


def backend_of(target: Target, candidate: Candidate) -> str:
    """What a kernel is written in; of a repository, what its editable files are, the first one
    that tells; `command` where none does."""
    if target.command is None:
        return target.language
    found = [_written_in(one.path, one.text) or target.language for one in candidate.sources]
    return max(found, key=lambda one: _CLEARNESS.index(one) if one in _CLEARNESS else 9)


def family_of(target: Target) -> str | None:
    """The family that a target names, or else one that its kernel's names suggest."""
    kernel = target.kernel
    names = [target.name, kernel.path.rpartition("/")[2], *function_names(kernel.text)]
    if target.family or (guess := guess_family(names)) is None:
        called = (one for name in names for one in FAMILIES if mentions(name, (one,)))
        return target.family or next(called, None)
    return guess[0]


def _of_round(campaign: Campaign, round_: Round, shared: Mapping[str, Any]) -> Experiment:
    judgement, hypothesis, checked = round_.judgement, round_.hypothesis, round_.transfer
    outcome = judgement.outcome
    found = judgement.comparison if isinstance(outcome, Passed) else None
    overall = found.overall if found is not None else None
    was_right = isinstance(outcome, Passed | Unstable)
    is_unproven = was_right and judgement.verdict == "unverified"
    is_worse = checked is not None and checked.bucket not in TRANSFERRING
    before = profile_before(campaign, round_)
    return _worded(
        campaign,
        **shared,
        **_recorded(campaign, round_),
        **_parent(campaign, round_),
        proposer=round_.proposer,
        tokens=round_.tokens,
        cost_usd=round_.cost_usd,
        incumbent_id=round_.incumbent_id,
        repairs=round_.repairs,
        hypothesis=hypothesis,
        bucket=checked.bucket if checked is not None and is_worse else hypothesis.bucket,
        bottleneck=bottleneck_before(campaign, round_.round),
        stall=_stall(before),
        counters_before=_counters(before),
        status=round_.decision.kind if isinstance(outcome, Passed) else outcome.kind,
        is_buggy=not was_right,
        error_message=_error(outcome),
        rule=round_.decision.rule,
        verdict=judgement.verdict,
        outcome="neutral" if is_unproven else None,
        score=overall.speedup if overall is not None else 0.0,
        interval=overall.ci if overall is not None else None,
        effect=overall,
        aim=found.of(hypothesis.target_class) if found is not None else None,
        classes={one.config_class: one.estimate for one in found.classes} if found else {},
        total_speedup=round_.total_speedup,
        roofline_fraction=round_.roofline_fraction,
        notes=judgement.notes,
    )


def _of_baseline(campaign: Campaign, baseline: Baseline, shared: Mapping[str, Any]) -> Experiment:
    return _worded(
        campaign,
        **shared,
        **_recorded(campaign, baseline),
        bottleneck=baseline.bottleneck,
        stall=_stall(baseline.profile),
        status="baseline",
        outcome="neutral",
        score=1.0,
        rule="the starting point: every later kernel is compared with its predecessor",
        roofline_fraction=fraction_of_timings(baseline.timings),
    )


def _of_refusal(
    campaign: Campaign, refusal: Refusal, number: int, shared: Mapping[str, Any]
) -> Experiment:
    hypothesis = refusal.hypothesis
    return _worded(
        campaign,
        **shared,
        id=f"{_key(campaign)}-r{number}",
        pid=_id(campaign, refusal.after_round) if refusal.after_round else None,
        time=refusal.at,
        candidate_id=refusal.candidate_id or "",
        hypothesis=hypothesis,
        bucket="K1" if hypothesis is None else hypothesis.bucket,
        bottleneck=bottleneck_before(campaign, refusal.after_round + 1),
        proposer=refusal.proposer,
        tokens=refusal.tokens,
        cost_usd=refusal.cost_usd,
        wall_s=refusal.wall_s,
        status="refused",
        error_message=f"{refusal.reason}: {refusal.detail}",
        rule=f"refused: {refusal.reason}",
    )


def _worded(campaign: Campaign, /, **values: Any) -> Experiment:
    found = Experiment(**values)
    judged = next((r for r in campaign.rounds if r.round == found.round), None)
    compared = judged.judgement.comparison if judged is not None and found.effect else None
    alike = "" if judged is None else _alike(campaign, judged)
    return Experiment(**values, **words_of(found, compared, alike)._asdict())


def _alike(campaign: Campaign, round_: Round) -> str:
    """What earlier rounds of its kind of change came to, the last ones first."""
    kind = round_.hypothesis.category
    before = [
        past
        for past in reversed(campaign.rounds)
        if past.round < round_.round and past.hypothesis.category == kind != "other"
    ]
    said = []
    for past in before[:_MOST_ALIKE]:
        found = past.judgement.comparison
        at = "" if found is None else f" at {found.overall.speedup:.2f}x"
        said.append(f"round {past.round} {past.decision.kind.replace('_', ' ')}{at}")
    return f"Of the same kind ({kind}): {', '.join(said)}" if said else ""


def _shared(campaign: Campaign) -> dict[str, Any]:
    started = campaign.started
    target, environment = started.target, started.environment
    device, fingerprint = environment.device, environment.fingerprint
    family = family_of(target)
    bound = next(iter(started.bounds), None)
    named = target.name if family is None or family in target.name else f"{family} {target.name}"
    return {
        "campaign": started.campaign,
        "target": target.name,
        "target_digest": target.digest,
        "operator_sig": named,
        "family": family or UNKNOWN_FAMILY,
        "backend": backend_of(target, target.baseline),
        "device": device.name,
        "arch": library_arch(device),
        "env": f"{device.name}, {environment.system}, environment {fingerprint}",
        "environment_fingerprint": fingerprint,
        "dtype_sig": bound.cost.dtype if bound is not None else "",
        "dims": {workload.label: workload.dims for workload in target.workloads},
        "self_reported": target.command is not None,
    }


def _recorded(campaign: Campaign, found: Baseline | Round) -> dict[str, Any]:
    return {
        "id": _id(campaign, found.round),
        "round": found.round,
        "time": found.at,
        "candidate_id": found.candidate.id,
        "commit": found.commit,
        "wall_s": found.wall_s,
        "counters_after": _counters(found.profile),
        "masked": found.round in campaign.masked,
        "masked_because": campaign.mask_reason(found.round),
    }


def _parent(campaign: Campaign, round_: Round) -> dict[str, Any]:
    """The round whose kernel was changed, where that is, and the change."""
    held = [r for r in campaign.kept if r.round < round_.round]
    first = campaign.baseline
    parent = held[-1] if held else first
    number = round_.base or (parent.round if parent is not None else 1)
    before = kernel_under(campaign, round_.base) if round_.base else campaign.held_before(round_)
    return {
        "pid": _id(campaign, number),
        "base_commit": (parent.commit if parent is not None else None) or "",
        "diff": "".join(_changed(before, round_.candidate)),
    }


def _key(campaign: Campaign) -> str:
    """Of a campaign, from what never changes in its first record."""
    started = campaign.started
    device = started.environment.device.name
    named = [started.campaign, started.at, device, started.gpu, started.reference_s]
    return content_id(canonical_json(named))[:12]


def _id(campaign: Campaign, number: int) -> str:
    return f"{_key(campaign)}-{number}"


def _changed(before: Candidate, after: Candidate) -> Iterator[str]:
    old = {source.path: source.text for source in before.sources}
    new = {source.path: source.text for source in after.sources}
    for path in dict.fromkeys((*old, *new)):
        yield _file_diff(path, old.get(path, ""), new.get(path, ""))
    if before.build != after.build:
        lines = (one.build.command_line(one.language) for one in (before, after))
        yield "--- build\n+++ build\n-{}\n+{}\n".format(*lines)


@lru_cache(maxsize=256)
def _file_diff(path: str, old: str, new: str) -> str:
    """Kept, as every round asks for those of all rounds before it."""
    ends = (old.splitlines(), new.splitlines())
    if old != new and max(map(len, ends)) > LONGEST_FILE:
        return f"--- a/{path}\n+++ b/{path}\n(too long to compare)\n"
    lines = unified_diff(*ends, f"a/{path}", f"b/{path}", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _error(outcome: Passed | Failure) -> str:
    return "" if isinstance(outcome, Passed) else f"{outcome.reason}: {outcome.detail}"


def _counters(profile: Profile | None) -> Mapping[str, float]:
    return {} if profile is None else {one.name: one.value for one in profile.counters}


def _stall(profile: Profile | None) -> str:
    stalls = [one for one in profile.counters if one.category == "stalls"] if profile else []
    return max(stalls, key=lambda one: one.value).name if stalls else ""
