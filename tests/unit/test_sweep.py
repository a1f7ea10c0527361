"""The sweep: what it finds on made-up cost models, how it ends, and that it works on a kernel."""

from __future__ import annotations

import itertools
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import BuildSpec, Candidate, Language, SourceFile
from roofsmith.domain.outcome import BuildFailed, Incorrect, Passed, Unstable
from roofsmith.domain.proposal import Proposal
from roofsmith.ports import Brief
from roofsmith.proposers.sweep import SweepProposer
from roofsmith.proposers.tunables import Setting, find_tunables
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.proposer import FakeScreen, ProposerConformance, advance, brief_for

BLOCKED = """\
#define MC 64 // tune: MC = 64 [16, 32, 64, 128, 256]
#define KC 64 // tune: KC = 64 [32, 64, 128, 256]
#define NR 8  // tune: NR = 8 [4, 8, 16, 32]
static int smaller(int a, int b) { return a < b ? a : b; }
void solve(const float *A, const float *B, float *C, int N) {
  for (long i = 0; i < (long)N * N; i++) C[i] = 0;
  for (int kk = 0; kk < N; kk += KC)
    for (int ii = 0; ii < N; ii += MC)
      for (int jj = 0; jj < N; jj += NR)
        for (int i = ii; i < smaller(ii + MC, N); i++)
          for (int k = kk; k < smaller(kk + KC, N); k++) {
            const float x = A[(long)i * N + k];
            const float *b = B + (long)k * N;
            for (int j = jj; j < smaller(jj + NR, N); j++) C[(long)i * N + j] += x * b[j];
          }
}
"""
SMALL = (
    BLOCKED.replace("[16, 32, 64, 128, 256]", "[64, 128]")
    .replace("[32, 64, ", "[64, ")
    .replace("[4, 8, 16, 32]", "[4, 8]")
)
FOUND_ONLY = """\
#define HEADS 4
#define TILE 32
void solve(const float *a, float *out, int N) {
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < N; i += TILE) out[h * N + i] = a[h * N + i];
}
"""


def candidate(text: str = BLOCKED) -> Candidate:
    return Candidate(
        language="c",
        sources=(SourceFile(path="solve.c", text=text),),
        build=BuildSpec(flags=("-O3", "-march=native")),
    )


def settings_of(candidate: Candidate) -> dict[str, Setting]:
    return find_tunables(candidate, threads=2, isa=("avx2",)).current


Model = Callable[[Mapping[str, Setting]], float | None]
"""Time in made-up units of an assignment; None: incorrect."""


@dataclass
class ModelScreen:
    """Screens by a cost model, with noise if asked, and counts.

    On a clock that tests own, looks take `seconds`, and up to `side_by_side` builds `build_s`.
    """

    model: Model
    incumbent: Candidate
    noise: float = 0.0
    clock: FakeClock | None = None
    seconds: float = 0.5
    seed: int = 0
    build_s: float = 0.0
    side_by_side: int = 1
    seen: list[str] = field(default_factory=list)
    prepared: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        self.prepared.append(tuple(candidate.id for candidate in candidates))
        if self.clock is not None:
            self.clock.advance(self.build_s * math.ceil(len(candidates) / self.side_by_side))

    def with_evidence(self, brief: Brief) -> Brief:
        return brief

    def __call__(self, candidate: Candidate) -> Screening:
        self.seen.append(candidate.id)
        if self.clock is not None:
            self.clock.advance(self.seconds)
        ratio = self.ratio(candidate)
        if ratio is None:
            return Screening(outcome=Incorrect(reason="outside_budget"), speedup=None)
        seen = ratio * math.exp(self._random.gauss(0, self.noise))
        return Screening(outcome=Passed(), speedup=seen)

    def ratio(self, candidate: Candidate) -> float | None:
        """The true speedup over the incumbent; None if the candidate fails."""
        time = self.model(settings_of(candidate))
        base = self.model(settings_of(self.incumbent))
        assert base is not None
        return None if time is None else base / time


def bowl(best: Mapping[str, int], penalty: Model = lambda _: 0.0) -> Model:
    """A cost model with one optimum: each doubling away from it costs 15%."""

    def time(point: Mapping[str, Setting]) -> float | None:
        extra = penalty(point)
        if extra is None:
            return None
        steps = sum(abs(math.log2(int(point[name]) / value)) for name, value in best.items())
        return 1.15**steps + extra

    return time


def sweep(
    model: Model,
    text: str = BLOCKED,
    noise: float = 0.0,
    seconds: float = 0.5,
    build_s: float = 0.0,
    side_by_side: int = 1,
    **options: float,
) -> tuple[Proposal | None, SweepProposer, ModelScreen]:
    clock = FakeClock()
    incumbent = candidate(text)
    screen = ModelScreen(
        model, incumbent, noise, clock, seconds, int(options.get("seed", 0)),
        build_s=build_s, side_by_side=side_by_side,
    )  # fmt: skip
    proposer = SweepProposer(monotonic=clock.monotonic, **options)  # type: ignore[arg-type]
    return proposer.ask(brief_for(incumbent), screen), proposer, screen


BEST = {"MC": 16, "KC": 256, "NR": 32}


class TestSearch:
    def test_it_comes_close_to_the_optimum_of_a_declared_space(self) -> None:
        proposal, _, screen = sweep(bowl(BEST))
        assert len(screen.seen) < 5 * 4 * 4
        # 6 doublings away at the start; within one at the end.
        assert proposal.hypothesis.predicted_speedup >= 1.15**5

    def test_a_small_space_is_enumerated(self) -> None:
        needle = {"MC": 128, "KC": 256, "NR": 4}

        def time(point: Mapping[str, Setting]) -> float:
            return 0.5 if all(point[n] == v for n, v in needle.items()) else 1.0

        proposal, _, _ = sweep(time, SMALL)
        assert proposal.hypothesis.predicted_speedup == pytest.approx(2)

    def test_failing_regions_do_not_hide_the_optimum(self) -> None:
        model = bowl(BEST, lambda p: None if int(p["MC"]) * int(p["KC"]) > 16384 else 0.0)
        proposal, _, _ = sweep(model)
        assert {p.outcome.kind for p in proposal.screened} == {"passed", "incorrect"}
        assert proposal.hypothesis.predicted_speedup >= 1.15**4

    def test_a_constant_that_carries_meaning_is_pinned(self) -> None:
        def time(point: Mapping[str, Setting]) -> float | None:
            return None if point["HEADS"] != 4 else {64: 0.9, 128: 0.8}.get(int(point["TILE"]), 1.0)

        proposal, _, _ = sweep(time, FOUND_ONLY)
        assert settings_of(proposal.candidate) == {
            **settings_of(candidate(FOUND_ONLY)),
            "TILE": 128,
        }
        assert sum(p.outcome.kind == "incorrect" for p in proposal.screened) == 2

    def test_build_tunables_are_searched_from_the_best_source_point(self) -> None:
        def time(point: Mapping[str, Setting]) -> float:
            right = point["TILE"] == 64
            return (0.8 if right else 1.0) * (0.5 if point["float-math"] == "reassociate" else 1)

        proposal, _, _ = sweep(time, FOUND_ONLY)
        settings = settings_of(proposal.candidate)
        assert (settings["TILE"], settings["float-math"]) == (64, "reassociate")
        assert proposal.hypothesis.predicted_speedup == pytest.approx(2.5)

    def test_every_point_is_in_the_proposal_and_none_is_screened_twice_first(self) -> None:
        proposal, _, screen = sweep(bowl(BEST))
        assert [p.candidate_id for p in proposal.screened] == screen.seen
        first = [p.candidate_id for p in proposal.screened if "(again)" not in p.label]
        assert len(first) == len(set(first))
        assert candidate().id not in first

    def test_the_same_seed_gives_the_same_sweep(self) -> None:
        runs = [sweep(bowl(BEST), noise=0.02, seed=3)[0] for _ in range(2)]
        assert runs[0] == runs[1]


class TestEnd:
    def test_limits_of_points_and_time_hold(self) -> None:
        _, _, screen = sweep(bowl(BEST), max_points=10)
        assert len(set(screen.seen)) <= 10
        _, _, slow = sweep(bowl(BEST), seconds=4.0, budget_s=20)
        # What runs is not cut, and each finalist gets one more look.
        assert len(slow.seen) <= 20 / 4 + 4

    def test_flat_ground_is_left_early(self) -> None:
        proposal, _, screen = sweep(lambda _: 1.0, seconds=0.0, patience=6)
        assert proposal is None
        assert len(screen.seen) <= 6 + 16

    @pytest.mark.slow
    def test_a_gain_that_was_noise_is_not_proposed(self) -> None:
        proposals = [sweep(lambda _: 1.0, noise=0.03, seed=seed)[0] for seed in range(10)]
        assert sum(proposal is not None for proposal in proposals) <= 2
        assert sweep(bowl(BEST), noise=0.03)[0] is not None

    @pytest.mark.slow
    def test_the_prediction_is_not_the_lucky_first_look(self) -> None:
        """First looks of the winners are two deviations too high; predictions are not."""
        model, noise = bowl(BEST), 0.08
        first, predicted = [], []
        for seed in range(10):
            proposal, _, screen = sweep(model, noise=noise, seed=seed)
            truth = screen.ratio(proposal.candidate)
            assert truth is not None
            best_look = max(p.speedup or 0 for p in proposal.screened)
            first.append(math.log(best_look / truth) / noise)
            predicted.append(math.log(proposal.hypothesis.predicted_speedup / truth) / noise)
        assert sum(first) / len(first) > 1
        assert abs(sum(predicted) / len(predicted)) < 0.5

    def test_the_best_point_is_proposed_where_the_campaign_has_no_more_time(self) -> None:
        looks = itertools.count()
        over = Screening(outcome=Unstable(reason="budget_spent"), speedup=None)
        passed = Screening(outcome=Passed(), speedup=1.5)
        screen = FakeScreen(lambda _: passed if next(looks) < 5 else over)
        proposal = SweepProposer().ask(brief_for(candidate()), screen)
        assert proposal is not None
        assert len(proposal.screened) == 5
        assert next(looks) < 5 + 6

    def test_a_kernel_that_only_fails_gives_none(self) -> None:
        first = settings_of(candidate())
        assert sweep(lambda p: 1.0 if p == first else None)[0] is None

    def test_a_kernel_that_never_builds_gives_none(self) -> None:
        proposer = SweepProposer(max_points=4)
        failed = Screening(outcome=BuildFailed(reason="compiler_error"), speedup=None)
        assert proposer.ask(brief_for(candidate()), FakeScreen(lambda _: failed)) is None


NVCC: dict[str, Any] = {"build_s": 4.0, "seconds": 1.0, "side_by_side": 16}
"""Of a machine with 16 processors."""


class TestBatches:
    """Builds of a batch run side by side, its looks one after the other."""

    def test_more_points_are_seen_in_the_same_time(self) -> None:
        _, _, alone = sweep(bowl(BEST), **{**NVCC, "side_by_side": 1})
        _, _, beside = sweep(bowl(BEST), **NVCC)
        assert len(set(beside.seen)) >= 2 * len(set(alone.seen))

    def test_every_point_is_prepared_once_before_its_look(self) -> None:
        proposal, _, screen = sweep(bowl(BEST), **NVCC, budget_s=90.0)
        prepared = [one for batch in screen.prepared for one in batch]
        first = [p.candidate_id for p in proposal.screened if "(again)" not in p.label]
        assert first == prepared
        assert len(prepared) == len(set(prepared))
        assert max(map(len, screen.prepared)) > 4

    @pytest.mark.parametrize("side_by_side", [1, 2, 16])
    def test_where_builds_are_quick_every_look_is_learned_from(self, side_by_side: int) -> None:
        """With gcc, all processors are only for points that are the same whatever is learned."""
        _, _, screen = sweep(bowl(BEST), build_s=0.2, side_by_side=side_by_side)
        sizes = [len(batch) for batch in screen.prepared]
        assert sizes[0] == min(side_by_side, 4)
        assert sizes.count(1) >= len(sizes) - 6

    @pytest.mark.parametrize("side_by_side", [1, 2, 4, 16])
    def test_no_batch_is_begun_that_would_not_fit(self, side_by_side: int) -> None:
        for build_s in (0.5, 3.0, 7.0, 40.0):
            _, _, screen = sweep(
                lambda _: 1.0, seconds=1.0, build_s=build_s, side_by_side=side_by_side
            )
            first_s = build_s + min(side_by_side, 4) * 1.0
            assert screen.clock.monotonic() <= max(0.8 * 22, first_s)

    def test_what_was_begun_is_looked_at(self) -> None:
        """A build that takes more than the budget was not for nothing."""
        _, _, screen = sweep(lambda _: 1.0, seconds=1.0, build_s=60.0, side_by_side=2)
        assert [len(batch) for batch in screen.prepared] == [2]
        assert len(screen.seen) == 2

    def test_a_batch_whose_looks_take_long_is_cut(self) -> None:
        """At most one look runs past the end, as if points were built one at a time."""
        _, _, screen = sweep(lambda _: 1.0, seconds=10.0, build_s=0.3, side_by_side=16)
        assert [len(batch) for batch in screen.prepared] == [4]
        assert len(screen.seen) == 2

    @pytest.mark.parametrize("text", [SMALL, FOUND_ONLY])
    def test_small_spaces_come_to_the_same_however_many_are_built_at_once(self, text: str) -> None:
        def time(point: Mapping[str, Setting]) -> float | None:
            if "HEADS" in point and point["HEADS"] != 4:
                return None
            return 2.0 / sum(math.log(int(v)) for v in point.values() if isinstance(v, int))

        found = [
            sweep(time, text, side_by_side=side_by_side, max_points=100, budget_s=100.0)[0]
            for side_by_side in (1, 2, 5, 16)
        ]
        assert found[0] is not None
        assert len({p.candidate.id for p in found if p is not None}) == 1

    @pytest.mark.parametrize("limit", [3, 10])
    def test_limits_of_points_hold(self, limit: int) -> None:
        _, _, screen = sweep(bowl(BEST), **NVCC, max_points=limit, budget_s=500.0)
        assert sum(map(len, screen.prepared)) <= limit

    def test_patience_holds(self) -> None:
        _, _, screen = sweep(lambda _: 1.0, **NVCC, patience=6, budget_s=500.0)
        assert sum(map(len, screen.prepared)) <= 6 + 16

    def test_the_same_seed_and_times_give_the_same_sweep(self) -> None:
        runs = [sweep(bowl(BEST), **NVCC, noise=0.02, seed=3)[0] for _ in range(2)]
        assert runs[0] == runs[1]

    def test_it_still_comes_close_to_the_optimum(self) -> None:
        gains = [sweep(bowl(BEST), **NVCC, budget_s=60.0, seed=seed)[0] for seed in range(5)]
        assert all(p is not None for p in gains)
        predicted = [p.hypothesis.predicted_speedup for p in gains if p is not None]
        assert sorted(predicted)[2] >= 1.15**5

    @pytest.mark.parametrize(("language", "budget_s"), [("cpp", 22.0), ("cuda", 60.0)])
    def test_where_builds_are_slow_there_is_more_time(
        self, language: Language, budget_s: float
    ) -> None:
        clock = FakeClock()
        incumbent = candidate().model_copy(update={"language": language})
        screen = ModelScreen(lambda _: 1.0, incumbent, 0, clock, 1.0, build_s=4.0, side_by_side=4)
        proposer = SweepProposer(monotonic=clock.monotonic, patience=99)
        assert proposer.ask(brief_for(incumbent), screen) is None
        assert 0.8 * budget_s - 6 < clock.monotonic() <= 0.8 * budget_s

    def test_failures_of_a_batch_are_points(self) -> None:
        model = bowl(BEST, lambda p: None if int(p["MC"]) * int(p["KC"]) > 16384 else 0.0)
        proposal, _, screen = sweep(model, **NVCC, budget_s=60.0)
        assert {p.outcome.kind for p in proposal.screened} == {"passed", "incorrect"}
        assert [p.candidate_id for p in proposal.screened] == screen.seen


class TestOncePerIncumbent:
    def asked(self, proposer: SweepProposer, brief: Brief) -> tuple[Proposal | None, int]:
        screen = ModelScreen(bowl(BEST), brief.incumbent)
        return proposer.ask(brief, screen), len(screen.seen)

    @pytest.mark.parametrize("kept", [True, False])
    def test_a_sweep_that_became_a_round_is_not_repeated_after_a_resume(self, kept: bool) -> None:
        brief = brief_for(candidate())
        proposal, _ = self.asked(SweepProposer(), brief)
        assert proposal is not None
        later = advance(brief, proposal, kept=kept, speedup=1.5)
        assert self.asked(SweepProposer(), later) == (None, 0)

    @pytest.mark.rule("not-tried-again")
    def test_a_fruitless_sweep_is_remembered(self) -> None:
        brief = brief_for(candidate())
        proposer = SweepProposer(max_points=5)
        flat = ModelScreen(lambda _: 1.0, brief.incumbent)
        assert proposer.ask(brief, flat) is None
        assert self.asked(proposer, brief) == (None, 0)

    def test_another_structure_is_swept_anew(self) -> None:
        brief = brief_for(candidate(FOUND_ONLY))
        proposer = SweepProposer(max_points=5)
        assert proposer.ask(brief, ModelScreen(lambda _: 1.0, brief.incumbent)) is None
        proposal, looks = self.asked(proposer, brief_for(candidate()))
        assert proposal is not None
        assert looks > 0


class TestHypothesis:
    @pytest.mark.rule("one-variable")
    def test_it_says_what_was_swept_and_what_won(self) -> None:
        proposal, _, _ = sweep(bowl(BEST))
        hypothesis = proposal.hypothesis
        assert hypothesis.tactic == "sweep"
        assert "NR 8 -> 32" in hypothesis.statement
        assert any("NR (solve.c:3): 8 -> 32, out of 4, 8, 16, 32" in e for e in hypothesis.evidence)
        assert any("when screened again" in line for line in hypothesis.evidence)
        assert hypothesis.statement.endswith(" over 7 tunables")
        assert hypothesis.expected_counter == "cycles"


class TestConformance(ProposerConformance):
    def proposer(self) -> SweepProposer:
        return SweepProposer(max_points=20)

    def brief(self) -> Brief:
        return brief_for(candidate())

    def screening(self, candidate: Candidate) -> Screening:
        return ModelScreen(bowl(BEST), TestConformance.incumbent)(candidate)

    incumbent = candidate()


# -- a real compiler and a real kernel -----------------------------------------------------------

RUNNER = """\
import ctypes, sys
import numpy as np
n = 70
random = np.random.default_rng(0)
a, b = (random.standard_normal((n, n)).astype(np.float32) for _ in range(2))
for path in sys.argv[1:]:
    c = np.full((n, n), np.nan, np.float32)
    solve = ctypes.CDLL(path).solve
    solve(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)), ctypes.c_int(n))
    assert np.allclose(c, a.astype(np.float64) @ b, atol=1e-3), path
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.slow
def test_every_point_of_a_blocked_matmul_builds_and_is_right(tmp_path: Path) -> None:
    """Real builds, real results; the speed is a model's, so that the outcome is always the same."""
    incumbent = candidate()
    model = ModelScreen(bowl(BEST, lambda p: -0.2 * (p["float-math"] != "strict")), incumbent)

    libraries: list[str] = []

    def screening(candidate: Candidate) -> Screening:
        source, library = tmp_path / f"{candidate.id}.c", tmp_path / f"{candidate.id}.so"
        source.write_text(candidate.kernel.text)
        command = ["gcc", "-Werror", "-shared", "-fPIC", *candidate.build.flags, source]
        done = subprocess.run([*command, "-o", library], check=False, capture_output=True)
        if done.returncode != 0:
            failed = BuildFailed(reason="compiler_error", detail=done.stderr.decode())
            return Screening(outcome=failed, speedup=None)
        libraries.append(str(library))
        return model(candidate)

    proposer = SweepProposer(seed=1, max_points=14, budget_s=600)
    proposal = proposer.ask(brief_for(incumbent), FakeScreen(screening))
    assert [point.outcome for point in proposal.screened] == [Passed()] * len(proposal.screened)
    ran = subprocess.run([sys.executable, "-c", RUNNER, *libraries], check=False)
    assert (len(libraries), ran.returncode) == (len(proposal.screened), 0)
    flags = {flag for p in proposal.screened for flag in p.label.split() if flag[0] == "-"}
    assert flags, "build tunables were looked at, too"
