"""How long texts are in bytes, and their beginnings where they are too long. Pure."""

from __future__ import annotations

from typing import Final

_MARK: Final = "[... cut ...]\n"


def size(text: str) -> int:
    """Bytes of UTF-8; what has no encoding counts as it is spelled out."""
    return len(text.encode("utf-8", errors="backslashreplace"))


def cut(text: str, room: int) -> str:
    """The first lines of a section, with their fence closed."""
    if size(text) <= room:
        return text
    kept, fence, left = list[str](), "", room - size(_MARK)
    for line in text.split("\n"):
        after = _fence_after(line, fence)
        left -= size(line) + 1
        if left < len(after) + 1:
            break
        kept.append(line)
        fence = after
    return "\n".join([*kept, *([fence] if fence else []), _MARK]) if kept else ""


def _fence_after(line: str, fence: str) -> str:
    """The backticks that would close what is open after a line; empty where nothing is."""
    ticks = line[: len(line) - len(line.lstrip("`"))]
    if fence:
        return "" if line == fence else fence
    return ticks if len(ticks) >= 3 else ""
