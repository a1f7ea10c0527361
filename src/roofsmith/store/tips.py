"""Tips: what campaigns leave for later ones on the same device, operator and language.

`<tips>/<device>/<operator>/<language>/tips.md` is Markdown that people may read and add to. It only
grows: each lesson is appended once, under a lock, by whichever campaign teaches it first.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from roofsmith.domain.device import Device
from roofsmith.domain.target import Target, plain_name
from roofsmith.domain.tip import Tip
from roofsmith.store.files import storage_errors, sync_directory, write_all

MOST_READ = 50
"""The newest tips that a campaign begins with: its first record holds them."""
_FIELDS = ("context", "signal", "takeaway", "applicability", "lesson")
_HEADING = re.compile(r"## (?:(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d),? ?)?(?:from )?(?P<origin>.*)")
_FIELD = re.compile(rf"- (?P<name>{'|'.join(_FIELDS)}): ?(?P<text>.*)")


class TipFile:
    """The tips of one device, operator and language. Nothing is made before the first tip."""

    def __init__(self, path: Path) -> None:
        """`path` is where `tips.md` is, or will be."""
        self.path = path

    @classmethod
    def of(cls, folder: Path, device: Device, target: Target) -> TipFile:
        """Where the tips for a target on a device are, below the folder of all tips."""
        operator = plain_name((target.family or target.name).lower())
        names = (plain_name(device.name.lower()), operator, target.language)
        return cls(folder.joinpath(*names, "tips.md"))

    def read(self) -> tuple[Tip, ...]:
        """The newest tips, in the order of the file; what isn't in their shape is passed over.

        Raises:
            StorageError: it is there and can't be read.
        """
        with storage_errors("read", self.path):
            data = self.path.read_bytes() if self.path.exists() else b""
        return tuple(_tips(data.decode("utf-8", errors="replace")))[-MOST_READ:]

    def add(self, tips: Sequence[Tip]) -> int:
        """Append those whose lesson isn't there yet; how many those were.

        Raises:
            StorageError: it can't be written.
        """
        if not tips:
            return 0
        with storage_errors("write", self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                return self._append(file, tips)

    def _append(self, file: FileIO, tips: Sequence[Tip]) -> int:
        file.seek(0)
        there = file.readall().decode("utf-8", errors="replace")
        known = {tip.lesson for tip in _tips(there)}
        new: dict[str, Tip] = {}
        for tip in tips:
            if tip.lesson not in known:
                new.setdefault(tip.lesson, tip)
        if not new:
            return 0
        head = "" if there else _head(self.path)
        gap = "" if not there or there.endswith("\n") else "\n"
        text = gap + head + "".join(map(_block, new.values()))
        write_all(file.fileno(), text.encode("utf-8", errors="backslashreplace"))
        os.fsync(file.fileno())
        if not there:
            sync_directory(self.path.parent)
        return len(new)


def _head(path: Path) -> str:
    device, operator, language = path.parts[-4:-1]
    return (
        f"# Tips: {operator} in {language} on {device}\n\n"
        "Lessons of campaigns, each told once; later ones read them before their first round. Add\n"
        "your own at the end in the same shape; `lesson` may be left out.\n"
    )


def _block(tip: Tip) -> str:
    values = tip.model_dump()
    lines = "".join(f"- {name}: {_line(values[name])}\n" for name in _FIELDS if values[name])
    return f"\n## {_line(tip.at)} from {_line(tip.origin)}\n\n{lines}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _tips(text: str) -> Iterator[Tip]:
    """Every block that has a takeaway."""
    for block in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        heading = _HEADING.match(block)
        fields = dict.fromkeys(_FIELDS, "")
        last = ""
        for line in block.splitlines()[1:]:
            if found := _FIELD.fullmatch(line.rstrip()):
                last = found["name"]
                fields[last] = found["text"].strip()
            elif last and line.startswith("  ") and line.strip():
                fields[last] += f" {line.strip()}"
        if heading is not None and fields["takeaway"]:
            yield Tip(at=heading["at"] or "", origin=heading["origin"].strip(), **fields)
