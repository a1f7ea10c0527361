"""A brief as the Markdown page that a model reads, of at most so many tokens. Pure.

What doesn't fit is left out in the order of `DROPPED`; all of it is behind
`roofsmith campaign show`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roofsmith.asking.fitting import cut, size
from roofsmith.asking.sections import SECTIONS, kernel_within

BYTES_PER_TOKEN: Final = 3.0
"""Of UTF-8, at the least that tables and source code take by tokenizers of the large models."""
MAX_TOKENS: Final = 12_000

DROPPED: Final[Sequence[tuple[str, int, str]]] = (
    ("notes", 1, "of notes added by hand, all but a quarter of the page, the newest"),
    (
        "kernel",
        1,
        "of a kernel larger than half of the page, all but that half in which it runs hot",
    ),
    ("reference", 1, "of a reference larger than a tenth of the page, all but a tenth"),
    ("facts", 1, "facts but for the ceilings that the bounds rest on"),
    ("tips", 1, "tips but for three"),
    ("knowledge", 1, "of what the library says, all but titles"),
    ("experience", 1, "of earlier campaigns, all but three changes that gained and three others"),
    ("bases", 1, "what undecided rounds change that may be built on, but for a sentence"),
    ("split", 1, "what a round changes that is worth a dispatch"),
    ("refused", 1, "refusals but for the last three"),
    ("history", 1, "rounds but for the last twelve and those that were kept"),
    ("listing", 1, "of the hot loops, all but sixty lines of the first"),
    ("workloads", 1, "workloads but for the twelve slowest"),
    ("tips", 2, "all tips"),
    ("knowledge", 2, "what the library says"),
    ("experience", 2, "what gained in earlier campaigns"),
    ("facts", 2, "all facts"),
    ("open_again", 1, "ideas that are open again, but for three"),
    ("directions", 1, "pointers to known implementations"),
    ("history", 2, "rounds but for the last five"),
    ("notes", 2, "of notes added by hand, all but a tenth of the page"),
    ("diagnosis", 1, "the diagnosis"),
    ("resources", 1, "what the compiler says of each kernel, but for two"),
    ("isa_targets", 1, "the ISA targets"),
    ("refused", 2, "all refusals"),
    ("listing", 2, "the hot loop"),
    ("kernel", 2, "of the kernel, all but a fifth of the page"),
    ("reference", 2, "the reference"),
    ("history", 3, "rounds but for the last two"),
)
"""What is left out where the page is too long, one step after the other until it fits: a section,
how much of it is gone then, and what that is in words."""


def page(found: Mapping[str, Any], max_tokens: int = MAX_TOKENS) -> str:
    """The document of `brief.document` as Markdown."""
    room = int(max_tokens * BYTES_PER_TOKEN)
    gone = dict.fromkeys(SECTIONS, 0)
    texts = {name: writer(found, 0, room) for name, writer in SECTIONS.items()}
    for name, level, _ in DROPPED:
        if size(_joined(texts)) <= room:
            break
        gone[name] = level
        texts[name] = SECTIONS[name](found, level, room)
    spare = room - size(_joined(texts))
    if gone["kernel"] and spare > 0:
        texts["kernel"] = kernel_within(found, size(texts["kernel"]) + spare)
    return _joined(_held(texts, room))


def _joined(texts: Mapping[str, str]) -> str:
    return "\n".join(text for text in texts.values() if text)


def _held(texts: dict[str, str], room: int) -> dict[str, str]:
    """Sections that fit, come what may: the longest are cut where nothing else helped."""
    if size(_joined(texts)) <= room:
        return texts
    left, kept = room - len(texts), dict[str, str]()
    waiting = sorted((name for name in texts if texts[name]), key=lambda name: size(texts[name]))
    for place, name in enumerate(waiting):
        kept[name] = cut(texts[name], left // (len(waiting) - place))
        left -= size(kept[name])
    return {name: kept[name] for name in texts if name in kept}
