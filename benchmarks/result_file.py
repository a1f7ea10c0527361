"""What every result file has: where and how it was made, and figures that samples add up to."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from roofsmith.analysis.shares import wilson
from roofsmith.domain.comparison import PairSample
from roofsmith.domain.device import Environment
from roofsmith.domain.values import Value
from roofsmith.machine.cpu import CpuSource

"""Standard normal quantile of a two-sided 95% interval."""

Times = tuple[float, float]
"""Medians of one pair's two segments: incumbent, candidate; nanoseconds."""


class Made(Value):
    """Where, when and how a result was made."""

    command: str
    started: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    environment: Environment
    fingerprint: str
    load_average: float
    """Of the minute before the start."""


class Rate(Value):
    """How often something happened."""

    count: int
    trials: int
    share: float | None
    """None without trials."""
    wilson: tuple[float, float]
    """95% score interval."""


def made_now(environment: Environment | None = None) -> Made:
    """Of this process.

    Args:
        environment: of the device that kernels run on; None: the host's processors.
    """
    environment = environment or CpuSource().environment()
    return Made(
        command=shlex.join(["python", *sys.argv]),
        started=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
        environment=environment,
        fingerprint=environment.fingerprint,
        load_average=os.getloadavg()[0],
    )


def rate(happened: Sequence[bool]) -> Rate:
    """Share with its Wilson interval."""
    trials, count = len(happened), sum(happened)
    if not trials:
        return Rate(count=0, trials=0, share=None, wilson=(0.0, 1.0))
    share, interval = count / trials, wilson(count, trials)
    return Rate(count=count, trials=trials, share=share, wilson=interval)


def student_quantile(freedom: int, confidence: float = 0.95) -> float:
    """The t that a Student variable's size stays below with this chance.

    By bisection of the closed form for whole degrees of freedom (Abramowitz and Stegun, 26.7.3-4).

    Args:
        freedom: degrees of it, at least 1.
        confidence: below 1.
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t over the root of freedom
    for _ in range(60):
        middle = (low + high) / 2
        is_below = _student_chance(middle, freedom) < confidence
        low, high = (middle, high) if is_below else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _student_chance(angle: float, freedom: int) -> float:
    odd, sine, cosine = freedom % 2, math.sin(angle), math.cos(angle)
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return (angle + sine * total) * 2 / math.pi if odd else sine * total


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """95% bounds for the mean that values are drawn from, by Student's t; at least two."""
    half = student_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def pair_times(samples: Sequence[PairSample]) -> tuple[Times, ...]:
    """Every valid pair, in order; to a tenth of a nanosecond, which no clock here resolves."""
    return tuple(
        (
            round(median(sample.incumbent_time_s) * 1e9, 1),
            round(median(sample.candidate_time_s) * 1e9, 1),
        )
        for sample in samples
        if sample.void is None
    )


def log_ratios(pairs: Sequence[Times]) -> list[float]:
    """ln(incumbent / candidate) of every pair."""
    return [math.log(incumbent / candidate) for incumbent, candidate in pairs]


def write(result: Value, path: Path) -> None:
    """Replace a result file; a long list of records gets a line per record.

    A reader never sees half a file, and an interrupted benchmark leaves the last whole one.
    """
    document: Mapping[str, Any] = result.model_dump(mode="json")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(_layout(document), encoding="utf-8")
    partial.replace(path)


def _layout(document: Mapping[str, Any]) -> str:
    entries = [f"{json.dumps(key)}: {_entry(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _entry(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(json.dumps(record) for record in value) + "\n]"
    return json.dumps(value)


def percent(found: Rate) -> str:
    """`0.5% [0.1%, 1.8%] (2 of 400)`."""
    if found.share is None:
        return "no trials"
    low, high = found.wilson
    return f"{found.share:.1%} [{low:.1%}, {high:.1%}] ({found.count} of {found.trials})"


def say(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)
