"""The target: what may change, what it must equal, on what it is judged, and when to stop."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from roofsmith.domain.artifact import KeptProfiles
from roofsmith.domain.bound import CeilingKind
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.formatting import FormatSpec
from roofsmith.domain.kernel import (
    BuildSpec,
    Candidate,
    Language,
    SourceFile,
    with_default_build,
)
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.modes import TimingMode
from roofsmith.domain.values import Described, content_id
from roofsmith.domain.workload import Workload

HOST_LANGUAGES: frozenset[Language] = frozenset(("c", "cpp", "command"))
"""Languages whose kernels run on the processors; all others run on a GPU. Of a command target, its
own `device` says where."""

COMMAND_BUDGET_S = 240.0
"""Of a command target's judgements: every pair is two runs of a whole benchmark. Keeping something
takes 44 runs (docs/command.md), so this is enough where one takes up to five seconds."""

BRANCH = r"^[A-Za-z0-9_][A-Za-z0-9_/-]*(\.[A-Za-z0-9_/-]+)*$"
"""What git takes for a branch's name anywhere, without those that need a second look."""

HELD_OUT = 4
"""Workloads that no proposer is shown, all classes together: each costs a candidate that would be
kept one more examination."""

ABLATION_S = 120.0
"""A judged round takes some seconds on a kernel. Chosen: what a person waits for an answer that
makes nothing faster; a repository's rounds take longer, and are ablated where somebody asks."""

LONGEST_NOTES = 8000
"""Characters; a brief of 12,000 tokens has room for them beside a kernel."""


def plain_name(text: str) -> str:
    """A target's name made from a file's or folder's."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("._-") or "target"


MOST_WEIGHT = 1e12
"""Chosen: sums of such, and their shares, are exact enough."""


class Tolerance(Described):
    """How far an output may be from the float64 reference.

    By default an error budget: `error_factor` times the error that an honest kernel makes in the
    declared precision. `atol` and `rtol`, if given here or by the reference, replace its
    element-wise half: |out - ref| <= atol + rtol * |ref|, for every element. Integers may be off by
    `atol`.
    """

    error_factor: float = Field(default=10.0, ge=1)
    atol: float | None = Field(default=None, ge=0)
    rtol: float | None = Field(default=None, ge=0)


class Goal(Described):
    """When the campaign has reached what it set out for."""

    roofline_fraction: float | None = Field(default=0.9, gt=0, le=1)
    """Geometric mean over workloads of floor time over measured time; null: no such goal."""
    speedup: float | None = Field(default=None, gt=1)
    """Over the baseline; None: no such goal."""
    metric: float | None = Field(default=None, gt=0)
    """Of a command target: its metric, in its unit and direction, as the geometric mean over rows;
    None: no such goal."""
    tflops: float | None = Field(default=None, gt=0)
    """Of a kernel: 10^12 operations per second, as the geometric mean over workloads, by the
    operations that its reference takes; None: no such goal."""
    gbs: float | None = Field(default=None, gt=0)
    """Of a kernel: 10^9 bytes per second, by the bytes that must move; None: no such goal."""


FIRST_ERROR_RATE = 0.05
"""Of the interval of a first measurement. Chosen: 5 pairs can decide. Who is no faster than the
noise band is called faster by both with a probability of at most this times `error_rate`."""


class KeepPolicy(Described):
    """When a candidate replaces the incumbent."""

    noise_band: float = Field(default=0.01, ge=0, lt=0.5)
    """Ratios within 1 ± this are a tie."""
    error_rate: float = Field(default=0.005, gt=0, lt=0.5)
    """Bound on the chance that a candidate which is no faster than the band is called faster."""
    veto_slowdown: float = Field(default=0.05, gt=0, lt=1)
    """A workload this much slower vetoes, whatever the rest gains."""
    judge_budget_s: float = Field(default=6.0, gt=0)
    """Time for one judgement's measurements, both together."""
    profiles: KeptProfiles = "kept"
    """Of which rounds what profilers wrote stays in `profiles/`: all, those that were kept and the
    baseline, or none. Logs and tables of every round stay in `rounds/round-N/artifacts/`."""
    new_dependencies: Literal["told", "refused"] = "told"
    """Whether a change that imports, includes, links or requires something new is refused before it
    is built, or whoever proposed it is told."""
    less_work: Literal["told", "refused"] = "told"
    """Likewise a change in which a loop turns fewer times than before, by a number in its line."""
    several_settings: Literal["told", "refused"] = "told"
    """Likewise one that gives several settings other numbers or flags at once; a sweep, which tries
    them, is no such change."""

    @property
    def first(self) -> KeepPolicy:
        """Of a candidate's first measurement, which keeps nobody: a gain is proven by the second at
        `error_rate`, from nothing and in fresh processes."""
        return self.model_copy(update={"error_rate": max(self.error_rate, FIRST_ERROR_RATE)})


def default_keep(language: Language) -> KeepPolicy:
    """The policy of a target that says nothing else.

    Half a percent on a GPU, where pairs behind a plug differ by two or three tenths. A repository's
    benchmark takes seconds where a kernel takes milliseconds.
    """
    if language == "command":
        return KeepPolicy(judge_budget_s=COMMAND_BUDGET_S)
    return KeepPolicy() if language in HOST_LANGUAGES else KeepPolicy(noise_band=0.005)


class StopPolicy(Described):
    """When a campaign ends without having reached its goal."""

    max_iterations: int | None = Field(default=20, ge=1, lt=120)
    """Rounds after the baseline; repairs and dispatches of diverged rounds don't count. null: the
    other conditions decide."""
    fixed_iterations: bool = False
    """Whether that number stays what it was when the campaign began: no resume changes it."""
    max_consecutive_regressions: int | None = Field(default=5, ge=1)
    """Rounds in a row that were measured and slower; null: rollbacks end nothing."""
    max_repairs: int = Field(default=3, ge=0, le=10)
    """Attempts to repair an idea whose results were wrong, before it is dropped."""
    max_refusals: int = Field(default=3, ge=1)
    """Proposals in a row that can't be built or judged (no change, malformed, a wrong citation, a
    proposer's error) before the proposer is taken to be out of ideas."""
    budget_s: float | None = Field(default=None, gt=0)
    """Wall time of the whole campaign, all its runs together."""
    max_tokens: int | None = Field(default=None, ge=1)
    """What all proposers together may say that they used."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """What that may cost, as far as it is known. A model whose price isn't known can't be asked."""
    ablation_s: float = Field(default=ABLATION_S, ge=0)
    """Time for the rounds that leave out one kept change each, once ideas have ended; 0: none."""


class Definition(Described):
    """What somebody asked for in a sentence: the fields of a manifest that nothing else says."""

    sentence: str = ""
    """As it was said."""
    platform: str | None = None
    """The product that it is for, such as H20; a campaign on another machine doesn't begin."""
    target_gpu: str | None = None
    """Its architecture as compilers call it: sm_90, gfx942."""
    target_op: str | None = None
    """With precision and granularity: gemm_fp8_blockwise."""
    target_backend: str | None = None
    """TRITON, CK, FLYDSL, HIP: CK and HIP are one language."""
    execution_reason: str | None = None
    """Why in the repository itself, or in a workspace."""
    project_skill: str | None = None
    """The page that a coding agent follows in the project."""
    performance_target: str | None = None
    """The goal as it was said, also where no campaign ends by it."""
    primary_metric: str | None = None
    """The same of what is measured."""


class Target(Described):
    """Frozen at the start of a campaign; its digest is in every record.

    Holds its sources by value, so that a campaign doesn't change when the user's files do.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    language: Language
    kernel: SourceFile
    """The naive, correct kernel that the campaign starts from."""
    includes: tuple[SourceFile, ...] = ()
    """Further files the kernel needs to build; not edited. Of a command target: the other editable
    files."""
    reference: SourceFile | None = None
    """Only a command target has none: its own test and gate say what is right."""
    reference_files: tuple[SourceFile, ...] = ()
    """What the reference imports and finds beside it; of a command target, what to read first."""
    command: CommandSpec | None = None
    """Of a command target: the repository, and what is run there."""
    workloads: tuple[Workload, ...] = ()
    """At least one. Those of a command target are the rows of its benchmark; empty until it ran."""
    weights: dict[str, float] = Field(default_factory=dict)
    """How much a workload counts in means and decisions, by its label: its share of the time that
    all take in use; 1 where nobody says. With 0 kernels only have to be right on it."""
    unscored: tuple[Workload, ...] = ()
    """Workloads that were given, too, and whose inputs can't vary, as with one bin: kernels must be
    right on them, and nobody would notice one that remembers its result there."""
    family: str | None = None
    """Operator family, such as softmax, gemm, attention, norm, elementwise, reduction: one of those
    of the [roofline](roofline.md#formulas)."""
    entry: str = "solve"
    build: BuildSpec = BuildSpec()
    threads: int | None = Field(default=None, ge=1)
    """Processors that kernels may use; None: all of this machine's."""
    ptr_size: int | None = Field(default=None, ge=1)
    """Elements of every buffer, for references without `setup`."""
    timing: TimingMode = "kernel"
    """What counts on a GPU. kernel: the device's time, with all calls queued before the first one
    begins. launch: calls one behind the other, as fast as the host can launch them; the two differ
    for kernels below about 20 us."""
    tf32: bool = False
    """Whether float32 products may be done in TF32 on a GPU, by the kernel and by the reference:
    errors and ceilings are those of TF32 then. The float64 truth stays what it is."""
    custom_only: bool = False
    """Whether every kernel must do its own work: one that leaves it to a library, as its source,
    its link flags or its build show, is rejected."""
    ceilings: CeilingKind = "measured"
    """Which ceilings floor and goal are computed with. Where the chosen kind has no figure, the
    other's is used; both are shown."""
    tolerance: Tolerance = Tolerance()
    format: FormatSpec | None = None
    """What formats a candidate before it is built, so that what is kept is what was measured; None:
    it stays as it was proposed."""
    goal: Goal = Goal()
    keep: KeepPolicy = KeepPolicy()
    stop: StopPolicy = StopPolicy()
    held_out: int = Field(default=HELD_OUT, ge=0, le=16)
    """At most so many workloads near the given ones, up to two of a config class, are drawn when a
    campaign begins and shown to no proposer: a candidate must be right on them, too. 0: none."""
    notes: str = Field(default="", max_length=LONGEST_NOTES)
    """What whoever proposes changes should know or keep to, in your own words."""
    branch: str | None = Field(default=None, pattern=BRANCH, max_length=200)
    """Of git, new, where accepted kernels are committed; None: `optimize/<campaign>`. Numbered
    where it is taken: nobody's branch is moved."""
    definition: Definition | None = None
    """The sentence that the target was made of."""
    learn: bool = False
    """Of older ledgers; nothing heeds it."""
    gpu_wiki: str | None = None
    """Folder of a local gpu-wiki, whose Markdown alone has the word on the device; None: that of
    the settings, or the wiki's own pages."""
    references: tuple[str, ...] = ()
    """Folders of reference projects, which are searched for kernels like this one."""

    @model_validator(mode="before")
    @classmethod
    def _build_of_language(cls, data: Any) -> Any:
        return with_default_build(data)

    @field_validator("timing")
    @classmethod
    def _launches_something(cls, timing: TimingMode, info: ValidationInfo) -> TimingMode:
        language = info.data.get("language")
        if timing == "launch" and language in HOST_LANGUAGES:
            raise ValueError(
                f"launch is for kernels on a GPU; {language} is called directly, so there is"
                " nothing to launch (leave it out)"
            )
        return timing

    @field_validator("tf32")
    @classmethod
    def _has_tensor_cores(cls, tf32: bool, info: ValidationInfo) -> bool:
        language = info.data.get("language")
        if tf32 and language in HOST_LANGUAGES:
            raise ValueError(
                f"only GPUs have TF32; a processor computes {language} in the types that it names"
                " (leave it out)"
            )
        return tf32

    @model_validator(mode="after")
    def _judged_by_somebody(self) -> Target:
        if (self.language == "command") != (self.command is not None):
            raise ValueError("language: command and a `command` section go together")
        if self.command is None and self.goal.metric is not None:
            raise ValueError("goal.metric is a command target's; for a kernel, goal.speedup")
        if self.command is not None and (self.goal.tflops or self.goal.gbs):
            raise ValueError("goal.tflops and goal.gbs are a kernel's; here it is goal.metric")
        if self.command is not None and self.custom_only:
            raise ValueError("custom_only is for kernels; what a repository runs isn't looked at")
        if self.command is None and self.reference is None:
            raise ValueError("reference is missing")
        if self.command is None and not self.workloads:
            raise ValueError("workloads is empty; at least one is needed")
        return self

    @model_validator(mode="after")
    def _weighs_something(self) -> Target:
        for label, weight in self.weights.items():
            if not 0 <= weight <= MOST_WEIGHT:
                raise ValueError(f"weights: {label} counts {weight:g}; from 0 to {MOST_WEIGHT:g}")
        known = {one.label: one for one in (*self.workloads, *self.unscored)}
        if strange := [label for label in self.weights if label not in known]:
            raise ValueError(f"weights: there is no workload {strange[0]}: {', '.join(known)}")
        if self.command is not None and self.weights:
            raise ValueError("weights are for kernels; a repository's metric says what counts")
        if known and not any(self.weights.get(label, 1.0) for label in known):
            raise ValueError("weights: no workload counts anything")
        return self

    @model_validator(mode="after")
    def _distinct_workloads(self) -> Target:
        labels = [workload.label for workload in self.workloads]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise ValueError(f"workload given twice: {', '.join(sorted(twice))}")
        names = {
            (tuple(sorted(workload.dims)), tuple(sorted(workload.tags)))
            for workload in self.workloads
        }
        if len(names) > 1:
            raise ValueError("workloads must all have the same dimension names")
        return self

    @model_serializer(mode="wrap")
    def _as_older_ones_were_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without newer keys that say nothing: older targets' digests stay the same."""
        document: dict[str, Any] = dump(self)
        if not self.custom_only:
            del document["custom_only"]
        if not self.notes:
            del document["notes"]
        for key in (
            "unscored", "learn", "branch", "gpu_wiki", "references", "reference_files",
            "definition", "weights",
        ):  # fmt: skip
            if not document[key]:
                del document[key]
        if self.held_out == HELD_OUT:
            del document["held_out"]
        if self.stop.max_cost_usd is None:
            del document["stop"]["max_cost_usd"]
        if self.stop.ablation_s == ABLATION_S:
            del document["stop"]["ablation_s"]
        if not self.stop.fixed_iterations:
            del document["stop"]["fixed_iterations"]
        for key in ("tflops", "gbs"):
            if document["goal"][key] is None:
                del document["goal"][key]
        if self.keep.profiles == "kept":
            document.get("keep", {}).pop("profiles", None)
        command = document.get("command") or {}
        if "quick" in command and command["quick"] is None:
            del command["quick"]
        profile = command.get("profile") or {}
        for key in ("counters", "trace"):
            if key in profile and profile[key] is None:
                del profile[key]
        return document

    @property
    def truth(self) -> SourceFile:
        """The reference; only asked of targets that aren't commands."""
        assert self.reference is not None, "a command target has no reference"
        return self.reference

    @property
    def digest(self) -> str:
        """Content hash of the whole target."""
        return content_id(self)[:16]

    @property
    def measure(self) -> Measure:
        """What is measured, and shown: time, but for a repository with another metric."""
        return TIME if self.command is None else self.command.measure

    def workload(self, label: str) -> Workload:
        """The workload of this label, which must be one of the target's."""
        return next(workload for workload in self.workloads if workload.label == label)

    @property
    def baseline(self) -> Candidate:
        """The candidate that the campaign starts from."""
        return Candidate(
            language=self.language,
            sources=(self.kernel, *self.includes),
            build=self.build,
            entry=self.entry,
        )


def device_language(target: Target) -> Language:
    """A language whose kernels run where the target's do: it decides about the machine's parts."""
    if target.command is None:
        return target.language
    return "triton" if target.command.device == "gpu" else "c"
