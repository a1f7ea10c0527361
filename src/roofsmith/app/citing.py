"""What others say enters a campaign's files only if the campaign's audit will find nothing in it.

Proposals are refused when they are taken, whoever proposes: the number can be cited, or left out.
Tips are anybody's, and nobody is there to correct them: such numbers are taken out of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from roofsmith.analysis.audit import Problem, Sources, audit_text
from roofsmith.analysis.audit_strike import struck
from roofsmith.app.audit import products_of, sources_for
from roofsmith.config import Settings
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.tip import Tip
from roofsmith.errors import UsageError
from roofsmith.ports import TipShelf
from roofsmith.specs.wiki import Wiki

_HINT = (
    "`roofsmith specs cite PRODUCT METRIC` prints number and citation, such as"
    " `3.35e+12 byte/s <- wiki/PAGE.yaml:LINE`"
)
_NO_SOURCES = Sources(resolve=lambda _: None)


def require_cited(
    proposal: Proposal | Hypothesis,
    sources: Sources,
    who: str = "",
    known: Collection[str] = frozenset(),
) -> None:
    """Refuse what the audit of the campaign would find in every file that shows the proposal.

    Args:
        proposal: or its hypothesis alone.
        sources: where citations of the campaign lead.
        who: proposes it; empty for whoever types the command.
        known: texts that are the campaign's own.

    Raises:
        UsageError: a hardware number has no citation, or another value than it cites.
    """
    problems = tuple(_problems(proposal, sources, known))
    if problems:
        raise _refusal(proposal, problems, who)


def require_cited_text(name: str, text: str, sources: Sources) -> None:
    """Refuse words that a campaign is to record, such as a reason, in the same way.

    Args:
        name: what the words are.
        text: the words.
        sources: where citations of the campaign lead.

    Raises:
        UsageError: a hardware number has no citation, or another value than it cites.
    """
    if problems := audit_text(name, text, sources):
        raise _refused(f"the {name}", problems)


def require_citable(proposals: Iterable[Proposal], where: str, settings: Settings) -> None:
    """The same before a campaign begins, of what its own facts can't change any more.

    A citation that leads nowhere yet may lead to the ledger later.

    Args:
        proposals: that are to be proposed.
        where: they were read.
        settings: where the wiki is.

    Raises:
        UsageError: a hardware number has no citation, or another value than it cites.
    """
    sources = sources_for(None, settings)
    for proposal in proposals:
        found = _problems(proposal, sources, ())
        if problems := tuple(p for p in found if p.kind != "unresolved"):
            raise _refusal(proposal, problems, where)


@dataclass(frozen=True, slots=True)
class CitedTips:
    """Port `TipShelf`: tips without hardware numbers that the wiki doesn't vouch for.

    What another campaign measured, or what its ledger says, is no fact of this one: such citations
    go with their numbers. A tip that makes no sense without them is left out.
    """

    shelf: TipShelf
    settings: Settings

    def read(self) -> tuple[Tip, ...]:
        """The newest tips, oldest first."""
        tips = self.shelf.read()
        if not tips:
            return ()
        wiki = Wiki.load(self.settings.own_pages())
        sources = Sources(wiki.resolve, products=lambda: products_of(wiki))
        found = (_struck(tip, sources) for tip in tips)
        return tuple(tip for tip in found if tip is not None)

    def add(self, tips: Sequence[Tip]) -> int:
        """Append those whose lesson isn't there yet; how many those were."""
        return self.shelf.add(tips)


def _struck(tip: Tip, sources: Sources) -> Tip | None:
    texts = {name: struck(text, sources) for name, text in tip.model_dump().items()}
    known = {name: text for name, text in texts.items() if text is not None}
    return tip.model_copy(update=known) if len(known) == len(texts) else None


def _problems(
    proposal: Proposal | Hypothesis, sources: Sources, known: Collection[str]
) -> Iterator[Problem]:
    for name, text in _texts(proposal):
        if text not in known:
            yield from audit_text(name, text, sources)


def _texts(proposal: Proposal | Hypothesis) -> Iterator[tuple[str, str]]:
    """Everything that a proposal says in words."""
    if isinstance(proposal, Proposal):
        yield from (("screened", point.label) for point in proposal.screened)
        proposal = proposal.hypothesis
    for name, value in proposal:
        texts = value if isinstance(value, tuple) else (value,)
        yield from ((name, text) for text in texts if isinstance(text, str))


def _refusal(proposal: Proposal | Hypothesis, problems: Sequence[Problem], who: str) -> UsageError:
    hypothesis = proposal.hypothesis if isinstance(proposal, Proposal) else proposal
    what = f"{who} proposes {hypothesis.statement!r}, which" if who else "the hypothesis"
    return _refused(what, problems)


def _refused(what: str, problems: Sequence[Problem]) -> UsageError:
    complaints = "".join(f"\n  {p.path}: {p.number}: {p.why}; {p.fix}" for p in problems)
    return UsageError(f"{what} states hardware numbers that don't hold:{complaints}", hint=_HINT)
