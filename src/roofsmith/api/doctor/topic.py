"""Makes checks: one topic, and what was found of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from roofsmith.domain.examination import Area, Check, Level
from roofsmith.domain.kernel import Language


@dataclass(frozen=True, slots=True)
class Topic:
    """What a check is about; makes checks of what was found."""

    area: Area
    name: str
    languages: tuple[Language, ...] = get_args(Language)
    required: bool = False

    def found(self, detail: str, fix: str | None = None) -> Check:
        """It is there; limited if something is to be fixed."""
        return self._check("limited" if fix else "ok", detail, fix, self.required, None)

    def limited(self, detail: str, fix: str | None) -> Check:
        """It works, but worse."""
        return self._check("limited", detail, fix, self.required, None)

    def missing(self, detail: str, fix: str | None, lack: str | None = None) -> Check:
        """Kernels in the topic's languages can't run."""
        return self._check("missing", detail, fix, True, lack)

    def _check(
        self, level: Level, detail: str, fix: str | None, required: bool, lack: str | None
    ) -> Check:
        return Check(
            area=self.area, name=self.name, level=level, detail=detail, fix=fix,
            languages=self.languages, required=required, lack=lack,
        )  # fmt: skip
