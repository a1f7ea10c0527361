"""How far campaigns take naive kernels that no idea of roofsmith's was written for.

    python benchmarks/unseen.py c --budget-s 90 --output benchmarks/results/unseen-c.json

Runs `roofsmith optimize` on a copy of each kernel of `unseen/`, then times good kernels for the
same work (`unseen_library.py`). What is finished is written at once; the same command goes on with
what its file lacks.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result_file import made_now, say, write
from roofsmith.domain.campaign import replay
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.store.ledger import JsonlLedger
from unseen_record import KernelRow, Library, Means, Unseen, line, row_of

FOLDER = Path(__file__).with_name("unseen")
SPARE_S = 240.0
"""For the end of a campaign beyond its budget. Chosen."""
LIBRARY_S = 400.0
"""For good kernels; torch.compile takes most of it. Chosen."""
QUIET = {
    "MALLOC_MMAP_THRESHOLD_": str(2**31),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "GOMP_SPINCOUNT": "10000",
}
"""PyTorch's results get pages that it had before: kernels needn't ask for their outputs, either.
One runtime's threads don't spin for long while another's work. Chosen."""


def main() -> None:
    """Measure, print, and write the record."""
    made = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    made.add_argument("names", nargs="*", default=["c"], help="folders; c, cuda or triton: all")
    made.add_argument("--budget-s", type=float, default=90.0, help="of each campaign")
    made.add_argument("--proposer", default="auto", help="as of `roofsmith optimize`")
    made.add_argument("--output", type=Path, required=True)
    options = made.parse_args()
    everything = sorted(one.name for one in FOLDER.iterdir() if (one / "target.yaml").exists())
    names = [n for n in everything if n in options.names or n.split("-")[0] in options.names]
    languages = {name.split("-")[0] for name in names}
    if len(languages) != 1:
        raise SystemExit(f"name kernels of one language, for a file each: {', '.join(everything)}")
    result = earlier(options, languages.pop())
    for name in names:
        if any(one.name == name for one in result.kernels):
            say(f"{name}: is in {options.output}")
            continue
        row = measured(name, options)
        if row is not None:
            write(result := result.with_row(row), options.output)
            print(line(row), flush=True)
    print(result.means.model_dump_json())


def earlier(options: argparse.Namespace, language: str) -> Unseen:
    """What the file holds already, if it is of this device, budget and proposer."""
    made = made_now(source_for("c" if language == "c" else "triton").environment())
    asked = {"budget_s": options.budget_s, "proposer": options.proposer}
    new = Unseen(made=made, judge=judge_version(), means=Means(kernels=0), **asked)
    if not options.output.exists():
        return new
    known = Unseen.model_validate_json(options.output.read_text(encoding="utf-8"))
    if (known.made.environment.device.name, known.budget_s, known.proposer) != (
        made.environment.device.name, new.budget_s, new.proposer,
    ):  # fmt: skip
        raise SystemExit(f"{options.output} is of another device, budget or proposer")
    return known


def measured(name: str, options: argparse.Namespace) -> KernelRow | None:
    """A campaign on a copy without `library.py`, then the good kernels; None without a baseline."""
    with tempfile.TemporaryDirectory(prefix="roofsmith-unseen-") as place:
        copy, ledger = Path(place) / name, Path(place) / "campaign" / "ledger.jsonl"
        hidden = shutil.ignore_patterns("library.py", "good.c", "__pycache__")
        shutil.copytree(FOLDER / name, copy, ignore=hidden)
        command = [
            *(sys.executable, "-m", "roofsmith", "optimize", str(copy), "--json"),
            *("--budget-s", str(options.budget_s), "--proposer", options.proposer),
            *("--output", str(ledger.parent)),
        ]
        begin = time.monotonic()
        why = ran(command, options.budget_s + SPARE_S)[1]
        wall_s = time.monotonic() - begin
        campaign = replay(JsonlLedger(ledger).events()) if ledger.exists() else None
    if campaign is None or campaign.baseline is None:
        say(f"{name}: no baseline: {why}")
        return None
    program = [sys.executable, str(Path(__file__).with_name("unseen_library.py"))]
    printed, why_not = ran([*program, str(FOLDER / name)], LIBRARY_S)
    library = None if why_not else Library.model_validate_json(printed.splitlines()[-1])
    return row_of(name, campaign, library, wall_s, tuple(filter(None, (why, why_not))))


def ran(command: list[str], limit_s: float) -> tuple[str, str | None]:
    """What a command printed, and why it failed."""
    say(shlex.join(command[1:]))
    # A context of PyTorch's keeps others' campaigns from a GPU.
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if Path(command[-1]).name.startswith("c-") else {}
    try:
        done = subprocess.run(
            command, timeout=limit_s, capture_output=True, text=True, check=False,
            env=os.environ | (QUIET if "unseen_library" in command[1] else {}) | hidden,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "", f"killed after {limit_s:.0f} s"
    return done.stdout, done.stderr.strip()[-400:] if done.returncode else None


if __name__ == "__main__":
    main()
