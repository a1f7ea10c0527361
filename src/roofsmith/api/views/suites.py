"""What `suite` prints."""

from __future__ import annotations

from roofsmith.analysis import figures as fmt
from roofsmith.api.views.blocks import Blocks, Prose, Table
from roofsmith.domain.suite import Suite, SuiteRow


def row_line(row: SuiteRow) -> str:
    """One campaign, as it ended."""
    name = row.problem if row.repeat == 1 else f"{row.problem} ({row.repeat})"
    if row.speedup is None:
        return f"{name}: {row.verdict}: {row.reason}"
    told = f"{name}: {_speedup(row)}, {row.rounds} rounds, {fmt.time(row.seconds)}"
    return f"{told}; {row.reason}" if row.reason else told


def suite(found: Suite, other: Suite | None = None) -> Blocks:
    """A row for each campaign, the scores, and another suite's beside them."""
    compared = {} if other is None else {(r.problem, r.repeat): r for r in other.rows}
    yield ""
    yield Table(
        ("problem", "speedup", "over PyTorch", "roofline", "rounds", "time", "cost", "campaign")
        + (("other's speedup",) if compared else ()),
        [
            (
                row.problem,
                _speedup(row),
                _ratio(row.over_pytorch),
                _share(row.roofline_fraction),
                str(row.rounds),
                fmt.time(row.seconds),
                "UNKNOWN" if row.cost_usd is None else f"${row.cost_usd:.2f}",
                row.campaign,
            )
            + (_other(compared.get((row.problem, row.repeat))) if compared else ())
            for row in found.rows
        ],
    )
    yield ""
    others = {} if other is None else {one.name: one.value for one in other.scores}
    yield Table(
        ("score", "value", "least to most of repeats") + (("other's",) if other else ()),
        [
            (
                one.name,
                "UNKNOWN" if one.value is None else f"{one.value:.3g}",
                "one run" if one.spread is None else "{:.3g} to {:.3g}".format(*one.spread),
            )
            + ((_ratio(others.get(one.name)),) if other else ())
            for one in found.scores
        ],
    )
    yield ""
    left = found.problems * found.repeats - len(found.rows)
    yield Prose(
        f"{len(found.rows)} campaigns of {found.budget_s:g} s by {found.proposer}; what failed or"
        " hung counts as 1x" + (f"; {left} haven't run" if left > 0 else "")
    )
    if found.waiting:
        yield Prose(f"not run yet: {'; '.join(found.waiting)}")
    if found.raised:
        raised = "; ".join(f"{row.campaign}: {row.budget_s:g} s" for row in found.raised)
        yield Prose(f"with a larger budget than the rest: {raised}")
    for row in found.rows:
        if row.reason:
            yield Prose(f"{row.problem}: {row.verdict}: {row.reason}")


def _speedup(row: SuiteRow) -> str:
    if row.speedup is None:
        return row.verdict
    if row.interval is None or row.verdict != "gained":
        return f"{row.speedup:.2f}x"
    return "{:.2f}x [{:.2f}, {:.2f}]".format(row.speedup, *row.interval)


def _other(row: SuiteRow | None) -> tuple[str]:
    return ("not run" if row is None else _speedup(row),)


def _ratio(value: float | None) -> str:
    return "UNKNOWN" if value is None else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "UNKNOWN" if value is None else fmt.percent(value)
