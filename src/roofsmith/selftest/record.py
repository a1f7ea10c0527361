"""What a run of the suite found, as a file: one section per language, each with its environment."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from roofsmith.domain.device import Environment
from roofsmith.domain.kernel import Language
from roofsmith.domain.values import Value
from roofsmith.errors import MachineError, StorageError, UsageError
from roofsmith.judge.version import judge_version
from roofsmith.machine.choice import source_for
from roofsmith.selftest.examination import BROKEN, SampleFinding, Unexamined
from roofsmith.selftest.samples import CorpusSample


class Section(Value):
    """The kernels of one language, and where and when they were judged."""

    command: str
    started: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    environment: Environment
    fingerprint: str
    load_average: float
    findings: tuple[SampleFinding, ...]

    @property
    def judges(self) -> dict[str, int]:
        """Versions of the judge, and how many kernels each of them judged; most first."""
        return dict(Counter(found.judge for found in self.findings).most_common())

    @property
    def attacks(self) -> tuple[SampleFinding, ...]:
        return tuple(found for found in self.findings if found.is_attack)

    @property
    def honest(self) -> tuple[SampleFinding, ...]:
        return tuple(found for found in self.findings if not found.is_attack)


class SelftestRecord(Value):
    """Sections by language."""

    sections: dict[str, Section] = Field(default_factory=dict)

    @property
    def text(self) -> str:
        """As it is written to a file: a line per finding."""
        sections = (
            f"{json.dumps(name)}: {_lines(section)}" for name, section in self.sections.items()
        )
        return '{"sections": {\n' + ",\n".join(sections) + "\n}}\n"

    def updated(self, newer: SelftestRecord) -> SelftestRecord:
        """With what a newer run found in place of its own.

        What that run didn't judge stays, if it was judged on a device of the same name.
        """
        merged = {
            name: _merged(self.sections[name], section) if name in self.sections else section
            for name, section in newer.sections.items()
        }
        return SelftestRecord(sections={**self.sections, **merged})

    def missing(self, chosen: Sequence[CorpusSample]) -> tuple[CorpusSample, ...]:
        """Kernels that, as their files are, this judge hasn't judged on a device of this name."""
        return tuple(sample for sample in chosen if not self._has(sample))

    def only(self, chosen: Sequence[CorpusSample]) -> SelftestRecord:
        ids = {sample.id for sample in chosen}
        sections = {
            name: section.model_copy(
                update={"findings": tuple(f for f in section.findings if f.id in ids)}
            )
            for name, section in self.sections.items()
        }
        return SelftestRecord(sections=sections)

    def _has(self, sample: CorpusSample) -> bool:
        section = self.sections.get(sample.language)
        return section is not None and any(
            (found.id, found.source, found.judge) == (sample.id, sample.digest, judge_version())
            and found.outcome != BROKEN
            for found in section.findings
            if section.environment.device.name == device_name(sample.language)
        )


class Run(Value):
    record: SelftestRecord
    unexamined: tuple[Unexamined, ...]
    """What this machine can't run."""

    @property
    def findings(self) -> tuple[SampleFinding, ...]:
        """All of them, by language."""
        return tuple(f for section in self.record.sections.values() for f in section.findings)

    @property
    def flawless(self) -> bool:
        """Whether every attack was caught and no honest kernel rejected, of those that ran."""
        return all(found.right for found in self.findings)


def run_of(seen: Sequence[SampleFinding | Unexamined], command: str, started: datetime) -> Run:
    """Findings with the environments that they were made in.

    Args:
        seen: in any order of languages.
        command: as it was typed.
        started: UTC.
    """
    by_language: dict[Language, list[SampleFinding]] = {}
    for found in seen:
        if isinstance(found, SampleFinding):
            by_language.setdefault(found.language, []).append(found)
    sections = {
        language: _section(language, findings, command, started)
        for language, findings in by_language.items()
    }
    absent = tuple(found for found in seen if isinstance(found, Unexamined))
    return Run(record=SelftestRecord(sections={**sections}), unexamined=absent)


def read(path: Path) -> SelftestRecord:
    """A record that was written before.

    Raises:
        UsageError: the file holds something else.
    """
    try:
        return SelftestRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} isn't a record of a selftest",
            hint="name a new file, or one that `roofsmith selftest --json` wrote",
        ) from error


def write(text: str, path: Path) -> None:
    """Replace a file at once: a reader never sees half of it.

    Raises:
        StorageError: it can't be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}") from error


def now() -> datetime:
    return datetime.now(UTC)


def _section(
    language: Language, findings: Sequence[SampleFinding], command: str, started: datetime
) -> Section:
    environment = _environment(language)
    return Section(
        command=command,
        started=f"{started:%Y-%m-%d %H:%M:%S}",
        environment=environment,
        fingerprint=environment.fingerprint,
        load_average=round(os.getloadavg()[0], 2),
        findings=tuple(findings),
    )


def device_name(language: Language) -> str | None:
    """Of the device that kernels in a language run on here; None without one."""
    try:
        return _environment(language).device.name
    except MachineError:
        return None


def _merged(older: Section, newer: Section) -> Section:
    if older.environment.device.name != newer.environment.device.name:
        return newer
    again = {found.id for found in newer.findings}
    stay = (found for found in older.findings if found.id not in again)
    findings = sorted((*stay, *newer.findings), key=lambda found: found.id)
    return newer.model_copy(update={"findings": tuple(findings)})


@cache
def _environment(language: Language) -> Environment:
    """Asked once: a record is written after every kernel."""
    return source_for(language).environment()


def _lines(section: Section) -> str:
    document = section.model_dump(mode="json")
    findings = ",\n".join(json.dumps(found) for found in document.pop("findings"))
    rest = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    return f'{{\n{rest},\n"findings": [\n{findings}\n]}}'
