"""Asks the naive harness for its opinion, in a process and a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.kernel import Language
from roofsmith.domain.values import Value
from roofsmith.scratch import scratch_directory

DEADLINE_S = 120.0
"""PyTorch and Triton take tens of seconds to import and compile on a cold machine."""
MARGIN = 1.05
"""From this ratio on, the naive harness calls a kernel faster."""


class NaiveVerdict(Value):
    correct: bool
    candidate_s: float
    base_s: float

    @property
    def speedup(self) -> float:
        """Base over candidate."""
        return self.base_s / max(self.candidate_s, 1e-12)

    @property
    def faster(self) -> bool:
        """Whether it would accept the kernel as an improvement."""
        return self.correct and self.speedup > MARGIN


def naive_verdict(
    language: Language, candidate: Path, base: Path, reference: Path, dims: dict[str, int]
) -> NaiveVerdict | None:
    """The naive harness's opinion; None where it came to none, because it died or hung.

    Args:
        language: of both kernels.
        candidate: a shared library, or a Python module.
        base: the same of the kernel to beat.
        reference: as the judge gets it.
        dims: of the one workload that it looks at.
    """
    folder = scratch_directory("naive")
    try:
        request = folder / "request.json"
        request.write_text(
            json.dumps(
                {
                    "candidate": str(_copied(candidate, folder / "candidate")),
                    "base": str(_copied(base, folder / "base")),
                    "reference": str(_copied(reference, folder)),
                    "dims": dims,
                    "on_device": language != "c",
                }
            ),
            encoding="utf-8",
        )
        return _opinion(_printed(request))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _printed(request: Path) -> str:
    """All that the harness's process printed before it ended or was ended.

    Into a file: what attacks leave behind would keep a pipe open.
    """
    output = request.with_name("output.txt")
    with output.open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "roofsmith.selftest.naive", str(request)],
            stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.DEVNULL,
            cwd=request.parent, start_new_session=True, env=_environment(request.parent),
        )  # fmt: skip
    try:
        process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        return ""
    finally:
        _end(process)
    return output.read_text(encoding="utf-8", errors="replace")


def _environment(folder: Path) -> dict[str, str]:
    """One's own, but for the compilation cache, two levels below what is deleted afterwards.

    There are no walls here, and an attack spoils what it finds around its cache.
    """
    return {**os.environ, "TRITON_CACHE_DIR": str(folder / "caches" / "own" / "triton")}


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group: attacks leave children behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _opinion(printed: str) -> NaiveVerdict | None:
    for line in reversed(printed.splitlines()):
        try:
            return NaiveVerdict.model_validate_json(line)
        except ValidationError:
            continue
    return None


def _copied(path: Path, folder: Path) -> Path:
    """A copy in a folder: attacks change their own library, and others beside it."""
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(path, folder / path.name))
