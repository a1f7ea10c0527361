"""A proposer that follows a script, and what every proposer must hold to.

class TestMyProposer(ProposerConformance):
    def proposer(self):
        return MyProposer()

    def brief(self):
        return brief_for(my_candidate)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.campaign import Campaign, Decision, Kept, RolledBack, Round, Started
from roofsmith.domain.comparison import Comparison, Estimate, Judgement, Screening
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import Fact, FactSheet
from roofsmith.domain.kernel import Candidate, Parameter, Signature, SourceFile
from roofsmith.domain.outcome import BuildFailed, Passed
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.ports import Brief, Proposer, Screen

LookRule = Callable[[Candidate], Screening]
"""What a fake screen sees in a candidate."""

AT = "2026-01-01 00:00:00"
ENDLESS = 200
"""Rounds after which a proposer that still has ideas for the same kernel is called endless."""

Scripted = Proposal | Callable[[Brief], Proposal | None] | None


def nothing_gained(candidate: Candidate) -> Screening:  # noqa: ARG001 - a `LookRule`
    """Every candidate passes and is no faster."""
    return Screening(outcome=Passed(), speedup=1.0)


class FakeScreen:
    """Looks at candidates by a rule; builds nothing.

    Attributes:
        prepared: ids of the candidates of each `prepare`.
        seen: ids of the candidates that were looked at, in order.
    """

    def __init__(self, rule: LookRule = nothing_gained, side_by_side: int = 1) -> None:
        self._rule = rule
        self._side_by_side = side_by_side
        self.prepared: list[tuple[str, ...]] = []
        self.seen: list[str] = []

    @property
    def side_by_side(self) -> int:
        return self._side_by_side

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        self.prepared.append(tuple(candidate.id for candidate in candidates))

    def with_evidence(self, brief: Brief) -> Brief:
        return brief

    def __call__(self, candidate: Candidate) -> Screening:
        self.seen.append(candidate.id)
        return self._rule(candidate)


class ScriptedProposer:
    """Plays a script: entry i is the answer when the ledger holds i rounds after the baseline.

    So it goes on at the right place after a resume. Past the end it has no more ideas.

    Attributes:
        asked: every brief it was given.
        told: every round it was told of.
    """

    def __init__(self, script: Sequence[Scripted], name: str = "scripted") -> None:
        self._script = tuple(script)
        self._name = name
        self.asked: list[Brief] = []
        self.told: list[Round] = []

    @property
    def name(self) -> str:
        return self._name

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:  # noqa: ARG002
        self.asked.append(brief)
        place = len(brief.campaign.rounds)
        entry = self._script[place] if place < len(self._script) else None
        proposal = entry(brief) if callable(entry) else entry
        return None if brief.repair and proposal and not proposal.repair else proposal

    def tell(self, round: Round) -> None:
        self.told.append(round)


def brief_for(
    candidate: Candidate,
    *,
    signature: Signature | None = None,
    workload: Workload | None = None,
    family: str | None = None,
    device: Device | None = None,
    threads: int = 2,
    profile: Profile | None = None,
    bottleneck: Bottleneck | None = None,
) -> Brief:
    """What a proposer is asked first, in a campaign whose baseline is `candidate`.

    Ceilings are UNKNOWN and no counter was read, unless given. The default signature is
    `solve(const float* a, float* out, int N)`.
    """
    signature = signature or Signature(
        parameters=(
            Parameter(name="a", role="input", dtype="float32"),
            Parameter(name="out", role="output", dtype="float32"),
            Parameter(name="N", role="size", dtype="int32"),
        )
    )
    workload = workload or Workload(dims={"N": 1024})
    device = device or Device(kind="cpu", name="a test's", cores=threads, isa=("avx2", "fma"))
    classes = (ConfigClass(name="all", workloads=(workload.label,), reason="one workload"),)
    bounds = (_unknown_bound(workload.label),)
    target = Target(
        name="test",
        language=candidate.language,
        kernel=candidate.kernel,
        includes=candidate.sources[1:],
        reference=SourceFile(path="reference.py", text="def reference(**inputs): ...\n"),
        workloads=(workload,),
        family=family,
        entry=candidate.entry,
        build=candidate.build,
        threads=threads,
    )
    started = Started(
        campaign="test",
        target=target,
        environment=Environment(device=device, system="test", tools={}, packages={}),
        facts=FactSheet(device_id=device.id),
        bounds=bounds,
        classes=classes,
        proposers=(),
        at=AT,
    )
    return Brief(
        campaign=Campaign(started=started),
        incumbent=candidate,
        signature=signature,
        device=device,
        threads=threads,
        bounds=bounds,
        classes=classes,
        descriptions={
            workload.label: WorkloadDescription((), workload.dims, None, None, None, None)
        },
        profile=profile or Profile(tool="none", workload=workload.label),
        bottleneck=bottleneck
        or Bottleneck(kind="unknown", confidence=0, evidence=(), roofline_fraction=None),
    )


def advance(brief: Brief, proposal: Proposal, *, kept: bool, speedup: float = 1.0) -> Brief:
    """The brief after a round was made of the proposal."""
    round_ = _round_of(brief, proposal, kept=kept, speedup=speedup)
    campaign = brief.campaign.model_copy(update={"rounds": (*brief.campaign.rounds, round_)})
    return Brief(
        campaign=campaign,
        incumbent=campaign.incumbent,
        signature=brief.signature,
        device=brief.device,
        threads=brief.threads,
        bounds=brief.bounds,
        classes=brief.classes,
        descriptions=brief.descriptions,
        profile=brief.profile,
        bottleneck=brief.bottleneck,
    )


def _round_of(brief: Brief, proposal: Proposal, *, kept: bool, speedup: float) -> Round:
    decision: Decision = Kept(rule="test") if kept else RolledBack(rule="test")
    estimate = Estimate(
        speedup=speedup, ci=(speedup, speedup), pairs=1, verdict="faster" if kept else "tie"
    )
    return Round(
        round=2 + len(brief.campaign.rounds),
        hypothesis=proposal.hypothesis,
        proposer=proposal.proposer,
        candidate=proposal.candidate,
        incumbent_id=brief.incumbent.id,
        screened=proposal.screened,
        judgement=Judgement(
            verdict=estimate.verdict,
            comparison=Comparison(overall=estimate, classes=(), workloads=()),
            wall_s=0,
        ),
        decision=decision,
        total_speedup=brief.campaign.total_speedup * (speedup if kept else 1),
        tokens=proposal.tokens,
        cost_usd=proposal.cost_usd,
        wall_s=0,
        at=AT,
    )


def _unknown_bound(workload: str) -> Bound:
    unknown = Fact(metric="ceiling", value=None, unit="1/s", reason="not measured in a test")
    cost = Cost(flops=None, read_bytes=None, written_bytes=None, dtype="float32", source="test")
    return Bound(
        workload=workload, cost=cost, intensity=None, ridge=None, limiter="unknown",
        floor_time_s=None, bandwidth=unknown, peak=unknown,
    )  # fmt: skip


class ProposerConformance:
    """What the engine relies on. Subclass it, and say how to make the proposer and its first brief.

    `screening` may be overridden as well; by default every candidate passes and is no faster.
    """

    def proposer(self) -> Proposer:
        """A new instance; instances share nothing but the ledger."""
        raise NotImplementedError

    def brief(self) -> Brief:
        """A first brief for which the proposer should have an idea."""
        raise NotImplementedError

    def screening(self, candidate: Candidate) -> Screening:
        """What the proposer is told of a candidate that it looks at."""
        return nothing_gained(candidate)

    def test_it_has_a_name(self) -> None:
        """Reports name it."""
        assert self.proposer().name.strip()

    def test_a_proposal_is_a_described_change_of_the_incumbent(self) -> None:
        """Each says what changes and why, and changes something."""
        brief = self.brief()
        proposal = self._ask(brief)
        assert proposal is not None
        hypothesis = proposal.hypothesis
        assert hypothesis.statement
        assert hypothesis.rationale
        assert hypothesis.tactic
        assert proposal.candidate.id != brief.incumbent.id
        assert proposal.candidate.language == brief.incumbent.language
        assert proposal.candidate.entry == brief.incumbent.entry
        assert proposal.candidate.kernel.path == brief.incumbent.kernel.path

    def test_the_same_brief_gives_the_same_proposal(self) -> None:
        """Two campaigns with the same measurements take the same path."""
        assert self._ask(self.brief()) == self._ask(self.brief())

    def test_a_new_instance_goes_on_where_the_ledger_ends(self) -> None:
        """A crash loses no place: what an instance remembers can be read off the ledger."""
        proposer, brief = self.proposer(), self.brief()
        for _ in range(3):
            proposal = self._asked(proposer, brief)
            assert proposal == self._ask(brief)
            if proposal is None:
                return
            brief = advance(brief, proposal, kept=False)
            proposer.tell(brief.campaign.rounds[-1])

    def test_it_runs_out_of_ideas_when_all_are_rolled_back(self) -> None:
        """And never proposes twice what was rolled back from the same incumbent."""
        proposals = self._until_none(kept=False)
        ids = [proposal.candidate.id for proposal in proposals]
        assert len(ids) == len(set(ids))

    def test_it_runs_out_of_ideas_when_all_are_kept(self) -> None:
        """No idea is applied to its own result for ever, and every change is one."""
        brief = self.brief()
        for proposal in self._until_none(kept=True):
            assert proposal.candidate.id != brief.incumbent.id
            brief = advance(brief, proposal, kept=True, speedup=1.1)

    def test_screenings_that_all_fail_are_survived(self) -> None:
        """A candidate's failure is data."""
        failed = BuildFailed(reason="compiler_error", detail="does not compile")
        screen = FakeScreen(lambda _: Screening(outcome=failed, speedup=None))
        proposal = self.proposer().ask(self.brief(), screen)
        assert proposal is None or isinstance(proposal, Proposal)

    def _ask(self, brief: Brief) -> Proposal | None:
        return self._asked(self.proposer(), brief)

    def _asked(self, proposer: Proposer, brief: Brief) -> Proposal | None:
        answer = proposer.ask(brief, FakeScreen(self.screening))
        if isinstance(answer, BadAnswer) and answer.reason == "gave_up":
            return None
        assert answer is None or isinstance(answer, Proposal), answer
        return answer

    def _until_none(self, *, kept: bool) -> list[Proposal]:
        proposer, brief = self.proposer(), self.brief()
        proposals: list[Proposal] = []
        while (proposal := self._asked(proposer, brief)) is not None:
            proposals.append(proposal)
            assert len(proposals) < ENDLESS, "it still has ideas for the same kernel"
            brief = advance(brief, proposal, kept=kept, speedup=1.1 if kept else 1.0)
            proposer.tell(brief.campaign.rounds[-1])
        return proposals
