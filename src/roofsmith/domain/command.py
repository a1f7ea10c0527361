"""A target that is a repository: its frozen commands, and how to read what its benchmark writes."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from roofsmith.domain.facts import ArithmeticType
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.values import Described, Value

Direction = Literal["lower", "higher"]
"""Which way a metric is better."""

TIME_UNITS: dict[str, float] = {
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
"""Units in which a metric is a time, in seconds."""

_MOST_BOUND = 100.0
"""A share that allows more bounds nothing: samples don't tell 99% from all. Chosen."""
_PER_SECOND = ("/s", "/sec", "/second")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
FLOP_RATES: dict[str, float] = {
    f"{prefix}{unit}": scale for prefix, scale in _PREFIXES.items() for unit in ("FLOP/s", "FLOPS")
}
BYTE_RATES: dict[str, float] = {f"{prefix}B/s": scale for prefix, scale in _PREFIXES.items()}
"""Units in which a metric is a rate, in FLOP/s and byte/s: with the row's work, that is a time."""


def direction_of(unit: str) -> Direction | None:
    """Which way a time or a rate is better; None for any other unit."""
    if unit in TIME_UNITS:
        return "lower"
    rates = {rate.lower() for rate in (*FLOP_RATES, *BYTE_RATES)}
    return "higher" if unit.lower() in rates or unit.endswith(_PER_SECOND) else None


class ProfileCommand(Described):
    """A profiler's run of the benchmark, and where it writes the times of single kernels."""

    command: str
    """Shell command that runs the benchmark under a profiler."""
    results: str
    """Glob, relative to `repo`: the CSV that it writes, with a row per launch or per kernel. Where
    no columns are said below, ncu's raw page or whatever else `plan` reads will do."""
    name: str = "Kernel_Name"
    """Column that holds the kernel's name."""
    kernel: str = ""
    """Regular expression; rows whose name it is found in count. Empty: all of them."""
    time: str = "End_Timestamp - Start_Timestamp"
    """Column, or an expression over columns: the time of a row's kernel."""
    calls: str = "1"
    """Column, or an expression: how many launches a row's time is the mean of."""
    unit: Literal["s", "ms", "us", "ns"] = "ns"
    """Of `time`."""
    counters: str | None = None
    """A further command that counts, such as `rocprofv3 --pmc ...`: run where a profile is looked
    at, never where times are compared. What it leaves beside `results` is read, as ncu's CSV is."""
    trace: str | None = None
    """Likewise, one that traces single instructions, such as `rocprofv3 --att ...`."""
    steps: int | None = Field(default=None, ge=1)
    """How often one run does the whole work: what counts is the kernels' time per step then. Needed
    where changes may fuse or split kernels; without it, what counts is the mean over launches."""


class CommandSection(Described):
    """What may change in a repository, what decides, and who measures it: the repository itself.

    Every number is what the repository's own program printed, beside candidate code: self-reported.
    """

    repo: str = "."
    """Folder in a git repository; commands run there, and the paths below are relative to it."""
    editable: tuple[str, ...] = Field(min_length=1)
    """Globs of files that a candidate may change or add, such as `src/*.c`; `**` crosses folders.
    Everything else that git tracks is frozen. A file that `build` names has to be named here, too:
    a glob that matches it is refused. What another command names can't be editable at all."""
    carry: tuple[str, ...] = ()
    """Paths that git doesn't track but the commands need, such as data: linked into checkouts."""
    build: str | None = None
    """Shell command; None: there is nothing to build."""
    test: str | None = None
    """Shell command that exits with 0 only if results are right; None: the gate alone decides."""
    benchmark: str
    """Shell command, frozen for the whole campaign."""
    quick: str | None = None
    """Shell command that prints, or writes, what the benchmark does for a few rows: those that
    `$ROOFSMITH_ROWS`, a JSON list of objects, names by their `rows` columns. What is wrong or
    slower there is rejected without the benchmark; nothing is ever kept by it."""
    results: str | None = None
    """Glob of the file that the benchmark writes, such as `results/*.csv`: one per run, or copies
    of one. None: what it prints is read."""
    pattern: str | None = None
    """Regular expression, where the benchmark gives no table: each line in which it is found is a
    row, and its named groups are the columns; without any, the first group is the column `value`.
    `metric: {pattern: REGEX}` says both."""
    gate: str | None = None
    """What every row must meet, such as `err == 0` or `Check == PASS`."""
    only: str | None = None
    """Which rows count, such as `impl == ours` where others are of what it is compared with; the
    rest are left out before anything else is read of them. None: all."""
    metric: str
    """What decides: a column, one of `metrics`, or an expression over both."""
    direction: Direction = "lower"
    """Which way the metric is better. May be left out of a time alone, in s, ms, us or ns or called
    like one, such as `fwd_ms` or `latency`; a target of anything else is refused without it."""
    unit: str = ""
    """Of the metric. s, ms, us and ns make it a time; so do TFLOP/s with `flops`, and GB/s with
    `bytes`."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """Further metrics by name, each a column or an expression; shown, not decided on."""
    rows: tuple[str, ...] = ()
    """Columns that tell rows apart; by default those of `classes`. A row is a workload. `[]`: there
    is one row."""
    classes: tuple[str, ...] = ()
    """Columns whose values make a config class, such as `[block_size, mtp, head_size]`."""
    path: str | None = None
    """Column that says which kernel, launch or tile a row went to: rows that share it when the
    campaign begins are a config class. A candidate may send rows elsewhere."""
    flops: str | None = None
    """Operations of a row, as an expression over `rows`; without it there is no roofline."""
    bytes: str | None = None
    """Bytes that a row must move, likewise."""
    dtype: ArithmeticType | None = None
    """Type that `flops` are done in, `tfloat32` and `float8` among them, which chooses the compute
    ceiling; None: float32. Matrix units count with a family of products, such as gemm."""
    profile: ProfileCommand | None = None
    """Where given, its mean kernel time has the last word on a gain, and totals are made of it."""
    dispatch: str | None = None
    """Shell command that merges two versions of the editable files into one that chooses by size;
    see docs/dispatch.md."""
    transfer: str | None = None
    """Python file in the repository that says how to call the kernel, for steps of training with
    it before it is kept; see docs/overfitting.md."""
    workspace: tuple[str, ...] = ()
    """Globs of the files that build, test and benchmark need beside the editable ones. Candidates
    are tried with these alone, and measured again in the whole repository before they count; by
    default always in the whole repository."""
    trusts_clock: bool = False
    """Keep gains that whole runs don't show although a candidate's source begins to read or replace
    clocks, or what measures: say so once you have read it."""
    device: Literal["cpu", "gpu"] = "cpu"
    """gpu: an idle one is leased, and the commands see no other."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Further variables for all commands."""
    build_deadline_s: float = Field(default=1800.0, gt=0)
    """Seconds that one build may take."""
    test_deadline_s: float = Field(default=1800.0, gt=0)
    """Seconds that one run of the test may take."""
    benchmark_deadline_s: float = Field(default=600.0, gt=0)
    """Seconds that one run of the benchmark may take, also under the profiler."""

    @model_validator(mode="before")
    @classmethod
    def _metric_by_pattern(cls, said: object) -> object:
        if isinstance(said, dict) and isinstance(metric := said.get("metric"), dict):
            if [*metric] != ["pattern"]:
                raise ValueError("metric is a column, an expression, or {pattern: REGEX}")
            return {"rows": (), **said, "metric": "value", "pattern": metric["pattern"]}
        return said

    @model_validator(mode="after")
    def _tells_rows_apart(self) -> CommandSection:
        if not self.keys and "rows" not in self.model_fields_set:
            raise ValueError(
                "rows (or classes) must name the columns that tell the benchmark's rows apart,"
                " such as [block_size, mtp, head_size]"
            )
        return self

    @model_validator(mode="after")
    def _stays_inside(self) -> CommandSection:
        lists = {"editable": self.editable, "carry": self.carry, "workspace": self.workspace}
        globs = [(key, glob) for key, values in lists.items() for glob in values]
        globs += [("results", self.results)] if self.results is not None else []
        globs += [("transfer", self.transfer)] if self.transfer is not None else []
        globs += [("profile.results", self.profile.results)] if self.profile else []
        for key, glob in globs:
            if glob.startswith("/") or ".." in glob.split("/") or not glob:
                raise ValueError(f"{key}: {glob!r} must be relative to repo, and stay inside it")
        return self

    @model_validator(mode="after")
    def _freezes_transfer(self) -> CommandSection:
        if self.transfer is not None and self.is_editable(self.transfer):
            raise ValueError(f"transfer: {self.transfer!r} is editable; it has to be frozen")
        return self

    @property
    def contradiction(self) -> str | None:
        """Why unit and direction can't both be right; None if they can, or the unit says nothing.

        No validator: older ledgers are read whatever they hold.
        """
        better = direction_of(self.unit)
        if better is None or better == self.direction:
            return None
        kind, more = ("time", "less") if better == "lower" else ("rate", "more")
        return (
            f"{self.unit!r} is a {kind}, of which {more} is better, but command.direction is"
            f" {self.direction!r}"
        )

    @property
    def commands(self) -> dict[str, str]:
        """Those that are run, by their key."""
        profile = self.profile
        found = {
            "build": self.build, "test": self.test, "benchmark": self.benchmark,
            "quick": self.quick,
            "profile.command": None if profile is None else profile.command,
            "profile.counters": None if profile is None else profile.counters,
            "profile.trace": None if profile is None else profile.trace,
            "dispatch": self.dispatch,
        }  # fmt: skip
        return {key: command for key, command in found.items() if command is not None}

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that tell rows apart, each once: those of classes among them."""
        return tuple(dict.fromkeys((*self.classes, *self.rows)))

    @property
    def time_scale(self) -> float | None:
        """Seconds per unit of the metric; None where it isn't a time."""
        return TIME_UNITS.get(self.unit) if self.direction == "lower" else None

    @property
    def rate(self) -> tuple[str, float] | None:
        """The formula of a row's work and the rate's scale; None where the metric is no rate."""
        if self.direction == "higher" and self.flops is not None and self.unit in FLOP_RATES:
            return self.flops, FLOP_RATES[self.unit]
        if self.direction == "higher" and self.bytes is not None and self.unit in BYTE_RATES:
            return self.bytes, BYTE_RATES[self.unit]
        return None

    @property
    def gives_times(self) -> bool:
        """Whether the metric says how long a row takes; else only ratios mean anything."""
        return self.time_scale is not None or self.rate is not None

    @property
    def measure(self) -> Measure:
        """What records hold of a row."""
        if self.gives_times:
            return TIME
        is_inverse = self.direction == "higher"
        return Measure(name=self.metric, unit=self.unit, is_time=False, is_inverse=is_inverse)

    def is_as_good(self, value: float, goal: float) -> bool:
        """Whether the metric is where it should be, or better."""
        return value <= goal if self.direction == "lower" else value >= goal

    def is_result(self, path: str) -> bool:
        """Whether the commands write a file anew in every run; its path is relative to `repo`."""
        written = (self.results, self.profile.results if self.profile else None)
        return any(matches(path, glob) for glob in written if glob is not None)

    def is_editable(self, path: str) -> bool:
        """Whether a candidate may change or add a file; its path is relative to `repo`.

        What git itself runs and reads is nobody's to edit, whatever the patterns say.
        """
        if ".git" in path.split("/"):
            return False
        return any(matches(path, glob) for glob in self.editable)


class CommandSpec(CommandSection):
    """The same, frozen: of one commit, with every other file as it was there."""

    commit: str = ""
    """That every checkout is made of; empty until the campaign begins."""
    frozen: str = ""
    """Hash over path and content of every file that git tracks there, but for the editable and the
    volatile ones."""
    volatile: tuple[str, ...] = ()
    """Tracked files that the baseline's own commands rewrite; relative to the repository's top."""
    extracted: tuple[str, ...] = ()
    """Tracked files that a workspace holds, likewise; empty without one, and in older ledgers."""
    noticed_by: str = ""
    """Which command failed with the editable files broken; empty in older ledgers."""


def matches(path: str, glob: str) -> bool:
    """Whether a relative path is meant by a glob; `*` and `?` stay within a folder."""
    return re.fullmatch(_regex(glob), path) is not None


def _regex(glob: str) -> str:
    """`*` and `?` stay within a folder, `**` doesn't; nothing else is special."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob.removeprefix("./"))
    special = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return "".join(special.get(part, re.escape(part)) for part in parts)


class EditableShare(Value):
    """How much of a benchmark was seen in functions of editable files: it bounds the gain."""

    samples: int = 0
    """Of a run, or its nanoseconds of GPU time; 0: nothing is known."""
    editable: int = 0
    """Of these, with an editable function on the stack, or of kernels that such files define."""
    of_gpu_time: bool = False
    unknown: str = ""
    """Why nothing is known."""

    @property
    def part(self) -> float | None:
        """From 0 to 1; None: nobody knows."""
        return self.editable / self.samples if self.samples else None

    @property
    def most_speedup(self) -> float | None:
        """What follows of a metric that counts all of the run (Amdahl, 1967); None where nothing
        editable was seen, too, and beyond `_MOST_BOUND`."""
        if not self.part or self.part >= 1 - 1 / _MOST_BOUND:
            return None
        return 1 / (1 - self.part)

    @property
    def sentence(self) -> str:
        """Of both, without a full stop."""
        if self.part is None:
            return f"how much of the benchmark the editable files take isn't known: {self.unknown}"
        if not self.editable:
            return (
                f"WARNING: no function of an editable file was seen in {self.samples} samples of a"
                " run of the benchmark: is what may be edited what is measured?"
            )
        most = f"{self.most_speedup or _MOST_BOUND:.3g}x"
        if self.of_gpu_time:
            return (
                f"kernels that editable files define take {self.part:.0%} of a run's GPU time: no"
                f" change of theirs makes that run's kernels more than {most} as fast"
            )
        return (
            f"editable files take {self.part:.0%} of a run of the benchmark: if its metric counts"
            f" all of that run, no change gains more than {most}"
        )


class MetricReading(Value):
    """One metric of one row: the median over runs; as the benchmark reported it."""

    workload: str
    metric: str
    value: float
    """Of the candidate; of the baseline in round 1."""
    before: float | None = None
    """Of the incumbent beside it."""


class RunPair(Value):
    """One interleaved pair of runs, a time each, all rows together."""

    sweep: int
    first: Literal["incumbent", "candidate"]
    incumbent_time_s: float
    """Mean time of the kernels that count, by a profiler; or what the whole run took."""
    candidate_time_s: float
