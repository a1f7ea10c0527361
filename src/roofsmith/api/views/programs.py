"""What `plan` and `trace-analysis` print."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.analysis import figures as fmt
from roofsmith.analysis import kernel_table
from roofsmith.api.views.blocks import Blocks, Prose, Table
from roofsmith.domain.program import ProgramPlan, Prospect, TracedProgram
from roofsmith.wording import plural

_SHOWN = 20
_LONGEST_NAME = 60
_MOSTLY = 0.5


def plan(found: ProgramPlan) -> Blocks:
    """Kernels that are worth the work, why the others aren't, and what to type next."""
    yield from _head(found.program)
    yield f"memory bandwidth for floors: {found.ceiling}"
    kept = [one for one in found.prospects if one.dropped is None]
    dropped = [one for one in found.prospects if one.dropped is not None]
    yield ""
    if not kept:
        yield Prose("no kernel is worth the work: see below why each was dropped")
    else:
        yield Table(
            ("", "GPU time", "headroom", "at most", "launches", "mean", "kernel"),
            [
                (
                    str(number),
                    fmt.percent(one.kernel.share),
                    "UNKNOWN" if one.fraction is None else fmt.percent(1 - one.fraction),
                    "all of it" if one.most_speedup is None else f"{one.most_speedup:.3g}x",
                    str(one.kernel.launches),
                    fmt.time(one.kernel.mean_s),
                    short(one.kernel.name)
                    + (f" by {one.kernel.operator}" if one.kernel.operator else ""),
                )
                for number, one in enumerate(kept[:_SHOWN], 1)
            ],
        )
        whole = "GPU time" if found.program.span_s is None else "the run, first to last kernel"
        yield Prose(
            f"at most: of {whole}, if the kernel came down to its floor; where headroom is UNKNOWN,"
            " if it vanished"
        )
        if (found.program.idle_share or 0.0) > _MOSTLY:
            yield Prose(
                "GPUs were idle for most of that time: fewer launches, CUDA graphs or torch.compile"
                " come before any kernel"
            )
        shapes = any(one.kernel.least_bytes is not None for one in found.prospects)
        if found.program.tool == "torch.profiler" and not shapes:
            yield Prose("for headroom, trace with record_shapes=True: floors follow from shapes")
        yield ""
        for number, one in enumerate(kept[:_SHOWN], 1):
            yield f"[{number}] {one.next}"
    if dropped:
        yield ""
        yield Prose(f"dropped: {_sums(dropped)}")
        yield Table(
            ("GPU time", "dropped for", "kernel"),
            [
                (fmt.percent(one.kernel.share), one.dropped or "", short(one.kernel.name))
                for one in dropped[:_SHOWN]
            ],
        )
    if (more := max(0, len(kept) - _SHOWN) + max(0, len(dropped) - _SHOWN)) > 0:
        yield f"{plural(more, 'kernel')} more with --json"


def analysis(found: TracedProgram) -> Blocks:
    """Every kernel of a run with what it takes, the hottest first."""
    yield from _head(found)
    yield ""
    rows = [(*kernel_table.cells(one), short(one.name)) for one in found.kernels[:_SHOWN]]
    yield Table((*kernel_table.HEADERS, "kernel"), rows)
    for kernel in found.kernels[:_SHOWN]:
        if kernel.hotspots:
            yield from ["", f"{short(kernel.name)}: waves wait longest at"]
            for spot in kernel.hotspots[:5]:
                where = f"  ({spot.source})" if spot.source else ""
                yield f"  {fmt.percent(spot.stall_share)}  {spot.instruction}{where}"


def _sums(dropped: Sequence[Prospect]) -> str:
    """`61% of GPU time in a library's kernels, 2% below the least share`."""
    shares: dict[str, float] = {}
    for one in dropped:
        reason = (one.dropped or "").partition(" (")[0].partition(":")[0]
        shares[reason] = shares.get(reason, 0.0) + one.kernel.share
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{fmt.percent(share)} of GPU time: {reason}" for reason, share in ranked)


def _head(found: TracedProgram) -> Blocks:
    where = f" on {found.device}" if found.device else ""
    many = f", {found.devices} GPUs" if found.devices > 1 else ""
    took = f"{plural(len(found.kernels), 'kernel')}, {fmt.time(found.time_s)} of GPU time"
    yield f"{found.tool}{where}{many}: {took}"
    if found.span_s is not None:
        yield (
            f"{fmt.time(found.span_s)} from the first to the last of them, of which GPUs were idle"
            f" {fmt.percent(found.idle_share)}"
        )


def short(name: str) -> str:
    """A kernel's name, cut where template arguments make it long."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
