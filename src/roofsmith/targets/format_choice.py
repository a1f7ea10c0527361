"""Which formatter a target asks for: what its folder is configured for, or what it names."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from roofsmith.domain.formatting import FORMATTED, FormatSpec, FormatTool
from roofsmith.domain.kernel import SourceFile
from roofsmith.errors import TargetError
from roofsmith.store.sources import read_text

_CONFIGS: dict[FormatTool, tuple[str, ...]] = {
    "clang-format": (".clang-format", "_clang-format"),
    "ruff": (".ruff.toml", "ruff.toml", "pyproject.toml"),
}


def chosen_format(said: str, folder: Path, names: Collection[str]) -> FormatSpec | None:
    """The formatter, with its configuration; None: candidates stay as they are proposed.

    Args:
        said: `off`, `auto`, `clang-format`, `ruff`, or a shell command.
        folder: of the kernel or the repository; configuration counts up to the repository's top.
        names: of the files that candidates may change.

    Raises:
        TargetError: a configuration can't be read.
    """
    match said.strip():
        case "" | "off":
            return None
        case "auto":
            return next(_configured(folder, names), None)
        case "clang-format":
            return FormatSpec(tool="clang-format", config=_config("clang-format", folder))
        case "ruff":
            return FormatSpec(tool="ruff", config=_config("ruff", folder))
        case command:
            return FormatSpec(tool="command", command=command)


def _configured(folder: Path, names: Collection[str]) -> Iterator[FormatSpec]:
    """Formatters that somebody configured, and that know a file's language."""
    suffixes = {PurePosixPath(name).suffix.lower() for name in names}
    for tool, known in FORMATTED.items():
        if suffixes & known and (config := _config(tool, folder)) is not None:
            yield FormatSpec(tool=tool, config=config)


def _config(tool: FormatTool, folder: Path) -> SourceFile | None:
    for place in _up_to_top(folder):
        for name in _CONFIGS[tool]:
            path = place / name
            if not path.is_file():
                continue
            text = read_text(path, "format", may_be_empty=True)
            if name != "pyproject.toml" or _configures_ruff(text, path):
                return SourceFile(path=name, text=text)
    return None


def _up_to_top(folder: Path) -> Iterator[Path]:
    """A folder and those above it in the same repository; alone where it is in none."""
    above = (folder, *folder.parents)
    top = next((place for place in above if (place / ".git").exists()), folder)
    yield from above[: above.index(top) + 1]


def _configures_ruff(text: str, path: Path) -> bool:
    try:
        return "ruff" in tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise TargetError(
            f"format: {path} is not TOML: {error}", hint="mend it, or say `format: off`"
        ) from error
