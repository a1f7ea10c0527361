"""How near the limit naive kernels for a GPU come, beside what PyTorch and its libraries do.

    python benchmarks/gpu.py --budget 120 --out benchmarks/results/gpu-h100.json

Runs `roofsmith optimize` on every case's naive kernel, then times that kernel, the optimized one,
eager PyTorch, torch.compile with max-autotune and the vendor's library on the same inputs in one
process (`gpu_side_by_side.py`). What is finished is written at once; the same command goes on with
the cases that its file lacks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from gpu_lineup import Lineup, Timed
from result_file import Made, made_now, say, write
from roofsmith.domain.campaign import Campaign, Event, replay
from roofsmith.domain.target import Target
from roofsmith.domain.values import Value
from roofsmith.engine.records import held_profile
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.store.ledger import JsonlLedger
from roofsmith.targets.file import load_target

ROOT = Path(__file__).resolve().parents[1]
OWN = "benchmarks/gpu_cases"
SPARE_S = 150.0
"""For the end of a campaign beyond its budget: the last measurements and the report."""
TIMING_S = 100.0
"""For one workload side by side; torch.compile tries its templates in it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How long the optimized kernel may take at most."""

    beside: Literal["floor", "compile", "library", "us"]
    times: float
    """Of that one's time, or microseconds."""
    size: int | None = None
    """Where every dimension is that; None: on all workloads."""


@dataclass(frozen=True, slots=True)
class Case:
    """A naive kernel, and what it stands beside."""

    target: str
    floor: str | None
    """Number format of the products that bound it; None: a copy's bandwidth does."""
    library: str | None = None
    """Of `gpu_side_by_side`; None: the reference calls it."""
    marks: tuple[Mark, ...] = ()
    """What is asked of the optimized kernel."""
    compiles: bool = True
    """Whether torch.compile stands beside; it has another graph for every size that it is told."""


NEAR = (Mark("floor", 1.08), Mark("compile", 1.0))
FUSED = (Mark("floor", 1.1), Mark("compile", 1.0))
NINE_TENTHS = (Mark("library", 1 / 0.9),)
CASES: Mapping[str, Case] = {
    "cuda-softmax": Case("examples/cuda/softmax/naive.yaml", None, marks=NEAR),
    "triton-softmax": Case("examples/triton/softmax/naive.yaml", None, marks=NEAR[:1]),
    "cuda-sgemm": Case("examples/cuda/sgemm", "float32", "gemm", (Mark("library", 1.0),)),
    "triton-sgemm": Case(
        "examples/triton/sgemm", "tf32", "gemm",
        (Mark("library", 1 / 0.8, 1024), Mark("library", 1 / 0.9, 4096)),
    ),
    "cuda-attention": Case(
        "examples/cuda/attention", "float32", "attention", (Mark("library", 1.0),)
    ),
    "triton-attention": Case("examples/triton/attention", "float32", "attention"),
    "triton-attention-tf32": Case(
        "examples/triton/attention/tf32.yaml", "tf32", "attention", (Mark("us", 40.0),)
    ),
    "gemm-bf16": Case(f"{OWN}/gemm_bf16", "bfloat16", "gemm", NINE_TENTHS),
    "cuda-gemm-bf16": Case(
        f"{OWN}/gemm_bf16/cuda.yaml", "bfloat16", "gemm", NINE_TENTHS
    ),
    "grouped-gemm": Case(
        f"{OWN}/grouped_gemm", "bfloat16", "grouped gemm", (Mark("library", 1 / 0.85),),
        compiles=False,
    ),
    "causal-attention": Case(
        f"{OWN}/causal_attention", "bfloat16", "attention", (Mark("library", 1 / 0.85),)
    ),
    "residual-rmsnorm": Case(f"{OWN}/residual_rmsnorm", None, marks=FUSED),
    "cross-entropy": Case(f"{OWN}/cross_entropy", None, marks=FUSED),
    "fp8-quantisation": Case(f"{OWN}/fp8_quantisation", None),
}  # fmt: skip


class RoundRow(Value):
    """One round of a campaign."""

    round: int
    tactic: str
    proposer: str
    outcome: str
    verdict: str
    decision: str
    total_speedup: float
    wall_s: float


class CampaignSummary(Value):
    """What a campaign came to, from its ledger."""

    ledger: str
    budget_s: float
    wall_s: float
    stopped: str | None
    """None: it was killed."""
    claimed_speedup: float | None
    rounds: tuple[RoundRow, ...]
    kernel: str
    """Source of the kernel that it ended with."""
    flags: tuple[str, ...]
    judge: str = ""
    """Its version; empty: the file's."""
    counters: dict[str, float] = Field(default_factory=dict)
    """Of its profile, by the vocabulary's names; empty in older files."""


class CaseResult(Value):
    """One case; what failed is empty, and says why."""

    case: str
    floor: str | None
    campaign: CampaignSummary | None = None
    timed: tuple[Timed, ...] = ()
    failed: tuple[str, ...] = ()


class GpuBenchmark(Value):
    """A result file."""

    made: Made
    judge: str
    """Of the first case; a campaign names its own."""
    cases: tuple[CaseResult, ...] = ()

    def with_case(self, found: CaseResult) -> GpuBenchmark:
        """With a case's newest state."""
        kept = (one for one in self.cases if one.case != found.case)
        return self.model_copy(update={"cases": (*kept, found)})


def run(options: argparse.Namespace) -> GpuBenchmark:
    """Every case that was asked for and isn't in the file yet."""
    result = earlier(options.out)
    for name in options.case or CASES:
        if any(one.case == name and one.timed for one in result.cases):
            say(f"{name}: is in {options.out}")
            continue
        if options.limit_s is not None and time.monotonic() > options.limit_s:
            say(f"{name}: no time is left")
            continue
        case = CASES[name]
        target = load_target(ROOT / case.target)
        found = next((one for one in result.cases if one.case == name), None)
        found = found or CaseResult(case=name, floor=case.floor)
        place = options.keep / name
        if options.budget > 0 and found.campaign is None:
            found = optimized(found, case, place, options)
            write(result := result.with_case(found), options.out)
        for one in lineups(target, case, found, place):
            found = side_by_side(found, one)
            write(result := result.with_case(found), options.out)
        print("\n".join(lines(found)), flush=True)
    return result


def earlier(path: Path) -> GpuBenchmark:
    """What the file holds already, if it is of this machine."""
    result = GpuBenchmark(
        made=made_now(source_for("cuda").environment()), judge=judge_version(), cases=()
    )
    if not path.exists():
        return result
    known = GpuBenchmark.model_validate_json(path.read_text(encoding="utf-8"))
    device = result.made.environment.device
    if known.made.environment.device.name != device.name:
        raise SystemExit(f"{path} is of another GPU: name another file with --out")
    return known


def optimized(
    found: CaseResult, case: Case, place: Path, options: argparse.Namespace
) -> CaseResult:
    """With a campaign from the naive kernel."""
    shutil.rmtree(place, ignore_errors=True)
    command = [
        sys.executable, "-m", "roofsmith", "optimize", str(ROOT / case.target),
        "--budget-s", str(options.budget), "--output", str(place / "campaign"),
    ]  # fmt: skip
    command += ["--proposer", options.proposer] if options.proposer else []
    say(f"{found.case}: {shlex.join(command[2:])}")
    begin, why = time.monotonic(), None
    try:
        done = subprocess.run(
            command, timeout=options.budget + SPARE_S, capture_output=True, text=True, check=False
        )
        why = None if done.returncode == 0 else f"optimize: {done.stderr.strip()[-400:]}"
    except subprocess.TimeoutExpired:
        why = f"optimize: killed after {options.budget + SPARE_S:.0f} s"
    ledger = place / "campaign" / "ledger.jsonl"
    events = JsonlLedger(ledger).events() if ledger.exists() else []
    update = {
        "campaign": summary(events, ledger, options.budget, time.monotonic() - begin),
        "failed": (*found.failed, *([why] if why else [])),
    }
    return found.model_copy(update=update)


def summary(
    events: list[Event], ledger: Path, budget_s: float, wall_s: float
) -> CampaignSummary | None:
    """Of a ledger; None without a baseline."""
    campaign = replay(events)
    if campaign is None or campaign.baseline is None:
        return None
    incumbent, stopped = campaign.incumbent, campaign.stopped
    return CampaignSummary(
        ledger=os.path.relpath(ledger, ROOT) if ledger.is_relative_to(ROOT) else str(ledger),
        budget_s=budget_s,
        wall_s=wall_s,
        stopped=f"{stopped.code}: {stopped.detail}" if stopped else None,
        claimed_speedup=campaign.total_speedup,
        rounds=_rounds(campaign),
        kernel=incumbent.kernel.text,
        flags=incumbent.build.flags,
        judge=judge_version(),
        counters={one.name: one.value for one in held_profile(campaign)[0].counters},
    )


def _rounds(campaign: Campaign) -> tuple[RoundRow, ...]:
    return tuple(
        RoundRow(
            round=one.round,
            tactic=one.hypothesis.tactic,
            proposer=one.proposer,
            outcome=one.judgement.outcome.kind,
            verdict=one.judgement.verdict,
            decision=one.decision.kind,
            total_speedup=one.total_speedup,
            wall_s=one.wall_s,
        )
        for one in campaign.rounds
    )


def lineups(target: Target, case: Case, found: CaseResult, place: Path) -> list[Lineup]:
    """What is timed side by side, a workload each."""
    assert target.reference is not None, "no case is a repository"
    folder = ROOT / case.target
    folder = folder if folder.is_dir() else folder.parent
    kernels = {"naive": folder / target.kernel.path}
    flags = {"naive": target.build.flags}
    if found.campaign is not None:
        place.mkdir(parents=True, exist_ok=True)
        final = place / f"optimized{kernels['naive'].suffix}"
        final.write_text(found.campaign.kernel, encoding="utf-8")
        kernels["optimized"], flags["optimized"] = final, found.campaign.flags
    return [
        Lineup(
            reference=folder / target.reference.path,
            kernels=kernels,
            flags=flags,
            library=case.library,
            dims=dict(workload.dims),
            tf32=target.tf32,
            compiles=case.compiles,
        )
        for workload in target.workloads
    ]


def side_by_side(found: CaseResult, lineup: Lineup) -> CaseResult:
    """With one workload timed, in a process of its own."""
    program = [sys.executable, str(Path(__file__).with_name("gpu_side_by_side.py"))]
    say(f"{found.case}: {lineup.dims}, side by side")
    try:
        done = subprocess.run(
            program,
            input=lineup.model_dump_json(),
            timeout=TIMING_S,
            capture_output=True,
            text=True,
            check=True,
        )
        printed = done.stdout.strip().splitlines()[-1]
        return found.model_copy(
            update={"timed": (*found.timed, Timed.model_validate_json(printed))}
        )
    except subprocess.TimeoutExpired:
        why = f"{lineup.dims}: not timed within {TIMING_S:.0f} s"
        if lineup.compiles:  # the others don't go without their times for it
            found = found.model_copy(update={"failed": (*found.failed, f"{why} with compile")})
            return side_by_side(found, lineup.model_copy(update={"compiles": False}))
    except subprocess.CalledProcessError as error:
        why = f"{lineup.dims}: {error.stderr.strip()[-400:]}"
    return found.model_copy(update={"failed": (*found.failed, why)})


def lines(found: CaseResult) -> list[str]:
    """A case for people."""
    told = [f"{found.case}: {why}" for why in found.failed]
    for timed in found.timed:
        floor_us = timed.floor_us(found.floor)
        size = ",".join(f"{name}={value}" for name, value in timed.dims.items())
        told.append(f"{found.case} {size}: floor {floor_us:.1f} us")
        for one in timed.contenders:
            what = one.failed or (
                f"{one.median_us:9.1f} us, {floor_us / (one.median_us or 1):4.0%} of the floor,"
                f" error {one.error:.1e}"
            )
            told.append(f"  {one.name:16} {what}")
    return told


def main() -> None:
    """Measure, print, and write the record."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("--case", nargs="+", choices=list(CASES), help="by default all")
    made.add_argument("--budget", type=float, default=120.0, help="seconds; 0: no campaigns")
    made.add_argument("--proposer", help="as of `roofsmith optimize`")
    made.add_argument("--limit-s", type=float, help="begin no case after so many seconds")
    made.add_argument("--keep", type=Path, default=ROOT / "campaigns" / "gpu")
    made.add_argument("--out", type=Path, required=True)
    options = made.parse_args()
    if options.limit_s is not None:
        options.limit_s += time.monotonic()
    options.keep = options.keep.absolute()
    run(options)


if __name__ == "__main__":
    main()
