"""What is wrong with a proposal before anything is built of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis.bases import kernel_under, why_no_base
from roofsmith.analysis.departures import (
    less_work,
    new_dependencies,
    settings_at_once,
    unneeded_files,
)
from roofsmith.analysis.ladder import diagnosis
from roofsmith.analysis.stagnation import turned
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.category import OVER_FITTING
from roofsmith.domain.ending import StopCode
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer, Refusal, RefusalReason
from roofsmith.engine.parts import CheckCitations
from roofsmith.engine.repairing import why_no_repair
from roofsmith.engine.stopping import Stop

_CODE: StopCode = "out_of_ideas"
_SHOWN = 3
"""Refusals that a stop names; all of them are in the log."""


def objection(campaign: Campaign, proposal: Proposal, cited: CheckCitations) -> BadAnswer | None:
    """Why a proposal can't become a round; None if it can."""
    return (
        _misfit(campaign, proposal)
        or _baseless(campaign, proposal)
        or _unchanged(campaign, proposal)
        or _repair(campaign, proposal)
        or _over_fitted(proposal)
        or _not_kept(campaign, proposal)
        or _needless(campaign, proposal)
        or _goes_on(campaign, proposal)
        or _uncited(campaign, proposal, cited)
    )


def _misfit(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    candidate, incumbent = proposal.candidate, campaign.incumbent
    if candidate.language != incumbent.language:
        other = f"the candidate is in {candidate.language}, the kernel in {incumbent.language}"
        return _bad(proposal, "malformed", other)
    if not any(source.path == incumbent.kernel.path for source in candidate.sources):
        return _bad(proposal, "malformed", f"the candidate lacks {incumbent.kernel.path}")
    names = [found.name for found in campaign.classes]
    aim = proposal.hypothesis.target_class
    if aim == "global" or aim in names:
        return None
    known = f"this campaign has no config class called {aim!r}; known: {', '.join(names)}"
    return _bad(proposal, "malformed", known)


def _baseless(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    if proposal.base is None or proposal.repair:
        return None
    why = why_no_base(campaign, proposal.base)
    return None if why is None else _bad(proposal, "malformed", f"nothing is built on it: {why}")


def _unchanged(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    below = {"the incumbent": campaign.incumbent}
    if proposal.base is not None:
        below[f"round {proposal.base}"] = kernel_under(campaign, proposal.base)
    for whose, kernel in below.items():
        if proposal.candidate.id == kernel.id:
            same = f"the proposed kernel and its build are those of {whose}, byte for byte"
            return _bad(proposal, "no_change", same)
    return None


def _repair(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    why = why_no_repair(campaign, proposal) if proposal.repair else None
    return None if why is None else _bad(proposal, "bad_repair", why)


def _over_fitted(proposal: Proposal) -> BadAnswer | None:
    """A guard that steps would confirm: nothing of W2 or W3 is kept, so nothing is built of it."""
    bucket = proposal.hypothesis.bucket
    if bucket not in OVER_FITTING:
        return None
    why = f"{bucket}: what is kept by its inputs gains where they come again, as in benchmarks"
    return _bad(proposal, "over_fitted", why)


def _not_kept(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    """Changes that the target refuses. What the engine itself puts together, its parts were judged
    with; a repair, its idea was."""
    keep, old, new = campaign.started.target.keep, campaign.incumbent, proposal.candidate
    is_swept = proposal.hypothesis.tactic == "sweep" or proposal.repair
    rules: tuple[tuple[RefusalReason, str, tuple[str, ...]], ...] = (
        ("new_dependency", "new_dependencies", new_dependencies(old, new)),
        ("less_work", "less_work", less_work(old, new)),
        ("several_settings", "several_settings",
         () if is_swept else tuple(filter(None, [settings_at_once(old, new)]))),
    )  # fmt: skip
    for reason, key, found in rules:
        if found and getattr(keep, key) == "refused" and not proposal.is_own:
            allow = f"the target keeps none; leave it out (whoever owns it: `keep.{key}: told`)"
            return _bad(proposal, reason, f"{'; '.join(found)}: {allow}")
    return None


def _needless(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    """Files that the idea doesn't need, of several; said once, as it may be a mend of its own."""
    found = unneeded_files(campaign.incumbent, proposal.candidate)
    changed = {*proposal.candidate.sources} - {*campaign.incumbent.sources}
    if not found or len(found) == len(changed) or proposal.is_own:
        return None
    if not _answers_again(campaign, proposal.proposer, "unneeded_file"):
        return None
    why = f"{', '.join(found)}: changed in blanks and comments alone; leave them as they were"
    return _bad(proposal, "unneeded_file", why)


def _goes_on(campaign: Campaign, proposal: Proposal) -> BadAnswer | None:
    """Dead ends of the review that it was shown; once a round, as it may have a reason.
    Who names no kind of change goes on with none."""
    known, hypothesis = diagnosis(campaign), proposal.hypothesis
    on = turned(hypothesis.category, known.material.review if known else None)
    if (
        not on.startswith("goes on")
        or hypothesis.category == "other"
        or hypothesis.again
        or proposal.repair
        or proposal.is_own
        or not _answers_again(campaign, proposal.proposer, "dead_end")
    ):
        return None
    return _bad(proposal, "dead_end", f"it {on}: choose another kind, or say in `again` why not")


def _uncited(campaign: Campaign, proposal: Proposal, cited: CheckCitations) -> BadAnswer | None:
    checked = cited(proposal.hypothesis, campaign)
    if checked.problems:
        return _bad(proposal, "uncited", "; ".join(checked.problems))
    if not checked.of_devices or not _answers_again(campaign, proposal.proposer, "unsourced"):
        return None
    nearest = "; ".join(checked.nearest) or "none in these units is known"
    why = (
        f"hardware numbers without a source: {'; '.join(checked.of_devices)}. Cite them in `facts`,"
        f" or leave them out: the next time they are struck. Nearest facts: {nearest}"
    )
    return _bad(proposal, "unsourced", why)


def _answers_again(campaign: Campaign, proposer: str, reason: RefusalReason) -> bool:
    """Whether it is a model or an agent that wasn't told so yet: each answer costs. Of dead ends
    each review tells anew."""
    by_hand = ("tell",) * (reason == "dead_end")
    asked = proposer.partition(":")[0] in ("model", "agent", "mcp", *by_hand)
    told = (past for past in campaign.proposed if isinstance(past, Refusal))
    since = campaign.last_round if reason == "dead_end" else 0
    return asked and not any(
        past.proposer == proposer and past.reason == reason and past.after_round >= since
        for past in told
    )


def _bad(proposal: Proposal, reason: RefusalReason, detail: str) -> BadAnswer:
    return BadAnswer(
        reason=reason,
        detail=detail,
        tokens=proposal.tokens,
        cost_usd=proposal.cost_usd,
        proposer=proposal.proposer,
    )


def too_many_refusals(campaign: Campaign, proposer: str, limit: int) -> Stop | None:
    """The end of a campaign whose proposer answers with nothing that can be judged.

    Args:
        campaign: so far.
        proposer: that is asked, by name; members of a portfolio have names of their own.
        limit: refusals in a row, see `StopPolicy.max_refusals`.
    """
    if not campaign.is_silent(proposer, limit):
        return None
    found = campaign.refused_in_a_row(proposer)
    if found[-1].reason == "unavailable":
        return Stop(_CODE, f"{proposer} can't be asked: {found[-1].detail}")
    return Stop(_CODE, f"the last {len(found)} answers of {proposer} were refused: {_last(found)}")


def anybody_silent(campaign: Campaign, limit: int) -> bool:
    """Whether a proposer isn't asked any more for its refusals; after a resume it may answer."""
    names = {refusal.proposer for refusal in campaign.refusals}
    return any(campaign.is_silent(name, limit) for name in names)


def out_of_ideas(campaign: Campaign, proposer: str) -> Stop:
    """The end of a campaign whose proposer has nothing left to try on this incumbent."""
    names = proposer.replace("+", " and ") or "no proposer"
    detail = f"{names}: no more ideas for this kernel"
    found = campaign.refused_since_resume
    return Stop(_CODE, f"{detail}; refused: {_last(found)}" if found else detail)


def _last(refusals: Sequence[Refusal]) -> str:
    said = {
        (r.reason, r.detail.partition("; log: ")[0]): f"{r.reason.replace('_', ' ')}: {r.detail}"
        for r in refusals
    }
    return "; ".join(list(said.values())[-_SHOWN:])
