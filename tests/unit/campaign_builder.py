"""A softmax campaign as a ledger would hold it: realistic, deterministic, made of real nouns.

`softmax_events()` is the whole story: baseline, two kept changes, a regression, a build failure, a
wrong result, a sweep that was kept, a comparison nobody could decide, the stop. `events_for(kinds)`
strings any kinds of rounds together, for property tests. Times and intervals are made up; nothing
here is a measurement.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from roofsmith.analysis.rulebook import RULES
from roofsmith.analysis.spending import spent_s
from roofsmith.domain.bound import Bound, CeilingPair, Cost, Count
from roofsmith.domain.campaign import (
    Baseline,
    Campaign,
    Decision,
    Event,
    Kept,
    Resumed,
    RolledBack,
    Round,
    Started,
    Stopped,
    replay,
)
from roofsmith.domain.comparison import (
    ClassComparison,
    Comparison,
    ErrorReport,
    Estimate,
    Judgement,
    PairSample,
    Timing,
    Verdict,
    WorkloadComparison,
)
from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.domain.ending import StopCode
from roofsmith.domain.facts import BandwidthCeiling, Citation, ComputeCeiling, Fact, FactSheet
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.outcome import BuildFailed, Incorrect, Outcome, Passed, Unstable
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Counter, Profile
from roofsmith.domain.proposal import Hypothesis, ScreenedPoint
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.stopping import Stop, end_checks

RoundKind = Literal[
    "kept", "regression", "tie", "inconclusive", "build_failed", "incorrect", "sweep"
]

WORKLOADS = (
    Workload(dims={"N": 4096, "D": 4096}),
    Workload(dims={"N": 1024, "D": 1024}),
    Workload(dims={"N": 64, "D": 32768}),
)
CLASSES = (
    ConfigClass(
        name="memory-resident",
        workloads=("N=4096,D=4096",),
        reason="128 MiB are moved, more than the last-level cache holds",
    ),
    ConfigClass(
        name="cache-resident",
        workloads=("N=1024,D=1024", "N=64,D=32768"),
        reason="the working set fits the last-level cache",
    ),
)
BASELINE_TIMES_S = {"N=4096,D=4096": 0.0584, "N=1024,D=1024": 2.91e-3, "N=64,D=32768": 5.63e-3}
FLOPS_PER_ELEMENT = 5.0

NAIVE = """\
// Softmax of every row of an N x D matrix, as a textbook writes it.
#include <math.h>

void solve(const float* input, float* output, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float* row = input + (long)i * D;
        float* result = output + (long)i * D;

        float largest = row[0];
        for (int j = 1; j < D; j++) {
            if (row[j] > largest) {
                largest = row[j];
            }
        }

        float sum = 0.0f;
        for (int j = 0; j < D; j++) {
            result[j] = expf(row[j] - largest);
            sum += result[j];
        }

        for (int j = 0; j < D; j++) {
            result[j] = result[j] / sum;
        }
    }
}
"""
FAST_EXP = """\
#include <stdint.h>

// exp(x) for x <= 0: 2^n times a polynomial on [-ln2/2, ln2/2]; 2 ulp, no branch, no call.
static inline float exp_nonpositive(float x) {
    x = x < -87.3f ? -87.3f : x;
    float n = __builtin_rintf(x * 1.44269504f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691e-4f;
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665795e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 5.0000001e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t i; float f; } scale = {((int32_t)n + 127) << 23};
    return p * scale.f;
}
"""
VECTOR_EXP = NAIVE.replace("#include <math.h>\n", FAST_EXP).replace(
    "expf(row[j] - largest)", "exp_nonpositive(row[j] - largest)"
)
PARALLEL = VECTOR_EXP.replace(
    "    for (int i = 0; i < N; i++) {",
    "    #pragma omp parallel for\n    for (int i = 0; i < N; i++) {",
)
RECIPROCAL = PARALLEL.replace(
    "        for (int j = 0; j < D; j++) {\n            result[j] = result[j] / sum;",
    "        const float scale = 1.0f / sum;\n        #pragma GCC unroll 8\n"
    "        for (int j = 0; j < D; j++) {\n            result[j] = result[j] * scale;",
)


def candidate(text: str = NAIVE, *flags: str) -> Candidate:
    """A C kernel of one file, built with -O3 -march=native and `flags`."""
    spec = BuildSpec(flags=("-O3", "-march=native", *flags), environment={"OMP_NUM_THREADS": "2"})
    return Candidate(language="c", sources=(SourceFile(path="softmax.c", text=text),), build=spec)


def target(name: str = "softmax") -> Target:
    """The softmax target on three workloads of two classes."""
    return Target(
        name=name,
        language="c",
        kernel=SourceFile(path="softmax.c", text=NAIVE),
        reference=SourceFile(path="reference.py", text="def reference(**inputs): ...\n"),
        workloads=WORKLOADS,
        family="softmax",
        build=candidate().build,
        threads=2,
    )


def environment() -> Environment:
    """A two-core machine with AVX2."""
    device = Device(
        kind="cpu",
        name="AMD EPYC 7B13",
        cores=2,
        isa=("avx2", "fma", "sse4_2"),
        vector_bytes=32,
        caches=(
            Cache(level=1, kind="data", size_bytes=32 << 10, shared_by=2),
            Cache(level=2, kind="unified", size_bytes=512 << 10, shared_by=2),
            Cache(level=3, kind="unified", size_bytes=32 << 20, shared_by=16),
        ),
        memory_bytes=24 << 30,
    )
    return Environment(
        device=device,
        system="Linux 6.1.0, Debian GNU/Linux 12 (bookworm)",
        tools={"gcc": "gcc (Debian 12.2.0-14) 12.2.0", "git": "git version 2.39.5"},
        packages={"numpy": "2.3.1", "optuna": "4.4.0"},
        notes=("hardware counters are not permitted here (perf_event_paranoid=3)",),
    )


def fact_sheet() -> FactSheet:
    """Ceilings of that machine, and one that nobody could find."""
    measured = Citation(
        path="ceilings/5b3c.json",
        command="roofsmith specs show --threads 2",
        date="2026-04-12 09:58",
    )

    def bandwidth(bytes_: int, rate: float) -> BandwidthCeiling:
        fact = Fact(
            metric=f"copy bandwidth at {bytes_ >> 20} MiB, 2 threads",
            value=rate,
            unit="byte/s",
            citation=measured,
        )
        return BandwidthCeiling(pattern="copy", threads=2, working_set_bytes=bytes_, fact=fact)

    peak = Fact(
        metric="float32 FMA peak, 2 threads", value=1.98e11, unit="FLOP/s", citation=measured
    )
    return FactSheet(
        device_id=environment().device.id,
        bandwidth=(bandwidth(16 << 20, 5.12e10), bandwidth(256 << 20, 2.31e10)),
        compute=(ComputeCeiling(dtype="float32", threads=2, fact=peak),),
        other=(
            Fact(
                metric="L3 size",
                value=float(32 << 20),
                unit="byte",
                citation=Citation(path="/sys/devices/system/cpu/cpu0/cache/index3/size", line=1),
            ),
            Fact(
                metric="boost clock", value=None, unit="Hz", reason="the kernel doesn't export it"
            ),
        ),
    )


def bounds() -> tuple[Bound, ...]:
    """The roofline of every workload, worked out from the fact sheet."""
    return tuple(_bound(workload) for workload in WORKLOADS)


def _bound(workload: Workload) -> Bound:
    elements = workload.dims["N"] * workload.dims["D"]
    sheet = fact_sheet()
    in_cache = elements * 8 <= 32 << 20
    bandwidth = sheet.bandwidth[0 if in_cache else 1].fact
    peak = sheet.compute[0].fact
    assert bandwidth.value is not None
    assert peak.value is not None
    flops, moved = FLOPS_PER_ELEMENT * elements, 8.0 * elements
    return Bound(
        workload=workload.label,
        cost=Cost(
            flops=flops,
            read_bytes=moved / 2,
            written_bytes=moved / 2,
            dtype="float32",
            source="the reference's flops() and bytes()",
            counts=_counts(flops, moved),
        ),
        intensity=flops / moved,
        ridge=peak.value / bandwidth.value,
        limiter="memory",
        floor_time_s=max(moved / bandwidth.value, flops / peak.value),
        bandwidth=bandwidth,
        peak=peak,
        measured=CeilingPair(bandwidth=bandwidth, peak=peak),
        working_set="L3" if in_cache else "memory",
    )


def _counts(flops: float, moved: float) -> tuple[Count, ...]:
    """What the reference declares, and what family and arrays say."""
    formula, sizes = (
        "softmax family, 5 per element",
        "inputs once and outputs once, from the arrays",
    )
    said = "the reference's flops()"
    return (
        Count(quantity="flops", origin="declared", value=flops, detail=said, used=True),
        Count(quantity="flops", origin="family", value=flops, detail=formula),
        Count(quantity="bytes", origin="arrays", value=moved, detail=sizes, used=True),
    )


FLOORS_S = {bound.workload: bound.floor_time_s or math.nan for bound in bounds()}


def started(campaign: str = "softmax_c_epyc7b13_20260412") -> Started:
    """The first record."""
    return Started(
        campaign=campaign,
        target=target(),
        environment=environment(),
        facts=fact_sheet(),
        bounds=bounds(),
        classes=CLASSES,
        proposers=("recipes", "sweep"),
        at="2026-04-12 10:00:07",
        rules=RULES,
    )


def class_of(label: str) -> str:
    """The config class that a workload is in."""
    return next(c.name for c in CLASSES if label in c.workloads)


def timings(times_s: Mapping[str, float], seed: int = 1) -> tuple[Timing, ...]:
    """A kernel on its own: 15 samples with 1% of noise per workload."""
    noise = random.Random(seed)
    made = []
    for workload in WORKLOADS:
        time_s = times_s[workload.label]
        samples = tuple(time_s * math.exp(noise.gauss(0, 0.01)) for _ in range(15))
        made.append(
            Timing(
                workload=workload.label,
                dims=workload.dims,
                config_class=class_of(workload.label),
                time_s=median(samples),
                ci=(time_s * 0.994, time_s * 1.007),
                samples_s=samples,
                floor_time_s=FLOORS_S[workload.label],
            )
        )
    return tuple(made)


def errors(norm_error: float = 1.4e-7) -> tuple[ErrorReport, ...]:
    """How far the output of every workload is from the reference."""
    return tuple(
        ErrorReport(
            workload=workload.label,
            output="output",
            norm_error=norm_error,
            norm_budget=9.1e-7,
            element_error=norm_error * 3.1,
            element_budget=4.4e-6,
            honest_norm_error=9.1e-8,
            honest_element_error=4.4e-7,
        )
        for workload in WORKLOADS
    )


def estimate(speedup: float, half_width: float = 0.012, verdict: Verdict | None = None) -> Estimate:
    """A ratio with a symmetric interval on the log scale; its verdict follows, unless given."""
    low, high = speedup * math.exp(-half_width), speedup * math.exp(half_width)
    if verdict is None:
        verdict = "faster" if low > 1.01 else "slower" if high < 0.99 else "tie"
    return Estimate(speedup=speedup, ci=(low, high), pairs=24, verdict=verdict)


def compare(
    incumbent_s: Mapping[str, float],
    candidate_s: Mapping[str, float],
    *,
    half_width: float = 0.012,
    verdict: Verdict | None = None,
) -> Comparison:
    """The comparison that follows from two kernels' times."""
    ratios = {label: incumbent_s[label] / candidate_s[label] for label in incumbent_s}

    def over(labels: Sequence[str]) -> Estimate:
        mean = math.exp(sum(math.log(ratios[label]) for label in labels) / len(labels))
        return estimate(mean, half_width, verdict)

    return Comparison(
        overall=over([workload.label for workload in WORKLOADS]),
        classes=tuple(
            ClassComparison(config_class=c.name, estimate=over(c.workloads)) for c in CLASSES
        ),
        workloads=tuple(
            WorkloadComparison(
                dims=workload.dims,
                workload=workload.label,
                config_class=class_of(workload.label),
                estimate=estimate(ratios[workload.label], half_width * 1.4, verdict),
                candidate_time_s=candidate_s[workload.label],
                incumbent_time_s=incumbent_s[workload.label],
                floor_time_s=FLOORS_S[workload.label],
            )
            for workload in WORKLOADS
        ),
    )


def samples(
    incumbent_s: Mapping[str, float], candidate_s: Mapping[str, float], seed: int
) -> tuple[PairSample, ...]:
    """A few raw pairs, one of them disturbed."""
    noise = random.Random(seed)
    return tuple(
        PairSample(
            workload=workload.label,
            sweep=sweep,
            instance=0,
            first="incumbent" if noise.random() < 0.5 else "candidate",
            incumbent_time_s=(incumbent_s[workload.label] * math.exp(noise.gauss(0, 0.01)),),
            candidate_time_s=(candidate_s[workload.label] * math.exp(noise.gauss(0, 0.01)),),
            void="another process took the processor" if sweep == 2 else None,
        )
        for sweep in range(4)
        for workload in WORKLOADS
    )


def profile(ipc: float, vector_fraction: float) -> Profile:
    """Counters of one kernel."""
    return Profile(
        tool="valgrind",
        workload="N=64,D=1024",
        counters=(
            Counter(name="instructions", value=4.1e8 / vector_fraction, unit="1"),
            Counter(name="ipc", value=ipc, unit="1/cycle"),
            Counter(name="vector_fraction", value=vector_fraction, unit="1"),
            Counter(name="llc_miss_rate", value=0.031, unit="1"),
        ),
        notes=("perf: counters are not permitted; cachegrind ran on a reduced workload",),
    )


def bottleneck(kind: BottleneckKind, fraction: float | None) -> Bottleneck:
    """What limits a kernel, with two lines of evidence."""
    return Bottleneck(
        kind=kind,
        confidence=0.8,
        evidence=(
            f"{fraction or 0:.0%} of the memory roofline",
            "llc_miss_rate 3.1%, so memory is not what it waits for",
        ),
        roofline_fraction=fraction,
    )


def fraction_of(times_s: Mapping[str, float]) -> float:
    """Geometric mean of floor over time."""
    logs = [math.log(FLOORS_S[label] / time_s) for label, time_s in times_s.items()]
    return math.exp(sum(logs) / len(logs))


def baseline() -> Baseline:
    """Round 1."""
    return Baseline(
        candidate=target().baseline,
        outcome=Passed(detail="correct on 3 workloads"),
        timings=timings(BASELINE_TIMES_S),
        errors=errors(9.3e-8),
        profile=profile(1.1, 0.08),
        bottleneck=bottleneck("compute", fraction_of(BASELINE_TIMES_S)),
        commit="4f1c2aa09b7d",
        wall_s=9.4,
        kernel_s=9.1,
        at="2026-04-12 10:00:19",
    )


@dataclass
class Story:
    """Strings rounds together: holds the incumbent that the next round is compared with."""

    incumbent: Candidate
    times_s: dict[str, float]
    total: float = 1.0
    number: int = 1
    before: Candidate = field(default_factory=lambda: target().baseline)
    """The incumbent that the latest round was compared with."""

    @classmethod
    def begin(cls) -> Story:
        """Right after the baseline."""
        return cls(incumbent=target().baseline, times_s=dict(BASELINE_TIMES_S))

    def judged(
        self,
        hypothesis: Hypothesis,
        text: str,
        gains: Sequence[float],
        *,
        flags: Sequence[str] = (),
        half_width: float = 0.012,
        verdict: Verdict | None = None,
        screened: tuple[ScreenedPoint, ...] = (),
        seen: tuple[Profile, Bottleneck] | None = None,
    ) -> Round:
        """A round whose candidate passed: `gains` is the ratio per workload, in order."""
        trial = candidate(text, *flags)
        times_s = {
            label: time_s / gain
            for (label, time_s), gain in zip(self.times_s.items(), gains, strict=True)
        }
        comparison = compare(self.times_s, times_s, half_width=half_width, verdict=verdict)
        overall = comparison.overall
        kept = overall.verdict == "faster"
        judgement = Judgement(
            outcome=Passed(detail="correct on 3 workloads, every timed call verified"),
            verdict=overall.verdict,
            comparison=comparison,
            samples=samples(self.times_s, times_s, self.number),
            confirmation=samples(self.times_s, times_s, self.number + 100) if kept else (),
            clock=samples(self.times_s, times_s, self.number + 200) if kept else (),
            errors=errors(),
            notes=("3 pairs voided: another process took the processor",),
            wall_s=5.2,
        )
        decision = self._decide(overall)
        self.before = self.incumbent
        if kept:
            self.incumbent, self.times_s = trial, times_s
            self.total *= overall.speedup
        return self._round(hypothesis, trial, judgement, decision, screened, seen)

    def failed(self, hypothesis: Hypothesis, text: str, outcome: Outcome) -> Round:
        """A round whose candidate never got as far as a comparison."""
        self.before = self.incumbent
        judgement = Judgement(outcome=outcome, verdict="rejected", wall_s=0.9)
        decision = RolledBack(rule=f"{outcome.kind}: only a candidate that passes is compared")
        return self._round(hypothesis, candidate(text), judgement, decision, (), None)

    def _decide(self, overall: Estimate) -> Decision:
        low, high = overall.ci
        match overall.verdict:
            case "faster":
                return Kept(
                    rule=f"overall {overall.speedup:.3f}x, interval from {low:.3f} clears 1.010, "
                    "confirmed in fresh processes"
                )
            case "slower":
                return RolledBack(
                    rule=f"overall {overall.speedup:.3f}x, interval ends at {high:.3f} < 0.990",
                    regression=True,
                )
            case other:
                return RolledBack(
                    rule=f"{other}: the interval [{low:.3f}, {high:.3f}] meets the band"
                )

    def _round(
        self,
        hypothesis: Hypothesis,
        trial: Candidate,
        judgement: Judgement,
        decision: Decision,
        screened: tuple[ScreenedPoint, ...],
        seen: tuple[Profile, Bottleneck] | None,
    ) -> Round:
        self.number += 1
        return Round(
            round=self.number,
            hypothesis=hypothesis,
            candidate=trial,
            incumbent_id=self.before.id,
            screened=screened,
            judgement=judgement,
            decision=decision,
            profile=seen[0] if seen else None,
            bottleneck=seen[1] if seen else None,
            roofline_fraction=fraction_of(self.times_s),
            total_speedup=self.total,
            commit=f"{self.number:012x}" if decision.kind == "kept" else None,
            wall_s=8.5 + self.number,
            kernel_s=8.1 + self.number,
            at=f"2026-04-12 10:{self.number:02d}:31",
        )


def vector_exp(story: Story) -> Round:
    """Kept: the biggest step."""
    hypothesis = Hypothesis(
        statement="Replace the library's expf by an inlined polynomial that vectorises",
        rationale="One call per element keeps the loop scalar; without it eight lanes run at once.",
        evidence=("vector_fraction 8%", "7% of the memory roofline, llc_miss_rate 3.1%"),
        answers="compute",
        expected_counter="vector_fraction",
        expected_change="from 8% to above 60%",
        predicted_speedup=4.0,
        tactic="recipe:vector-exp",
        source="Cephes expf; Cody and Waite, Software Manual for the Elementary Functions, 1980",
    )
    seen = (profile(2.4, 0.71), bottleneck("compute", 0.32))
    return story.judged(hypothesis, VECTOR_EXP, (4.31, 5.02, 4.77), seen=seen)


def parallel_rows(story: Story) -> Round:
    """Kept: the other processor."""
    hypothesis = Hypothesis(
        statement="Share the rows among both processors",
        rationale="Rows are independent, and one of two processors is idle.",
        evidence=("2 processors may be used, 1 is", "32% of the memory roofline"),
        answers="compute",
        expected_counter="ipc",
        expected_change="unchanged; two instruction streams",
        predicted_speedup=1.9,
        tactic="recipe:parallel-rows",
        source="OpenMP 5.2, 11.5.2",
    )
    seen = (profile(2.3, 0.71), bottleneck("memory", 0.60))
    return story.judged(hypothesis, PARALLEL, (1.74, 1.93, 1.88), flags=("-fopenmp",), seen=seen)


def online_softmax(story: Story) -> Round:
    """Rolled back: slower."""
    hypothesis = Hypothesis(
        statement="Find maximum and sum in one pass (online softmax)",
        rationale="One read of the row fewer, if the row doesn't stay in cache.",
        evidence=("60% of the memory roofline",),
        answers="memory",
        expected_counter="llc_miss_rate",
        expected_change="down by a third",
        predicted_speedup=1.15,
        tactic="recipe:online-softmax",
        source="Milakov and Gimelshein, arXiv:1805.02867",
    )
    text = PARALLEL.replace("float sum = 0.0f;", "float sum = 0.0f;  // rescaled on the way")
    return story.judged(hypothesis, text, (0.97, 0.88, 0.91), flags=("-fopenmp",))


def avx512(story: Story) -> Round:
    """Doesn't compile."""
    hypothesis = Hypothesis(
        statement="Use 64-byte vectors by intrinsics",
        rationale="Twice the lanes per instruction.",
        answers="compute",
        predicted_speedup=1.4,
        tactic="recipe:intrinsics",
    )
    detail = (
        "softmax.c:31:24: error: inlining failed in call to 'always_inline' '_mm512_max_ps': "
        "target specific option mismatch\n   31 |         __m512 top = _mm512_max_ps(a, b);\n"
        "      |                        ^~~~~~~~~~~~~~~~~~~"
    )
    outcome = BuildFailed(reason="compiler_error", detail=detail)
    text = PARALLEL.replace("float largest = row[0];", "__m512 top = _mm512_max_ps(a, b);")
    return story.failed(hypothesis, text, outcome)


def no_maximum(story: Story) -> Round:
    """Wrong: overflows."""
    hypothesis = Hypothesis(
        statement="Leave out the subtraction of the row's maximum",
        rationale="One pass fewer.",
        answers="memory",
        predicted_speedup=1.3,
        tactic="recipe:drop-max",
    )
    detail = (
        "output 'output' of N=1024,D=1024: 212 of 1048576 elements are not finite, first at [3, 17]"
    )
    outcome = Incorrect(reason="not_finite", detail=detail)
    return story.failed(hypothesis, PARALLEL.replace(" - largest", ""), outcome)


def sweep_points(winner: Candidate) -> tuple[ScreenedPoint, ...]:
    """What a sweep looked at before it proposed `winner`."""
    points = []
    for unroll in (1, 2, 4, 8, 16):
        for flag in ("-O3", "-Ofast", "-mprefer-vector-width=256"):
            label = f"UNROLL={unroll} {flag}"
            best = unroll == 8 and flag == "-O3"
            trial = winner if best else candidate(RECIPROCAL, flag, f"-DUNROLL={unroll}")
            speedup = 1.19 if best else 0.9 + 0.05 * math.log2(unroll) + 0.03 * len(flag) / 25
            outcome: Outcome = Passed()
            measured: float | None = speedup
            if unroll == 16 and flag == "-Ofast":
                outcome = Incorrect(reason="wrong_output", detail="norm error 3.1e-6 of 9.1e-7")
                measured = None
            points.append(
                ScreenedPoint(label=label, candidate_id=trial.id, outcome=outcome, speedup=measured)
            )
    return tuple(points)


def sweep(story: Story) -> Round:
    """Kept: a sweep over fifteen points."""
    hypothesis = Hypothesis(
        statement="Multiply by the reciprocal of the sum, unrolled 8 times (best of 15 points)",
        rationale="Division has a fifth of a multiplication's throughput.",
        evidence=("vector_fraction 71%, ipc 2.3", "60% of the memory roofline"),
        answers="memory",
        predicted_speedup=1.19,
        tactic="sweep",
        source="TPE over UNROLL and flags, 15 of 60 points",
    )
    winner = candidate(RECIPROCAL, "-fopenmp")
    seen = (profile(2.6, 0.78), bottleneck("memory", 0.70))
    return story.judged(
        hypothesis,
        RECIPROCAL,
        (1.14, 1.21, 1.17),
        flags=("-fopenmp",),
        screened=sweep_points(winner),
        seen=seen,
    )


def prefetch(story: Story) -> Round:
    """Rolled back: nobody could tell in the time there was."""
    hypothesis = Hypothesis(
        statement="Prefetch the next row while this one is normalised",
        rationale="Hides the first misses of a row.",
        answers="latency",
        predicted_speedup=1.03,
        target_class="memory-resident",
        tactic="recipe:prefetch",
    )
    text = RECIPROCAL.replace("float sum = 0.0f;", "__builtin_prefetch(row + D); float sum = 0.0f;")
    return story.judged(
        hypothesis,
        text,
        (1.016, 1.002, 1.004),
        flags=("-fopenmp",),
        half_width=0.021,
        verdict="inconclusive",
    )


def tie(story: Story) -> Round:
    """Rolled back: no difference."""
    hypothesis = Hypothesis(
        statement="Promise the compiler that the pointers don't alias",
        rationale="Removes a runtime check per row.",
        answers="latency",
        tactic="recipe:restrict",
    )
    text = NAIVE.replace("float* output", "float* restrict output")
    return story.judged(hypothesis, text, (1.001, 0.999, 1.002), half_width=0.004)


def stopped(
    story: Story,
    events: Sequence[Event],
    code: StopCode = "out_of_ideas",
    detail: str | None = None,
) -> Stopped:
    """The end, with its conditions and the final kernel measured on its own."""
    stop = Stop(code, detail or "no proposer has another idea for this kernel")
    limits, spent = target().stop, spent_s(events)
    return Stopped(
        code=stop.code,
        detail=stop.detail,
        checks=end_checks(campaign_of(events), limits, spent, stop),
        limits=limits,
        spent_s=spent,
        final_timings=timings(story.times_s, seed=2),
        wall_s=6.1,
        kernel_s=5.9,
        at="2026-04-12 10:09:50",
    )


TELLERS = {
    "kept": vector_exp,
    "regression": online_softmax,
    "tie": tie,
    "inconclusive": prefetch,
    "build_failed": avx512,
    "incorrect": no_maximum,
    "sweep": sweep,
}


def events_for(kinds: Sequence[RoundKind], *, stop: StopCode | None = None) -> list[Event]:
    """A ledger with one round of each kind given, in order; stopped if `stop` says how."""
    story = Story.begin()
    events: list[Event] = [started(), baseline(), *(TELLERS[kind](story) for kind in kinds)]
    if stop is not None:
        events.append(stopped(story, events, stop))
    return events


def resumed(limits: StopPolicy | None = None) -> Resumed:
    """A campaign that goes on."""
    return Resumed(
        environment=environment(), note="after a stop", at="2026-04-12 11:00:00", limits=limits
    )


def softmax_events() -> list[Event]:
    """The whole story, stopped for want of ideas."""
    story = Story.begin()
    tellers = (vector_exp, parallel_rows, online_softmax, avx512, no_maximum, sweep, prefetch)
    events: list[Event] = [started(), baseline(), *(tell(story) for tell in tellers)]
    return [*events, stopped(story, events)]


def softmax_campaign() -> Campaign:
    """What the whole story adds up to."""
    return campaign_of(softmax_events())


def campaign_of(events: Sequence[Event]) -> Campaign:
    """What a non-empty ledger adds up to."""
    campaign = replay(list(events))
    assert campaign is not None
    return campaign


def crippled() -> Campaign:
    """The least a report can be made of: bounds UNKNOWN, one workload, a baseline that failed."""
    unknown = Fact(metric="copy bandwidth", value=None, unit="byte/s", reason="not measured")
    cost = Cost(
        flops=None,
        read_bytes=None,
        written_bytes=None,
        dtype="float32",
        source="nothing",
        reason="the reference declares neither flops() nor bytes()",
    )
    bound = Bound(
        workload=WORKLOADS[0].label,
        cost=cost,
        intensity=None,
        ridge=None,
        limiter="unknown",
        floor_time_s=None,
        bandwidth=unknown,
        peak=unknown.model_copy(update={"metric": "float32 FMA peak"}),
        reason=cost.reason,
    )
    first = started().model_copy(
        update={
            "target": target().model_copy(update={"workloads": WORKLOADS[:1]}),
            "bounds": (bound,),
            "classes": (),
            "facts": FactSheet(device_id="none"),
        }
    )
    failed = baseline().model_copy(
        update={
            "outcome": Unstable(reason="noise", detail="the machine is too busy"),
            "timings": (),
            "errors": (),
            "profile": Profile(tool="none", workload=WORKLOADS[0].label),
            "bottleneck": bottleneck("unknown", None),
        }
    )
    return Campaign(started=first, baseline=failed)
