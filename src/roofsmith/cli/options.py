"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from roofsmith.domain.category import Category
from roofsmith.domain.isolation import IsolationMode
from roofsmith.domain.modes import TimingMode

Reference = Annotated[
    Path | None, typer.Option("--ref", help="Reference (.py) that says what is right.")
]
Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload", "-w", metavar="N=..,D=..", help="Dimensions; repeat for more workloads."
    ),
]  # fmt: skip
Flags = Annotated[
    str | None,
    typer.Option(
        help="Compiler flags in place of the usual ones: C and C++ -O3 -march=native, and -fopenmp"
        " if the source asks; CUDA -O3 -lineinfo, without which no tool names lines; HIP -O3."
    ),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Processors that kernels may use; by default all.")
]
PtrSize = Annotated[
    int | None,
    typer.Option(min=1, help="Elements of every buffer, for references without setup()."),
]
Family = Annotated[
    str | None, typer.Option(help="Operator family, such as softmax, gemm, attention.")
]
Isolation = Annotated[
    IsolationMode | None,
    typer.Option(
        metavar="MODE",
        help="Walls around kernels: strict (every layer, or nothing runs), standard (all that this "
        "machine grants), none (a process with limits).",
        show_default="$ROOFSMITH_ISOLATION, else standard",
    ),
]  # fmt: skip
LockClocks = Annotated[
    bool,
    typer.Option(
        "--lock-clocks",
        help="Hold the GPU's clocks at a frequency that it sustains, and let go afterwards; "
        "takes root. Refused on a GPU that others use.",
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait/--no-wait",
        help="Where no GPU is idle: look again every ten minutes for an hour, or give up at once.",
    ),
]
Timing = Annotated[
    TimingMode | None,
    typer.Option(
        metavar="TIME",
        help="What counts on a GPU: kernel, the device's time, or launch, calls as fast as the host"
        " launches them; they differ below some 20 us.",
        show_default="kernel",
    ),
]
AS_JSON = "roofsmith.as_json"
"""In a context's `meta`: whether stdout is for a program, which wants errors there, too."""
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object on stdout; if the command fails, `error` says why.",
    ),
]  # fmt: skip
CampaignDir = Annotated[Path, typer.Argument(metavar="DIR", help="A campaign directory.")]
WikiDir = Annotated[
    Path | None,
    typer.Option(
        "--wiki", metavar="DIR", exists=True, file_okay=False,
        help="Wiki pages of your own, which win over the bundled ones.",
        show_default="$ROOFSMITH_WIKI, else ~/.config/roofsmith/wiki",
    ),
]  # fmt: skip
GpuWiki = Annotated[
    Path | None,
    typer.Option(
        "--gpu-wiki", metavar="DIR",
        help="A local gpu-wiki, README.md beside docs/ and ref-docs/: its Markdown alone has the"
        " word on products; what it doesn't state is UNKNOWN.",
        show_default="$ROOFSMITH_GPU_WIKI, else the wiki's own pages",
    ),
]  # fmt: skip
MaxIterations = Annotated[
    int | None,
    typer.Option(
        "--max-iterations", "--iterations", min=1, max=119, help="Rounds after the baseline."
    ),
]
AgentDeadlineS = Annotated[
    float, typer.Option(min=1, help="Seconds that a coding agent may take for one answer.")
]  # fmt: skip
BudgetS = Annotated[float | None, typer.Option(help="Seconds that the campaign may take.")]
ChangeCategory = Annotated[
    Category | None,
    typer.Option(
        "--category", metavar="KIND",
        help=f"What kind of change it is: {', '.join(get_args(Category))}.", show_default="other",
    ),
]  # fmt: skip
Proposers = Annotated[
    str | None,
    typer.Option(
        "--proposer",
        help="Who thinks of changes: recipes, sweep, inductor, model:NAME, agent:NAME or "
        "agent:COMMAND, replay:FILE, a list such as auto,agent:NAME (auto: recipes, sweep, for "
        "modules inductor, and the model of roofsmith config), or none.",
        show_default="auto",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where the model of --proposer model:NAME is asked, such as http://127.0.0.1:8000/v1.",
        show_default="its provider's",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="The campaign's directory, new or empty.",
        show_default="campaigns/<name>-<date>",
    ),
]  # fmt: skip
MaxTokens = Annotated[
    int | None, typer.Option(min=1, help="Tokens that all proposers together may use.")
]
MaxCost = Annotated[
    float | None, typer.Option(metavar="USD", help="Money that all proposers together may cost.")
]
