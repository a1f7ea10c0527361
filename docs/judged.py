"""The judge's numbers for docs/judge.md, read from the code that sets them."""

from __future__ import annotations

from collections.abc import Mapping

from roofsmith.analysis import clock, compare, roofline, tolerance
from roofsmith.analysis.statistics import least_observations
from roofsmith.domain.target import KeepPolicy, default_keep
from roofsmith.judge import patience
from roofsmith.judge.correctness import (
    budgets,
    checking,
    conditioning,
    diagnosis,
    examiner,
    rounding,
)
from roofsmith.judge.correctness import hidden_workloads as hidden
from roofsmith.judge.correctness import low_precision_inputs as narrow_inputs
from roofsmith.judge.correctness import sampled_blocks as stretches
from roofsmith.judge.gpu import lineup as gpu_lineup
from roofsmith.judge.host import arena, lineup, process
from roofsmith.judge.timing import bench, segment
from roofsmith.judge.timing import decoys as mixing
from roofsmith.profilers import sanitizer

_KEEP, _GPU_KEEP = KeepPolicy(), default_keep("cuda")
_CPU, _GPU = lineup.HostBench, gpu_lineup.GpuBench


def constants() -> str:
    """A list per subject: what a number is, and its value."""
    subjects = {"Correctness": _correctness(), "Timing": _timing(), "Limits": _limits()}
    return "\n".join(
        f"{title}:\n\n" + "".join(f"- {what}: {value}\n" for what, value in rows.items())
        for title, rows in subjects.items()
    )


def _correctness() -> Mapping[str, str]:
    return {
        "draws before anything is timed": f"{examiner.CHECKS}; of a candidate's on"
        f" {_power(examiner.DEAR_ELEMENTS)} elements 1; of a baseline up to"
        f" {examiner.CHECKS + examiner.RATE_DRAWS}, in {_time(examiner.RATE_S)}",
        "elements compared then": _power(checking.FULL_ELEMENTS),
        "of a timed call": _power(stretches.SPOT_ELEMENTS),
        "cap of a guessed *n*": _power(budgets.LONGEST_AXIS),
        "λ, and the floors in ε": f"{tolerance.SUMMATION_FACTOR:g}; norm-wise "
        f"{tolerance.NORM_FLOOR_EPS:g}, element-wise {tolerance.ELEMENT_FLOOR_EPS:g}",
        "honest error that rules a distribution out": f"{conditioning.LOST:g} times own draws'",
        "time on other distributions": f"{_time(examiner.OTHERS_S)} a workload beside those that "
        f"come always; of a winner {_time(examiner.WINNERS_S)}",
        "more draws on which the incumbent is tried": f"{examiner.SECOND_LOOKS}",
        "workloads near the given ones": f"{_CPU.near_workloads}, on a GPU "
        f"{_GPU.near_workloads}; divisors of {hidden.UNIT}",
        "moved inputs": f"up to {max(rounding.HALF_UNITS):g} half units, {rounding.JOLTS} ways",
        "nearer to a narrower type's result": f"by a factor of {1 / diagnosis.CLOSER:g}",
        "errors searched for narrow operands": f"{narrow_inputs.FAR_SHARE:g} `error_factor` "
        f"times *h*, on {narrow_inputs.DRAWS} draws",
        "turns with decoy inputs": f"1 in {mixing.ONE_IN}, {mixing.MIXED_SHARE:.0%} of the time",
        "alignment, least guard band": f"{arena.ALIGNMENT_BYTES}, {arena.GUARD_BYTES} bytes",
    }


def _timing() -> Mapping[str, str]:
    first, least = map(least_observations, (_KEEP.first.error_rate, _KEEP.error_rate))
    return {
        "segment": f"{_time(lineup.SEGMENT_S)}, 1 to {lineup.MAX_CALLS} calls",
        "kernels with a discarded call": f"below {_time(lineup.WARM_S)}",
        "wait that widens a pair": f"{_time(clock.MESSAGES_S)} plus {segment.MAX_WAIT_SHARE:.0%}",
        "void pairs that undo a win": f"more than {compare.DISTURBED_SHARE:.0%}",
        "rounds before processes are replaced": f"{_CPU.sweeps_per_instance}, on a GPU "
        f"{gpu_lineup.SWEEPS_PER_INSTANCE}",
        "error rate per side, `keep.error_rate`": f"{_KEEP.error_rate:g}; of a first measurement "
        f"{_KEEP.first.error_rate:g}",
        "no gain is in sight": f"at {patience.FUTILE_ERROR_RATE:g}",
        "noise band, `keep.noise_band`": f"±{_KEEP.noise_band:.0%}, on a GPU "
        f"±{_GPU_KEEP.noise_band:.1%}",
        "veto of a workload, `keep.veto_slowdown`": f"{_KEEP.veto_slowdown:.0%}",
        "pairs that can decide": f"{first}, then {least}; undecided {patience.PATIENCE * first}, "
        f"then {patience.PATIENCE * least}, with a win in "
        f"doubt {patience.DOUBTING_PATIENCE * least}, beyond the band "
        f"{patience.LEANING_PATIENCE * least}",
        "longest measurement": f"{_time(patience.LONGEST_S)}, if disturbed "
        f"{patience.OVERTIME_FACTOR:g} budgets",
        "long segments": f"{_time(bench.CLOCK_S)}, on a CPU {_time(lineup.LONGEST_CLOCK_S)}, at "
        f"most {bench.MAX_CLOCK_CALLS} calls or {_time(bench.LONGEST_SIDE_S)}",
        "the judge's own clock": f"{clock.CLOCK_ERROR_RATE:.0%} per side, {_pairs(1)} to "
        f"{_pairs(clock.MOST_FACTOR)} pairs",
        "missing gain that is forged, or doubted": f"{clock.FORGED_SHARE:.0%} and at least "
        f"{clock.SLACK:.0%}; {clock.SLACK_SHARE:.0%}",
        "floor": f"{roofline.CLOCKED_FLOOR_MARGIN:.0%} below for arithmetic and caches, "
        f"{roofline.FLOOR_MARGIN:.0%} for memory",
    }


def _limits() -> Mapping[str, str]:
    return {
        "a call": f"{_time(_CPU.first_deadline_s)} until a kernel has passed, then "
        f"{examiner.DEADLINE_FACTOR:g} times the slowest, at least "
        f"{_time(examiner.LEAST_DEADLINE_S)}",
        "a worker's start": _time(process.START_DEADLINE_S),
        "a sanitizer": _time(sanitizer.TOOL_DEADLINE_S),
        "a file, memory": f"{process.MAX_FILE_BYTES // 2**20} MiB, "
        f"{process.MEMORY_SHARE:.0%} of the machine's, or what `ulimit -v`, a control group, Slurm "
        "or PBS grant",
    }


def _pairs(factor: int) -> int:
    return factor * least_observations(clock.CLOCK_ERROR_RATE)


def _power(number: int) -> str:
    exponent = number.bit_length() - 1
    assert number == 2**exponent
    return "2" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(exponent))


def _time(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 0.1 else f"{seconds * 1e3:g} ms"
