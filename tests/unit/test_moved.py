"""What a change moved: the counters of a candidate beside the incumbent's."""

from __future__ import annotations

from roofsmith.analysis.moved import moved
from roofsmith.domain.profile import Counter, Profile


def seen(workload: str = "n=1", **values: float) -> Profile:
    counters = tuple(
        Counter(name=name, value=value, unit="fraction" if "fraction" in name else "1")
        for name, value in values.items()
    )
    return Profile(tool="perf", workload=workload, counters=counters)


def test_what_differs_most_comes_first_and_shares_have_both_ends() -> None:
    before = seen(instructions=1e6, l1_misses=2e4, vector_fraction=0.8, cycles=1e6)
    after = seen(instructions=1.3e6, l1_misses=4.2e4, vector_fraction=0.2, cycles=1.02e6)
    assert moved(before, after) == (
        "vector_fraction 80% to 20%", "l1_misses 2.10x", "instructions 1.30x"
    )  # fmt: skip


def test_what_is_rare_before_and_after_explains_nothing() -> None:
    before = seen(instructions=1e9, branch_misses=10.0, idle_fraction=0.001)
    assert moved(before, seen(instructions=1e9, branch_misses=90.0, idle_fraction=0.03)) == ()


def test_what_was_not_there_before_is_told() -> None:
    assert moved(seen(spills=0.0), seen(spills=5000.0)) == ("spills 0 to 5000",)


def test_profiles_of_different_workloads_are_not_compared() -> None:
    assert moved(seen(cycles=1.0), seen("n=2", cycles=9.0)) == ()
    assert moved(None, seen(cycles=1.0)) == ()
