"""What worked and what failed in like situations, by likeness times effect. Pure.

How alike two situations are is a product of factors between 0 and 1, one for each thing that the
field's recommendations go by; what isn't known of a round costs less than a difference. The factors
are chosen, none is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Final

from roofsmith.analysis.experiments import backend_of, family_of
from roofsmith.analysis.figures import one_line
from roofsmith.domain.campaign import Started
from roofsmith.domain.experiment import NEUTRAL, SUCCESS, UNKNOWN_FAMILY, Experiment
from roofsmith.domain.knowledge import library_arch
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.recommendation import Precedent, Recommendation, Situation

MOST: Final = 40
"""Recommendations of one situation: a campaign's first record holds them."""
_MOST_PRECEDENTS: Final = 3
_LEAST_LIKENESS: Final = 0.05
"""A round that is less alike says nothing."""
_PRIOR_ROUNDS: Final = 1.0
"""Rounds without any gain that every tactic is taken to have had."""
_PRIOR_SPREAD: Final = 0.3
"""Of a tactic's log speedups from kernel to kernel, as far as too few rounds show it."""
_Z: Final = NormalDist().inv_cdf(0.975)
_UNKNOWN: Final = 0.7
"""Factor of what is asked about, and isn't known of a round."""
_OTHER: Final[Mapping[str, float]] = {"family": 0.4, "bottleneck": 0.4, "dtype": 0.7}
"""Factors of what differs."""
_GENERATION: Final = 0.8
"""Of architectures of one generation, such as sm_86 and sm_89."""
_VENDOR: Final = 0.5
"""Of others of one kind of device."""
_ALIKE_BACKENDS: Final = (frozenset({"c", "cpp"}), frozenset({"cuda", "hip"}))
_SIZE_LOG: Final = math.log(1e4)
"""Sizes that differ by this factor halve the likeness."""
_COUNTER_LOG: Final = math.log(10)
"""Counters that do on average do so, too; a counter counts at most this much."""
_TOLD: Final = "told"
"""Tactic of what somebody told without one."""
_SAY_NOTHING: Final = frozenset(("baseline", "refused", "unstable", "tip"))
"""What an experiment came to that says nothing of its change."""
_SWEEP: Final = "sweep"
_NAMELESS: Final = frozenset(("external", _SWEEP, "split", _TOLD))
"""Tactics that say nothing of what was changed: the statement does."""


def recommend(found: Iterable[Experiment], here: Situation) -> tuple[Recommendation, ...]:
    """What worked, the most promising first, then what failed, the surest first.

    Masked rounds and gains that depend on inputs coming again are left out, and so are rounds of
    another language. Empty: there is nothing to go by.
    """
    groups: dict[tuple[str, str, BottleneckKind], list[tuple[float, Experiment]]] = {}
    for one in found:
        if not _says_something(one):
            continue
        alike = likeness(one, here)
        if alike >= _LEAST_LIKENESS:
            tactic = one.hypothesis.tactic if one.hypothesis is not None else _TOLD
            change = _change(one) if tactic in _NAMELESS else ""
            groups.setdefault((tactic, change, _kind(one)), []).append((alike, one))
    made = [_of_group(tactic, kind, rows) for (tactic, _, kind), rows in groups.items()]
    weighty = sorted(made, key=lambda one: (-one.weight, one.tactic, one.bottleneck))[:MOST]
    return tuple(sorted(weighty, key=_rank))


def _says_something(one: Experiment) -> bool:
    """Of its change; what a busy machine left unverified doesn't."""
    is_told = one.hypothesis is not None or bool(one.change_summary)
    is_measured = one.status not in _SAY_NOTHING and one.verdict != "unverified"
    return is_told and is_measured and one.may_be_recommended


def _rank(one: Recommendation) -> tuple[bool, float, str, str]:
    gain = abs(math.log(one.speedup)) if one.worked else one.weight
    return not one.worked, -gain, one.tactic, one.bottleneck


def _of_group(
    tactic: str, kind: BottleneckKind, rows: Sequence[tuple[float, Experiment]]
) -> Recommendation:
    rows = sorted(rows, key=lambda row: (-row[0], row[1].time, row[1].id))
    weight = sum(alike for alike, _ in rows)
    gains = [(alike, gain_of(one)) for alike, one in rows]
    total, count = sum(alike * gain for alike, gain in gains), _PRIOR_ROUNDS + weight
    mean = total / count
    around = sum(alike * (gain - total / weight) ** 2 for alike, gain in gains)
    half = _Z * math.sqrt(_PRIOR_ROUNDS * _PRIOR_SPREAD**2 + around) / count
    return Recommendation(
        tactic=tactic,
        bottleneck=kind,
        change=_change(rows[0][1]),
        worked=mean > math.log(NEUTRAL),
        speedup=math.exp(mean),
        interval=(math.exp(mean - half), math.exp(mean + half)),
        rounds=len(rows),
        kept=sum(_gained(one) for _, one in rows),
        weight=round(weight, 3),
        precedents=tuple(_precedent(*row) for row in rows[:_MOST_PRECEDENTS]),
    )


def gain_of(one: Experiment) -> float:
    """Logarithm of what a round was worth: nothing unless it was kept, or told as a success."""
    return math.log(one.score or SUCCESS) if _gained(one) else 0.0


def _gained(one: Experiment) -> bool:
    return one.status == "kept" or (one.status == "reported" and one.outcome == "success")


def _change(one: Experiment) -> str:
    return one.hypothesis.statement if one.hypothesis is not None else one.change_summary


def _kind(one: Experiment) -> BottleneckKind:
    return one.bottleneck.kind if one.bottleneck is not None else "unknown"


def _precedent(alike: float, one: Experiment) -> Precedent:
    return Precedent(
        experiment=one.id, campaign=one.campaign, round=one.round, operator=one.operator,
        device=one.device or one.arch, likeness=round(alike, 3), speedup=one.score,
        interval=one.interval, came_to=one.status,
    )  # fmt: skip


def likeness(one: Experiment, here: Situation) -> float:
    """Of the kernel that was changed to the one here, 0 to 1; 0: another language."""
    return (
        _backend(one.backend, here.backend)
        * _family(one, here.operator)
        * _arch(one, here)
        * _same("dtype", one.dtype_sig, here.dtype)
        * _bottleneck(_kind(one), here.bottleneck)
        * _sizes(one.dims, here.dims)
        * _counters(one.counters_before, here.counters)
    )


def _same(what: str, there: str, here: str) -> float:
    if not there or not here:
        return _UNKNOWN if here else 1.0
    return 1.0 if there.lower() == here.lower() else _OTHER[what]


def _bottleneck(there: BottleneckKind, here: BottleneckKind) -> float:
    if here == "unknown":
        return 1.0
    return _UNKNOWN if there == "unknown" else _same("bottleneck", there, here)


def _backend(there: str, here: str) -> float:
    if there == here or not here:
        return 1.0
    return 0.8 if any({there, here} <= alike for alike in _ALIKE_BACKENDS) else 0.0


def _family(one: Experiment, here: str) -> float:
    """By family or name, of which the signature holds both."""
    if here and here.lower() in one.operator_sig.lower():
        return 1.0
    there = "" if one.family == UNKNOWN_FAMILY else one.operator
    return _same("family", there, here)


def _arch(one: Experiment, here: Situation) -> float:
    if not (here.arch or here.device):
        return 1.0
    known = f"{one.arch} {one.device}".lower()
    if any(name.lower() in known for name in (here.arch, here.device) if name):
        return 1.0
    there, arch = one.arch, here.arch
    if not there or not arch:
        return _VENDOR
    if there[:4] == arch[:4]:  # sm_8, gfx9, avx5
        return _GENERATION
    return _VENDOR if there[:2] == arch[:2] else _VENDOR / 2


def _sizes(there: Mapping[str, Mapping[str, int]], here: Mapping[str, Mapping[str, int]]) -> float:
    """By the geometric mean of the workloads' products of dimensions."""
    if not there or not here:
        return _UNKNOWN if here else 1.0
    return math.pow(0.5, abs(_log_size(there) - _log_size(here)) / _SIZE_LOG)


def _log_size(dims: Mapping[str, Mapping[str, int]]) -> float:
    logs = [sum(math.log(max(1, value)) for value in one.values()) for one in dims.values()]
    return sum(logs) / len(logs)


def _counters(there: Mapping[str, float], here: Mapping[str, float]) -> float:
    """By the mean distance, in the logarithm, of counters that both have."""
    both = [(there[name], here[name]) for name in there.keys() & here.keys()]
    steps = [min(_COUNTER_LOG, abs(math.log(a / b))) for a, b in both if a > 0 and b > 0]
    if not steps:
        return _UNKNOWN if here else 1.0
    return math.pow(0.5, sum(steps) / len(steps) / _COUNTER_LOG)


def situation_of(started: Started) -> Situation:
    """Of a campaign that begins: no counters, and no bottleneck yet."""
    target, device = started.target, started.environment.device
    bound = next(iter(started.bounds), None)
    return Situation(
        operator=family_of(target) or target.name,
        backend=backend_of(target, target.baseline),
        device=device.name,
        arch=library_arch(device),
        dtype=bound.cost.dtype if bound is not None else "",
        dims={workload.label: workload.dims for workload in target.workloads},
    )


def recommended_line(one: Recommendation) -> str:
    """One of them for people and models, with its evidence."""
    low, high = one.interval
    seen = "; ".join(map(_seen, one.precedents))
    effect = "gained" if one.worked else "little gain" if one.kept else "no gain"
    return (
        f"{effect} where {one.bottleneck} was the bottleneck:"
        f" {one.tactic}, {one.speedup:.2f}x [{low:.2f}, {high:.2f}] expected,"
        f" {one.kept} of {one.rounds} kept; such as: {one_line(one.change, 200)}. Seen: {seen}"
    )


def _seen(row: Precedent) -> str:
    names = (one_line(row.operator, 40), one_line(row.device, 40))
    came_to = f"{row.speedup:.2f}x, {row.came_to}" if row.speedup else row.came_to
    number = f"round {row.round}" if row.round else ""
    place = ", ".join(filter(None, (one_line(row.campaign, 60), number)))
    return f"{' on '.join(filter(None, names))}: {came_to}{f' ({place})' if place else ''}"
