"""Proposes what TorchInductor makes of a PyTorch reference, once in a campaign."""

from __future__ import annotations

from collections.abc import Callable

from roofsmith.analysis.figures import plural
from roofsmith.domain.campaign import Round
from roofsmith.domain.compiled_reference import CompiledReference
from roofsmith.domain.kernel import TRITON_LANGUAGES
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.domain.target import Target
from roofsmith.ports import Brief, Screen
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.inductor_source import UntranslatableError, standalone
from roofsmith.proposers.reach import reached_gain

TACTIC = "inductor"


class InductorProposer:
    """Asks a compiler for the reference's kernels, and makes a file of one's own of them.

    Args:
        compile: the reference of a target, on its workloads; or why that can't be had.
    """

    def __init__(self, compile: Callable[[Target], CompiledReference | str]) -> None:
        self._compile = compile
        self._compiled: CompiledReference | str | None = None

    @property
    def name(self) -> str:
        return TACTIC

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
        """The compiled reference; None where it was proposed before, or isn't PyTorch's."""
        del screen
        target = brief.campaign.started.target
        asked_before = any(past.proposer == TACTIC for past in brief.campaign.proposed)
        if brief.repair is not None or asked_before or target.language not in TRITON_LANGUAGES:
            return None
        if self._compiled is None:  # once, though what is held back is asked for again
            self._compiled = self._compile(target)
        compiled = self._compiled
        if isinstance(compiled, str):
            return BadAnswer(reason="gave_up", detail=compiled)
        try:
            text = standalone(compiled, brief.incumbent.kernel.text)
        except UntranslatableError as error:
            return BadAnswer(reason="gave_up", detail=str(error))
        names = {kernel.name for one in compiled.workloads for kernel in one.kernels}
        kernels = plural(len(names), "Triton kernel")
        return Proposal(
            hypothesis=Hypothesis(
                statement=f"{kernels} that TorchInductor makes of the reference",
                rationale="The compiler joins what passes over memory can be joined, and has"
                " measured which block sizes and warps are quickest for each workload.",
                answers=brief.bottleneck.kind,
                predicted_speedup=_predicted(brief),
                category="fusion",
                tactic=TACTIC,
                source=f"TorchInductor of PyTorch {compiled.version}",
            ),
            candidate=brief.incumbent.with_kernel_text(text),
        )

    def tell(self, round: Round) -> None:
        """Nothing to remember: the next brief holds the round."""


def _predicted(brief: Brief) -> float:
    """What torch.compile gained over this incumbent, where that was measured; never a loss."""
    measured = brief.campaign.yardsticks
    results = measured.results if measured and measured.incumbent_id == brief.incumbent.id else ()
    speedups = [
        result.judgement.comparison.overall.speedup
        for result in results
        if result.name.startswith("torch.compile") and result.judgement.comparison is not None
    ]
    usual = max(1.0, reached_gain(CardContext.of(brief), TACTIC))
    return max(speedups, default=usual)
