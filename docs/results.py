"""docs/results.md: naive kernels beside what came of them and what libraries do, on GPUs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from results_plot import shares_of_the_floor

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
sys.path.append(str(RESULTS.parent))  # scripts that are no package

from gpu import CASES, CaseResult, GpuBenchmark, Mark  # noqa: E402
from gpu_lineup import Timed  # noqa: E402
from problem_sets_record import ProblemSets, SetProblem  # noqa: E402
from search import SEARCHES, SearchFigure  # noqa: E402
from unseen_record import Unseen  # noqa: E402

_HEAD = """\
# Results on GPUs

What `roofsmith optimize` made of naive kernels without any model, beside eager PyTorch,
`torch.compile` with `max-autotune` and the fastest of the vendor's libraries: medians in
microseconds, all timed in one process per workload in random turns, each call after the L2 was
written over. The floor is what the workload's bytes take at the bandwidth of a measured copy, or
its operations at the rate of a large matrix product of cuBLAS in that format, whichever is longer.
TF32 counts as another format than float32; more than 100% is float32 accuracy from products of
three TF32 parts. The linked file holds every sample, each campaign's rounds and the kernel that it
ended with; [benchmarks](../benchmarks/README.md) says how it is made.
"""
_WHY: Mapping[str, str] = {
    "triton-softmax": "A call is too short for memory to be at its rate all the time:"
    " multiprocessors have work for {sm_active_share:.0%} of the {duration_us:.0f} us that ncu"
    " counts, and {waves_per_sm:.1f} waves of blocks leave {tail_share:.0%} of their places empty."
    " Memory comes to {dram_throughput:.0%} of its peak over the whole, though every element is"
    " read and written once.",
    "triton-sgemm": "Hopper's instruction takes TF32 operands with K in a row alone, so every tile"
    " of B is turned in shared memory before it: warps wait at barriers for"
    " {stall_barrier_share:.0%} of their time, {shared_bank_conflict_share:.0%} of the passes"
    " through shared memory are repeats, and tensor cores are busy for {tensor_pipe:.0%} of the"
    " time.",
}
"""Of a case that misses its mark: the counters of its final kernel that say why."""
_NAMES = ("naive", "optimized", "eager", "compile")
_OTHER_FORMAT = "cublas-tf32"
"""Of the vendor's, beside float32: a floor in TF32 takes it."""


def summary(folder: Path = RESULTS) -> str:
    """The first record's largest workloads, for README.md; empty without a record."""
    paths = sorted(folder.glob("gpu-*.json"))
    if not paths:
        return ""
    found = GpuBenchmark.model_validate_json(paths[0].read_text(encoding="utf-8"))
    rows = ["| µs | naive | roofsmith | others |", "|---|---|---|---|"]
    for case in found.cases:
        if case.timed and "optimized" in (us := medians(case.timed[-1])):
            given = {"eager": us.get("eager"), "compile": us.get("compile"), **libraries(case, us)}
            best = min(one for one in given.values() if one is not None)
            size = _by(case.timed[-1])
            times = (f"{one:.0f}" for one in (us["naive"], us["optimized"], best))
            rows.append(f"|{'|'.join((f'{case.case} {size}', *times))}|")
    return "\n".join(rows) + "\n"


def page(folder: Path = RESULTS) -> str | None:
    """The whole page; None without a record."""
    parts = [section(path) for path in sorted(folder.glob("gpu-*.json"))]
    parts += [unseen(path) for path in sorted(folder.glob("unseen-*.json"))]
    parts += [problem_sets(path) for path in sorted(folder.glob("problem-sets*.json"))]
    parts += [searches(path) for path in sorted(folder.glob("search-*.json"))]
    parts += [memory(sorted(folder.glob("experience*.json")))]
    return "\n".join((_HEAD, *parts)) if parts else None


def section(path: Path) -> str:
    """Of one record."""
    found = GpuBenchmark.model_validate_json(path.read_text(encoding="utf-8"))
    device = found.made.environment.device.name
    lines = [
        f"## {device}\n",
        f"[{path.name}](../benchmarks/results/{path.name}), {found.made.started[:10]}.\n",
        f"![Share of the floor that each contender reaches]({path.stem}.svg)\n",
        "| case | size | naive | optimized | eager | compile | library | floor | of the floor |",
        "|---|---|---|---|---|---|---|---|---|",
        *(row(case, timed) for case in found.cases for timed in case.timed),
    ]
    lines += ["", *_campaigns(found.cases)]
    if missed := list(misses(found.cases)):
        lines += ["", "Not reached:", "", *missed]
    return "\n".join(lines) + "\n"


OPENED = frozenset((
    "c-bilinear-resize", "c-column-cumulative-sum", "c-depthwise-convolution", "c-jacobi-sweeps",
    "c-layer-norm-backward", "c-nearest-code", "cuda-causal-attention", "cuda-column-variance",
    "cuda-cross-entropy-gradient", "cuda-depthwise-convolution", "cuda-group-norm",
    "cuda-linear-silu", "cuda-residual-rms-norm", "cuda-transpose-cast",
))  # fmt: skip
"""Unseen kernels whose first campaign was looked at, and what it lacked mended."""


def unseen(path: Path) -> str:
    """Of one record of kernels that no idea was written for."""
    found = Unseen.model_validate_json(path.read_text(encoding="utf-8"))
    lines = [
        f"## Kernels that no idea was written for, {found.made.environment.device.name}\n",
        'Naive kernels whose authors didn\'t know what is tried ("opened": a first campaign was '
        "looked at, and what was missing for any such kernel mended before this one), "
        f"{found.budget_s:.0f} s each, run "
        "once and published as they came out "
        f"([{path.name}](../benchmarks/results/{path.name}), {found.made.started[:10]}); beside "
        "each workload the fastest of eager PyTorch, `torch.compile` and libraries, in "
        "microseconds.\n",
        "| kernel | workload | naive | optimized | the best other | of its speed |",
        "|---|---|---|---|---|---|",
    ]
    for kernel in found.kernels:
        for one in kernel.workloads:
            best = one.library.time_s if one.library else None
            share = one.share(one.final_s)
            cells = (
                kernel.name.partition("-")[2] + " (opened)" * (kernel.name in OPENED),
                one.workload, f"{one.baseline_s * 1e6:.0f}",
                f"{one.final_s * 1e6:.0f}", "UNKNOWN" if best is None else f"{best * 1e6:.0f}",
                "UNKNOWN" if share is None else f"{share:.0%}",
            )  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    means = found.means
    if means.share is not None and means.share_before is not None and means.speedup is not None:
        lines.append(
            f"\nGeometric mean of {means.kernels}: {means.speedup:.1f}x, from "
            f"{means.share_before:.0%} to {means.share:.0%} of a good kernel's speed; the first "
            f"offer was right, and kept, in {means.first_kept}."
        )
    return "\n".join(lines) + "\n"


def problem_sets(path: Path) -> str:
    """Of one record of public problem sets."""
    found = ProblemSets.model_validate_json(path.read_text(encoding="utf-8"))
    sets: dict[str, list[SetProblem]] = {}
    for one in found.problems:
        sets.setdefault(one.set, []).append(one)
    lines = [
        f"## Public problem sets, {found.device}\n",
        "Problems as their authors publish them, imported with first kernels in Triton "
        f"([{path.name}](../benchmarks/results/{path.name}), {found.started[:10]}). Right: the "
        "judge saw the first kernel give the reference's results on every workload.\n",
        "| set | problems | right | wrong | not had |",
        "|---|---|---|---|---|",
    ]
    for name, problems in sets.items():
        counts = [sum(one.right is state for one in problems) for state in (True, False, None)]
        lines.append(f"| {' | '.join((name, *map(str, (len(problems), *counts))))} |")
    lines += [
        "",
        *(f"- {one.name}: {_cell(one.reason)}" for one in found.problems if not one.right),
        f"\nA campaign of {found.budget_s:.0f} s on some of them, without a model; the speedup is "
        "over the first kernel, and beside it over the faster of eager PyTorch and "
        "`torch.compile`.\n",
        "| problem | outcome | speedup | over PyTorch | of the roofline | rounds | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found.campaigns:
        cells = (
            row.problem, f"{row.verdict}{': ' * bool(row.reason)}{_cell(row.reason)}",
            _known(row.speedup, "{:.2f}x"), _known(row.over_pytorch, "{:.2f}x"),
            _known(row.roofline_fraction, "{:.0%}"), str(row.rounds), f"{row.seconds:.0f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    if found.operator:
        lines += ["\nA winner as a `torch-op`, installed into a fresh environment:\n"]
        lines += [f"- {name}: {_cell(str(said))}" for name, said in found.operator.items()]
    return "\n".join(lines) + "\n"


def _known(value: float | None, form: str) -> str:
    return "UNKNOWN" if value is None else form.format(value)


def _cell(text: str) -> str:
    """A reason in a line or a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def plots(folder: Path = RESULTS) -> Iterator[tuple[str, str]]:
    """File name and SVG of each record's plot."""
    for path in sorted(folder.glob("gpu-*.json")):
        found = GpuBenchmark.model_validate_json(path.read_text(encoding="utf-8"))
        rows = [_shares(case, timed) for case in found.cases for timed in case.timed]
        yield f"{path.stem}.svg", shares_of_the_floor(rows, found.made.environment.device.name)


def _shares(case: CaseResult, timed: Timed) -> tuple[str, dict[str, float]]:
    us = medians(timed)
    times = {name: us[name] for name in _NAMES if name in us}
    if others := libraries(case, us):
        times["library"] = min(others.values())
    floor_us = timed.floor_us(case.floor)
    return f"{case.case} {_by(timed)}", {name: floor_us / one for name, one in times.items()}


def row(case: CaseResult, timed: Timed) -> str:
    """One workload."""
    us = medians(timed)
    others = sorted((one, name) for name, one in libraries(case, us).items())
    library = f"{others[0][0]:.1f} ({others[0][1]})" if others else "-"
    floor_us = timed.floor_us(case.floor)
    best = us.get("optimized", us.get("naive"))
    size = _size(timed)
    times = (f"{us[name]:.1f}" if name in us else "-" for name in _NAMES)
    share = "-" if best is None else f"{floor_us / best:.0%}"
    cells = (case.case, size, *times, library, f"{floor_us:.1f}", share)
    return f"| {' | '.join(cells)} |"


def misses(cases: Sequence[CaseResult]) -> Iterator[str]:
    """A paragraph of every case with a workload that takes longer than was asked."""
    for case in cases:
        short = [
            f"{_size(timed)}: {us:.1f} us where {reference * mark.times:.1f} are asked,"
            f" {_ASKED[mark.beside].format(times=mark.times, rate=1 / mark.times)}"
            for timed in case.timed
            for mark in CASES[case.case].marks
            if mark.size is None or {mark.size} == set(timed.dims.values())
            if (us := medians(timed).get("optimized")) is not None
            if (reference := _beside(case, timed, mark)) is not None
            if us > reference * mark.times
        ]
        if short:
            yield f"- {case.case}, {'; '.join(short)}.{_why(case)}"


_ASKED = {
    "floor": "{times:.2f} times the floor",
    "compile": "{rate:.0%} of the compiler's rate",
    "library": "{rate:.0%} of the library's rate",
    "us": "on this GPU",
}


def _beside(case: CaseResult, timed: Timed, mark: Mark) -> float | None:
    us = medians(timed)
    match mark.beside:
        case "floor":
            return timed.floor_us(case.floor)
        case "compile":
            return us.get("compile")
        case "library":
            return min(libraries(case, us).values(), default=None)
        case "us":
            return 1.0


def _why(case: CaseResult) -> str:
    counters = case.campaign.counters if case.campaign is not None else {}
    if case.case not in _WHY or not counters:
        return ""
    return " " + _WHY[case.case].format(**counters, duration_us=1e6 * counters["duration_s"])


def _by(timed: Timed) -> str:
    return "x".join(str(n) for n in timed.dims.values())


def _size(timed: Timed) -> str:
    return " ".join(f"{name}={value}" for name, value in timed.dims.items())


def medians(timed: Timed) -> dict[str, float]:
    """Microseconds of every contender that ran."""
    return {one.name: one.median_us for one in timed.contenders if one.median_us is not None}


def libraries(case: CaseResult, us: Mapping[str, float]) -> dict[str, float]:
    """The vendor's among them, in the case's own number format."""
    unfair = () if case.floor == "tf32" else (_OTHER_FORMAT,)
    return {name: one for name, one in us.items() if name not in (*_NAMES, *unfair)}


def searches(path: Path) -> str:
    """How many settings each search looks at."""
    found = SearchFigure.model_validate_json(path.read_text(encoding="utf-8"))
    rows = []
    for table in found.tables:
        looks = {one.search: median(one.looks) for one in found.replays if one.space == table.space}
        counts = (f"{looks[name]:g}" for name in (*SEARCHES, "all"))
        rows.append(f"| {table.space} | {' | '.join(counts)} |")
    return "\n".join(
        [
            "## What a sweep looks at\n",
            "Settings that a search builds and times until it has one within 2% of the best of all:"
            " medians of 25 seeds, replayed on times of every setting"
            f" ([{path.name}](../benchmarks/results/{path.name}), {found.tables[0].on}). TPE is"
            " Optuna's as it comes, one setting after another; the sweep takes as many at once as"
            " compile side by side. `triton.autotune` times all.\n",
            "| kernel | sweep | TPE | random | all |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def memory(paths: Sequence[Path]) -> str:
    """What campaigns save that follow earlier ones."""
    rows = []
    for path in paths:
        found = json.loads(path.read_text(encoding="utf-8"))
        of, (low, high) = found["summary"], found["summary"]["final_ratio_ci"]
        counts = [of[name] for name in ("campaigns", "rounds_without", "rounds_with")]
        record = (
            f"[{path.name}](../benchmarks/results/{path.name}), {found['made']['started'][:16]}"
        )
        final = f"{of['final_ratio']:.3f} [{low:.3f}, {high:.3f}]"
        cells = (record, *counts, f"{-of['fewer']:+.0%}", of["least_rounds"], final)
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(
        [
            "## What following earlier campaigns saves\n",
            "Rounds of kernels in C to 95% of their final speedup, without, and with the rounds of"
            " all other kernels; then those without in the best order of the same changes, and the"
            " final speedup with over that without. 30% fewer was the aim, so no"
            " campaign follows earlier ones"
            " ([experience.md](experience.md#what-following-it-saved)).\n",
            "| record | kernels | without | with | | at the least | final speedup |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _campaigns(cases: Sequence[CaseResult]) -> Iterator[str]:
    for case in cases:
        if (ran := case.campaign) is not None:
            kept = [one.tactic for one in ran.rounds if one.decision == "kept"]
            did = ", ".join(kept) or "nothing"
            rounds = f"{len(ran.rounds)} round{'s' * (len(ran.rounds) != 1)}"
            yield f"- {case.case}: {rounds} in {ran.wall_s:.0f} s; kept {did}"
        yield from (f"- {case.case}: {why.splitlines()[-1]}" for why in case.failed)
