"""What may be said of a kernel, a judgement, a campaign and a change, in commands and by MCP.

Both are made from it: nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from roofsmith.domain.category import Bucket, Category
from roofsmith.domain.isolation import IsolationMode
from roofsmith.domain.modes import TimingMode


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of the classes below is said."""

    help: str
    flags: tuple[str, ...] = ()
    """On the command line; empty: the field's name."""
    metavar: str | None = None
    shown: str | bool = True
    """The default, where help has other words for it."""
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Offered:
    """A field that is an option."""

    name: str
    type: Any
    option: Option
    default: Any


def offered(model: type, *, only: tuple[str, ...] = ()) -> Iterator[Offered]:
    """The options of a class, in order; all of them unless `only` names some."""
    hints = get_type_hints(model, include_extras=True)
    for field in fields(model):
        hint = hints[field.name]
        found = get_args(hint)[1] if get_origin(hint) is Annotated else None
        if isinstance(found, Option) and (not only or field.name in only):
            assert field.default is not MISSING, f"{field.name} may be left out"
            yield Offered(field.name, get_args(hint)[0], found, field.default)


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel, or a target, as it was named."""

    path: Path
    """A target file, a folder with a `target.yaml`, or a kernel."""
    reference: Annotated[
        Path | None, Option("Reference (.py) that says what is right.", ("--ref",))
    ] = None
    workloads: Annotated[
        tuple[str, ...],
        Option("Dimensions; repeat for more workloads.", ("--workload", "-w"), "N=..,D=.."),
    ] = ()
    """Each such as `N=4096,D=4096`."""
    entry: Annotated[
        str | None,
        Option(
            "The kernel's function.", metavar="NAME", shown="solve, or the only one that may be it"
        ),
    ] = None
    flags: Annotated[
        str | None,
        Option(
            "Compiler flags in place of the usual ones: C and C++ -O3 -march=native, and -fopenmp"
            " if the source asks; CUDA -O3 -lineinfo, without which no tool names lines; HIP -O3."
        ),
    ] = None
    threads: Annotated[
        int | None, Option("Processors that kernels may use; by default all.", least=1)
    ] = None
    ptr_size: Annotated[
        int | None, Option("Elements of every buffer, for references without setup().", least=1)
    ] = None
    family: Annotated[str | None, Option("Operator family, such as softmax, gemm, attention.")] = (
        None
    )
    timing: Annotated[
        TimingMode | None,
        Option(
            "What counts on a GPU: kernel, the device's time, or launch, calls as fast as the host"
            " launches them; they differ below some 20 us.",
            metavar="TIME",
            shown="kernel",
        ),
    ] = None
    gpu_wiki: Annotated[
        Path | None,
        Option(
            "A local gpu-wiki, README.md beside docs/ and ref-docs/: its Markdown alone has the"
            " word on products; what it doesn't state is UNKNOWN.",
            metavar="DIR",
            shown="$ROOFSMITH_GPU_WIKI, else the wiki's own pages",
        ),
    ] = None
    """In place of the target's."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How this machine is used."""

    isolation: Annotated[
        IsolationMode | None,
        Option(
            "Walls around kernels: strict (every layer, or nothing runs), standard (all that this"
            " machine grants), none (a process with limits).",
            metavar="MODE",
            shown="$ROOFSMITH_ISOLATION, else standard",
        ),
    ] = None
    lock_clocks: Annotated[
        bool,
        Option(
            "Hold the GPU's clocks at a frequency that it sustains, and let go afterwards; takes"
            " root. Refused on a GPU that others use."
        ),
    ] = False
    waits: Annotated[
        bool,
        Option(
            "Where no GPU is idle: look again every ten minutes for an hour, or give up at once.",
            ("--wait/--no-wait",),
        ),
    ] = True


@dataclass(frozen=True, slots=True)
class Judging:
    """How a kernel is judged against another."""

    against_flags: Annotated[str | None, Option("Flags of the other kernel, if they differ.")] = (
        None
    )
    budget: Annotated[
        float | None, Option("Seconds for the measurements.", shown="6", least=0.5)
    ] = None
    custom_only: Annotated[bool, Option("Reject a kernel that leaves the work to a library.")] = (
        False
    )
    sanitize: Annotated[
        bool,
        Option("Run a CUDA kernel that passes under compute-sanitizer even if it isn't faster."),
    ] = False
    canary: Annotated[
        bool,
        Option(
            "Compile both anew with a random word in them, run nothing that lacks it, and see"
            " whether the build cache was tampered with."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """In place of a target's own; None: the target's stays."""

    max_iterations: Annotated[
        int | None,
        Option("Rounds after the baseline.", ("--max-iterations", "--iterations"), least=1,
               most=119),
    ] = None  # fmt: skip
    forever: Annotated[
        bool,
        Option(
            "No limit of rounds, and in a new campaign no share of the roofline as its goal: what"
            " else is limited, want of ideas or of an idle GPU, or you end it."
        ),
    ] = False
    budget_s: Annotated[float | None, Option("Seconds that the campaign may take.")] = None
    max_tokens: Annotated[
        int | None, Option("Tokens that all proposers together may use.", least=1)
    ] = None
    max_cost_usd: Annotated[
        float | None, Option("Money that all proposers together may cost.", ("--max-cost",), "USD")
    ] = None


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """A campaign that somebody asks for."""

    subject: Subject
    """A target, or a kernel with its reference and workloads."""
    proposers: Annotated[
        str | None,
        Option(
            "Who thinks of changes: recipes, sweep, inductor, model:NAME, agent:NAME or"
            " agent:COMMAND, replay:FILE, a list such as auto,agent:NAME (auto: recipes, sweep, for"
            " modules inductor, and the model of roofsmith agent config), or none.",
            ("--proposer",),
            shown="auto",
        ),
    ] = None
    limits: SessionLimits = SessionLimits()
    base_url: Annotated[
        str | None,
        Option(
            "Where the model of --proposer model:NAME is asked, such as http://127.0.0.1:8000/v1.",
            metavar="URL",
            shown="its provider's",
        ),
    ] = None
    notes: Annotated[
        str | None,
        Option('What whoever proposes should know or keep to, such as "keep fp32 accuracy".'),
    ] = None
    """In place of the target's own."""


@dataclass(frozen=True, slots=True)
class SubmittedChange:
    """One change that was made outside."""

    kernel: Path
    """The changed file."""
    hypothesis: Annotated[
        str | None,
        Option("What changed and why, in a sentence; a repair has that of its idea."),
    ] = None
    flags: Annotated[
        str | None, Option("Compiler flags; by default those of the kernel that was changed.")
    ] = None
    target_class: Annotated[
        str | None,
        Option(
            "The config class that should gain; the others must not lose.", ("--class",), "NAME",
            "all",
        ),
    ] = None  # fmt: skip
    repair: Annotated[
        bool, Option("It repairs the last round's idea, whose results were wrong.")
    ] = False
    tokens: Annotated[int, Option("Tokens that it took to think of it.", shown=False, least=0)] = 0
    base: Annotated[
        int | None,
        Option(
            "The undecided round whose kernel was changed; both changes are judged together.",
            metavar="N", shown="the kernel that holds", least=2,
        ),
    ] = None  # fmt: skip
    category: Annotated[
        Category | None,
        Option(
            f"What kind of change it is: {', '.join(get_args(Category))}.", metavar="KIND",
            shown="other",
        ),
    ] = None  # fmt: skip
    predicted_speedup: Annotated[
        float | None,
        Option("The speedup you expect, such as 1.3.", ("--predict",), "RATIO", least=0.01),
    ] = None
    expected_counter: Annotated[
        str | None,
        Option("The counter of the profile that should move.", ("--counter",), "NAME"),
    ] = None
    expected_delta: Annotated[
        float | None,
        Option("Its value afterwards over that before.", ("--counter-ratio",), "RATIO", least=1e-6),
    ] = None
    facts: Annotated[
        tuple[str, ...],
        Option(
            "A fact of the device that it rests on, as `roofsmith specs cite` prints it.",
            ("--fact",), "CITATION",
        ),
    ] = ()  # fmt: skip
    evidence: Annotated[
        tuple[str, ...],
        Option("Evidence of the brief that it rests on, such as E1.", metavar="ID"),
    ] = ()
    again: Annotated[
        str | None,
        Option("Why a change that was judged before is worth another try.", metavar="WHY"),
    ] = None
    rationale: Annotated[str | None, Option("Why it should help here.", metavar="WHY")] = None
    bottleneck: Annotated[
        str | None,
        Option("The bottleneck that it relieves, as the brief calls it.", metavar="KIND"),
    ] = None
    bucket: Annotated[
        Bucket | None,
        Option(
            "Whether it keeps values between calls: K1 to K4 don't, W1 keeps weights (docs/"
            "overfitting.md).",
            metavar="K1..W3",
            shown="K1",
        ),
    ] = None
    insight: Annotated[
        str | None,
        Option("What its outcome teaches about kernels like this one.", metavar="TEXT"),
    ] = None


LOOKED_AT = ("hypothesis", "flags", "base", "facts", "evidence")
"""What a look at a change heeds."""
