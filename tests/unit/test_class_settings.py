"""Settings that differ between config classes, and the sweep that looks for them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.comparison import Screening
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Candidate, Signature, SourceFile
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.overfitting.hints import audit
from roofsmith.ports import Brief
from roofsmith.proposers.class_settings import Ladder, choosable, for_classes, ladder_of
from roofsmith.proposers.sweep import CLASS_TACTIC, SweepProposer
from roofsmith.testing.proposer import advance, brief_for

KERNEL = """import triton
import triton.language as tl

GROUP = 1024  # tune: GROUP = 1024 [256, 1024, 4096]
BOTH = 64
INNER = 128


@triton.jit
def scale(x, y, D, BLOCK: tl.constexpr, GROUPED: tl.constexpr, GROUP: tl.constexpr = 1):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < D), mask=at < GROUP * D)


def launched(x, y):
    D = x.shape[1]
    blocks = helper(D, 128)
    scale[(blocks,)](x, y, D, BLOCK=BOTH, GROUPED=GROUP)


def helper(n, by):
    return -(-n // by) + INNER - INNER


def run_kernel(x, y, D):
    scale[(1,)](x, y, D, BLOCK=256, GROUPED=BOTH, num_warps=4)
    launched(x, y)
"""


def module(text: str = KERNEL) -> Candidate:
    return Candidate(language="triton", sources=(SourceFile(path="kernel.py", text=text),))


class Launches:
    """Stands for Triton: what kernels were launched with."""

    def __init__(self) -> None:
        self.seen: list[Mapping[str, Any]] = []
        self.jit = lambda _: self
        self.language = SimpleNamespace(constexpr=object())

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *_, **options: self.seen.append(options)


def launches(candidate: Candidate, size: int, patch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    triton = Launches()
    patch.setitem(sys.modules, "triton", triton)  # type: ignore[arg-type]
    patch.setitem(sys.modules, "triton.language", triton.language)  # type: ignore[arg-type]
    names: dict[str, Any] = {}
    exec(candidate.kernel.text, names)
    x = SimpleNamespace(shape=(8, size))
    names["run_kernel"](x=x, y=x, D=size)
    return triton.seen


def of_classes(*sizes: Sequence[int], text: str = KERNEL) -> Brief:
    """A brief whose classes hold these sizes of D."""
    found = brief_for(module(text), signature=Signature(parameters=()))
    workloads = tuple(Workload(dims={"D": size}) for one in sizes for size in one)
    classes = tuple(
        ConfigClass(
            name=f"class {n}", workloads=tuple(f"D={size}" for size in one), reason="declared"
        )
        for n, one in enumerate(sizes)
    )
    started = found.campaign.started
    target = started.target.model_copy(update={"workloads": workloads})
    started = started.model_copy(update={"target": target, "classes": classes})
    arrays = {
        w.label: tuple(ArraySpec(name, "input", "float32", (8, w.dims["D"])) for name in "xy")
        for w in workloads
    }
    return replace(
        found,
        campaign=found.campaign.model_copy(update={"started": started}),
        classes=classes,
        descriptions={
            w.label: WorkloadDescription(arrays[w.label], w.dims, None, None, None, None)
            for w in workloads
        },
    )


def test_bounds_lie_between_the_classes() -> None:
    ladder = ladder_of(of_classes((8192,), (32, 64), (512,)))
    assert ladder == Ladder("D", (181, 2048))
    assert ladder.ranges == ("D <= 181", "181 < D <= 2048", "D > 2048")
    assert ladder.chosen([1, 2, 2]) == "1 if D <= 181 else 2"
    assert ladder.chosen([1, 1, 2]) == "1 if D <= 2048 else 2"
    assert ladder.chosen([1, 2, 1]) == "1 if D <= 181 else 2 if D <= 2048 else 1"


@pytest.mark.parametrize(
    "brief",
    [
        of_classes((64, 8192)),
        replace(of_classes((64,), (8192,)), descriptions={}),
        of_classes((64, 8192), (512,)),
        of_classes(
            (64,), (512,), text=KERNEL.replace("    launched(x", "    D = 1\n    launched(x")
        ),
    ],
)
def test_classes_that_no_size_tells_apart(brief: Brief) -> None:
    assert ladder_of(brief) is None


def test_only_what_the_entry_decides_can_be_chosen() -> None:
    names = {name.partition("@")[0] for name in choosable(module())}
    assert names >= {"GROUP", "BOTH", "BLOCK", "num_warps"}
    assert "INNER" not in names


def test_every_size_gets_what_its_class_has(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = Ladder("D", (2048,))
    warps = next(name for name in choosable(module()) if name.startswith("num_warps"))
    small = {"GROUP": 256, "BOTH": 32, "BLOCK": 128, warps: 2}
    large = {"GROUP": 4096, "BOTH": 32, "BLOCK": 512, warps: 8}
    candidate = for_classes(module(), ladder, [small, large])
    assert "==" not in candidate.kernel.text
    for size in (1, 700, 2048, 2049, 1 << 20):
        first, second = launches(candidate, size, monkeypatch)
        wanted = small if size <= 2048 else large
        assert (first["BLOCK"], first["num_warps"]) == (wanted["BLOCK"], wanted[warps])
        assert (second["GROUPED"], second["BLOCK"], first["GROUPED"]) == (wanted["GROUP"], 32, 32)
    assert launches(module(), 64, monkeypatch)[1]["GROUPED"] == 1024
    found = audit(candidate, module())
    assert (found.kept_values, found.assumptions, found.unread) == ((), (), ())


@dataclass
class TableScreen:
    """Runs the host's code of a candidate, and looks up what its launches take."""

    brief: Brief
    best: Mapping[int, int]
    """The quickest GROUP of each size: four times as much or as little takes a fifth longer."""
    patch: pytest.MonkeyPatch
    side_by_side: int = 4
    seen: list[str] = field(default_factory=list)

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        pass

    def with_evidence(self, brief: Brief) -> Brief:
        return brief

    def __call__(self, candidate: Candidate) -> Screening:
        self.seen.append(candidate.id)
        times = (self.log_time(candidate, size) for size in self.best)
        base = (self.log_time(self.brief.incumbent, size) for size in self.best)
        return Screening(outcome=Passed(), speedup=math.exp((sum(base) - sum(times)) / 2))

    def log_time(self, candidate: Candidate, size: int) -> float:
        group = launches(candidate, size, self.patch)[1]["GROUPED"]
        return math.log(1.2) * abs(math.log(group / self.best[size], 4))


def swept(best: Mapping[int, int], patch: pytest.MonkeyPatch) -> tuple[Brief, Proposal | None]:
    brief = of_classes(*((size,) for size in best))
    screen = TableScreen(brief, best, patch)
    return brief, SweepProposer().ask(brief, screen)


def test_classes_whose_winners_differ_get_a_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    brief, proposal = swept({64: 256, 8192: 4096}, monkeypatch)
    assert proposal is not None
    assert (proposal.hypothesis.tactic, proposal.hypothesis.category) == (CLASS_TACTIC, "dispatch")
    assert "GROUP where D <= 724 1024 -> 256" in proposal.hypothesis.statement
    for size, group in ((64, 256), (700, 256), (800, 4096), (8192, 4096)):
        assert launches(proposal.candidate, size, monkeypatch)[1]["GROUPED"] == group
    kept = advance(brief, proposal, kept=True, speedup=1.2)
    screen = TableScreen(kept, {64: 256, 8192: 4096}, monkeypatch)
    assert SweepProposer().ask(kept, screen) is None
    assert screen.seen == []


def test_one_setting_for_all_stays_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    _, proposal = swept({64: 4096, 8192: 4096}, monkeypatch)
    assert proposal is not None
    assert proposal.hypothesis.tactic == "sweep"
    assert "GROUP = 4096  # tune: GROUP = 4096 [" in proposal.candidate.kernel.text
    _, proposal = swept({64: 1024, 8192: 1024}, monkeypatch)
    assert proposal is None
