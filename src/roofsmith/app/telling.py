"""A change from outside: what it may be, and the candidate that it gives."""

from __future__ import annotations

from pathlib import Path

from roofsmith.app.subjects import build_for
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.target import Target
from roofsmith.errors import UsageError
from roofsmith.store.edited import edited_candidate
from roofsmith.store.sources import read_text

_KERNEL = (
    "Change one thing. Define solve with the same parameters in the same order; const pointers are "
    "inputs, the others outputs that must be written completely. No state between calls, no files, "
    "no processes. Then: roofsmith tell DIR --kernel FILE --hypothesis TEXT [--flags FLAGS]. "
)
_ANY = (
    "Where `repair` is set, the last result was wrong: change no more than makes it right, and "
    "tell it with --repair, or drop the idea by telling another one. Say with --category, "
    "--predict and --counter what you expect: it is scored, and `calibration` says how good it "
    "was so far. After rollbacks in a row `diagnosis` holds what was tried, and what was looked at "
    "again: read it first."
)


def contract_of(target: Target) -> str:
    """What whoever proposes a change has to keep to."""
    spec = target.command
    if spec is None:
        return _KERNEL + _ANY
    return (
        f"Change one thing, in editable files only: {', '.join(spec.editable)}. Everything else in"
        f" {spec.repo} at {spec.commit[:12]} is frozen: a candidate that changes it is rejected."
        " Then: roofsmith tell DIR --kernel FILE --hypothesis TEXT, with the edited file, or a"
        f" folder in which edited files lie under their paths in the repository. {_ANY}"
    )


def told_candidate(path: Path, flags: str | None, before: Candidate, target: Target) -> Candidate:
    """The candidate that an edited file, or for a repository a folder of them, makes of another.

    Raises:
        UsageError: it can't be read, or there are flags where a build command is frozen.
    """
    if target.command is not None:
        if flags is not None:
            raise UsageError(
                "--flags is for kernels; the build command of a repository is frozen",
                hint="change flags in an editable file, or start a campaign with another `build`",
            )
        return edited_candidate(path, target.command, before)
    text = read_text(path, "kernel")
    build = build_for(before.language, text, flags, default=before.build)
    return before.with_kernel_text(text).with_build(build)
