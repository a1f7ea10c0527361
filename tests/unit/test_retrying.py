"""What void pairs left unproven is judged again: within the campaign, and by a resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from worlds import world

from roofsmith.analysis.compare import is_win
from roofsmith.domain.campaign import Campaign, Resumed, Round, after
from roofsmith.domain.comparison import Judgement, PairSample
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Unstable
from roofsmith.engine.loop import Engine
from roofsmith.engine.validating import earlier_tries
from roofsmith.engine.verify import verify
from roofsmith.ports import Observer, Scope
from roofsmith.testing.engine import FakeWorld, Killed, SideEffects
from roofsmith.testing.judge import FakeJudge

FEW, TOO_FEW = 3, 10
"""One of so many of 40 pairs counts: 14 are enough for either measurement, 4 for none."""
ALWAYS = 99


class BusyJudge(FakeJudge):
    """Others disturb the first comparisons of some candidates."""

    def disturb(self, often: Mapping[str, int], one_of: int) -> BusyJudge:
        self._often, self._one_of, self._seen = often, one_of, Counter[str]()
        return self

    def _within(self, scope: Scope) -> BusyJudge:
        self._earlier = scope.earlier
        return self

    def _judged(
        self, candidate: Built, incumbent: Built, observer: Observer, *, quick: bool = False
    ) -> Judgement:
        found, made = super()._judged(candidate, incumbent, observer, quick=quick), candidate
        self._seen[made.candidate_id] += 1
        if self._seen[made.candidate_id] > self._often.get(made.candidate_id, 0):
            return found
        keep, earlier, confirmation = self._target.keep, found.earlier, found.confirmation
        samples, again = self._void(found.samples), self._void(confirmation)
        left = self._compared(samples, keep.first, [one.samples for one in earlier])
        again = again if is_win(left) else ()
        if again:
            left = self._compared(again, keep, [one.confirmation for one in earlier])
        changes: dict[str, Any] = {
            "samples": samples, "confirmation": again, "clock": (), "comparison": left,
            "verdict": "unverified" if is_win(left) else left.overall.verdict,
        }  # fmt: skip
        return found.model_copy(update=changes)

    def _void(self, pairs: tuple[PairSample, ...]) -> tuple[PairSample, ...]:
        void = {"void": "threads waited"}
        return tuple(p if p.sweep % self._one_of == 0 else p.model_copy(update=void) for p in pairs)


def busy(*times_s: float, often: Mapping[int, int], one_of: int = FEW) -> FakeWorld:
    """Ideas that take the given times; those at some places are disturbed so often."""
    made = world(*times_s)
    plain = made.fake_judge()
    ids = {made.ideas[at].candidate.id: n for at, n in often.items()}  # type: ignore[attr-defined]
    judge = BusyJudge(plain._target, plain._kernels, plain._classes, plain._floors)
    made.judge = judge.disturb(ids, one_of)
    return made


def run(here: FakeWorld) -> Campaign:
    found = Engine(here.parts(), "test").run()
    assert not verify(here.records)
    return found


def story(campaign: Campaign) -> list[str]:
    return [f"{r.hypothesis.statement}: {r.decision.kind}" for r in campaign.rounds]


def test_a_gain_that_voids_left_unproven_goes_before_new_ideas() -> None:
    found = run(busy(0.5e-3, 1e-3, 1e-3, often={0: 1}))
    assert story(found)[:3] == ["idea 0: rolled_back", "idea 1: rolled_back", "idea 0: kept"]
    assert found.rounds[0].judgement.verdict == "unverified"
    assert "pairs" in found.rounds[2].hypothesis.again


def test_pairs_of_all_tries_count_and_none_may_be_left_out() -> None:
    here = busy(0.5e-3, often={0: 2}, one_of=TOO_FEW)
    found = run(here)
    assert [r.pooled for r in found.rounds] == [(), (2,), (2, 3)]
    pairs = [r.judgement.comparison.overall.pairs for r in found.rounds if r.judgement.comparison]
    assert pairs == [4, 4, 44]  # of the first measurement, of the second, of all second ones
    assert found.rounds[1].judgement.earlier == (found.rounds[0].judgement,)
    chosen = [
        one.model_copy(update={"pooled": (2,)})
        if isinstance(one, Round) and one.round == 4
        else one
        for one in here.records
    ]
    assert any("earlier rounds whose pairs count" in one.what for one in verify(chosen))


def test_tries_elsewhere_or_by_another_judge_are_others() -> None:
    here = busy(0.5e-3, often={0: ALWAYS}, one_of=TOO_FEW)
    found = run(here)
    last = found.rounds[-1]
    assert [one.round for one in earlier_tries(found, last)] == [2, 3, 4]
    moved = found.started.environment.model_copy(update={"system": "another"})
    there = after(found, Resumed(environment=moved, note="", at=""))
    assert earlier_tries(there, last) == ()


def test_the_most_promising_goes_first_when_ideas_run_out() -> None:
    found = run(busy(0.9e-3, 0.5e-3, 2e-3, often={0: 1, 1: 1, 2: 1}, one_of=TOO_FEW))
    assert story(found)[3:] == ["idea 1: kept"]


def test_a_change_is_judged_three_times_and_again_by_a_resume() -> None:
    here = busy(0.5e-3, often={0: ALWAYS}, one_of=TOO_FEW)
    assert story(run(here)) == ["idea 0: rolled_back"] * 3
    here.judge.disturb({}, FEW)  # type: ignore[union-attr]
    found = run(here)
    assert story(found)[3:] == ["idea 0: kept"]
    assert run(here) == found


def test_what_is_slower_or_a_tie_or_masked_is_not_judged_again() -> None:
    assert len(run(busy(2e-3, 1e-3, often={0: 1, 1: 1}, one_of=TOO_FEW)).rounds) == 2


def test_what_others_on_the_device_cut_short_is_judged_again() -> None:
    here = world(0.5e-3)
    here.kernels.add(here.ideas[0].candidate, outcome=Unstable(reason="device_busy"))  # type: ignore[attr-defined]
    assert len(run(here).rounds) == 3


@pytest.mark.parametrize("step", range(0, 50, 7))
def test_a_kill_loses_no_retry(step: int) -> None:
    here = busy(0.5e-3, 1e-3, often={0: 1}, one_of=TOO_FEW)
    here.effects = SideEffects(die_at=step)
    with pytest.raises(Killed):
        Engine(here.parts(), "test").run()
    here.effects = SideEffects()
    assert "idea 0: kept" in story(run(here))
