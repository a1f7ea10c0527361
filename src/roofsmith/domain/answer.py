"""What a proposer answers: `proposal.json`, the same for models, agents, clients and people."""

from __future__ import annotations

from pydantic import Field

from roofsmith.domain.category import Bucket, Category
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.values import Described


class Edit(Described):
    """One search/replace block."""

    path: str
    """The file, as the brief names it."""
    search: str = Field(min_length=1)
    """Text of the file that occurs exactly once; line ends and blanks may differ."""
    replace: str
    """What stands there afterwards."""


class Answer(Described):
    """Exactly one hypothesis and the change that tests it; or why there is none."""

    round: int | None = Field(default=None, ge=2)
    """The round that the brief asked for."""
    give_up: str | None = None
    """Why nothing more is worth trying; everything else is left out then."""
    repair: bool = False
    """Whether it repairs the last idea, whose results were wrong, and changes no more than that."""
    base: int | None = Field(default=None, ge=2)
    """The undecided round of the brief whose kernel it changes; edits and diffs apply to that, and
    both changes are judged together. None: it changes the kernel that holds."""
    statement: str = ""
    """One sentence: the one change."""
    rationale: str = ""
    """Why it should help here."""
    evidence: tuple[str, ...] = ()
    """Ids of the brief's evidence that point to it, such as `E1`."""
    answers: BottleneckKind = "unknown"
    """The bottleneck that it relieves: one that the brief names. `unknown`: the kernel's own."""
    expected_counter: str | None = None
    """The counter of the brief that should move."""
    expected_change: str | None = None
    """How, such as `down to a quarter`."""
    expected_delta: float | None = Field(default=None, gt=0)
    """The counter's value afterwards over that before."""
    expected_instruction: str | None = Field(default=None, max_length=80)
    """An instruction that the compiled kernel should hold, such as `LDG.128`, `HGMMA or HMMA` or
    `vfmadd`: looked for in its listing."""
    predicted_speedup: float | None = Field(default=None, gt=0)
    """Over the incumbent, such as 1.3."""
    target_class: str = "global"
    """The config class that should gain, or `global`."""
    bucket: Bucket = "K1"
    """K1 kernel-internal, K2 layout variants, K3 single-launch fusion, K4 same-call data flow;
    W1 to W3 keep values between calls: W2 and W3 are refused, W1 needs a trace of steps."""
    category: Category = "other"
    """What kind of change it is."""
    risks: str = ""
    """What may go wrong."""
    rollback: str = ""
    """What would show that it should be taken back."""
    facts: tuple[str, ...] = ()
    """Facts of the device that it rests on: `<metric>: <value> <unit> <- <path>:<line>`. A number
    of hardware (GB/s, TFLOP/s, KiB, MHz, registers, SMs, cycles) in words needs one here, unless
    the brief says it of the kernel; else it is sent back once, then struck."""
    sources: tuple[str, ...] = ()
    """Files and pages that were looked at."""
    searches: tuple[str, ...] = ()
    """What was searched for."""
    again: str | None = None
    """Why a change that was judged before is worth another try."""
    insight: str = ""
    """What its outcome teaches about kernels like this one, for later campaigns: one sentence."""
    tokens: int = Field(default=0, ge=0)
    """What it took to think of it."""
    cost_usd: float = Field(default=0.0, ge=0)
    flags: str | None = None
    """All compiler flags, in place of the incumbent's; left out: those, and `-fopenmp` where the
    source has OpenMP."""
    files: dict[str, str] = Field(default_factory=dict)
    """The change as whole files, by path; or else as `edits` or `diff`."""
    edits: tuple[Edit, ...] = ()
    """The change as search/replace blocks, applied in order."""
    diff: str | None = None
    """The change as a unified diff."""
