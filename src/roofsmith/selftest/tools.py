"""What a vendor's tools print on this machine: kept in a folder, for parsers that were never here.

Everything is tried, and nothing has to work: what is missing or fails is a line of the index.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from roofsmith.cuda_programs import find_program, find_rocm_program
from roofsmith.programs import asked
from roofsmith.yaml_document import shipped_table

DEADLINE_S: Final = 120.0
"""Of one tool: a profiler replays a kernel some hundred times."""
MOST_BYTES: Final = 32 * 1024**2
"""Of one tool's output."""


def found(name: str) -> Path | None:
    """A program where roofsmith looks for it, or a file that can be run."""
    if "/" in name:
        return Path(name) if os.access(name, os.X_OK) else None
    on_path = shutil.which(name)
    return find_rocm_program(name) or find_program(name) or (Path(on_path) if on_path else None)


def collect(
    folder: Path, said: Callable[[str], None], find: Callable[[str], Path | None] = found
) -> tuple[Path, dict[str, str]]:
    """Run every tool of `tools.yaml` on a tiny kernel, and pack what they printed.

    Args:
        folder: made here; what is in it stays.
        said: hears each step's name.
        find: a program by its name.

    Returns:
        The tarball beside the folder, and what came of each step: `exit 0`, `not installed`, `no
        answer in 120 s`, or the system's error.

    Raises:
        OSError: the folder can't be written to.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    source, came = folder / "tiny.cu", dict[str, str]()
    source.write_text((files("roofsmith.selftest") / "tiny.cu").read_text(encoding="utf-8"))
    places = {"source": str(source), "kernel": str(folder / "tiny"), "out": str(folder)}
    for step in shipped_table("roofsmith.selftest", "tools.yaml")["steps"]:
        name = step["name"]
        said(name)
        program = find(step["program"].format_map(places))
        command = [str(program), *(one.format_map(places) for one in step["arguments"])]
        came[name] = "not installed"
        if program is not None:
            came[name], printed = _run(command, folder)
            (folder / f"{name}.txt").write_bytes(f"$ {' '.join(command)}\n".encode() + printed)
        (folder / "index.json").write_text(json.dumps(came, indent=2) + "\n", encoding="utf-8")
    packed = folder.with_name(f"{folder.name}.tar.gz")
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    return packed, came


def _run(command: Sequence[str], folder: Path) -> tuple[str, bytes]:
    try:
        with asked(command, stderr=subprocess.STDOUT, cwd=str(folder)) as process:
            try:
                printed, _ = process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired as late:
                return f"no answer in {DEADLINE_S:g} s", late.stdout or b""
    except OSError as error:
        return f"can't be started: {error.strerror}", b""
    return f"exit {process.returncode}", printed[:MOST_BYTES]
