"""What a round of a command target claims beside its comparison, and what follows instead. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from roofsmith.domain.campaign import Kept, Round, Started
from roofsmith.domain.comparison import PairSample
from roofsmith.engine.wording import Claim


def reported_claims(round_: Round, started: Started) -> Iterator[Claim]:
    """Whether numbers are marked as the repository's own, and kept by its rules."""
    judgement, spec = round_.judgement, started.target.command
    if judgement.samples:
        yield "self-reported", judgement.self_reported, spec is not None
    if spec is None:
        return
    labels = sorted(workload.label for workload in started.target.workloads)
    for name, samples in (("pairs", judgement.samples), ("second pairs", judgement.confirmation)):
        yield f"{name} of all rows", _odd_sweeps(samples, labels), []
    if isinstance(round_.decision, Kept):
        strange = [s.path for s in round_.candidate.sources if not spec.is_editable(s.path)]
        yield "files beside the editable ones", strange, []
        if spec.profile is not None:
            yield "times by the profiler", bool(judgement.kernels), True


def _odd_sweeps(samples: Sequence[PairSample], labels: Sequence[str]) -> list[int]:
    """Sweeps that aren't of exactly these rows."""
    rows: dict[int, list[str]] = defaultdict(list)
    for sample in samples:
        rows[sample.sweep].append(sample.workload)
    return [sweep for sweep, found in rows.items() if sorted(found) != labels]
