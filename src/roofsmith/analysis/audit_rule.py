"""Which numbers in a text are hardware numbers: quantities said of a device. Pure.

A hardware number is a quantity in a unit of hardware (rates in byte/s, bit/s and FLOP/s, per clock;
Hz; W; sizes in bytes; counts of multiprocessors, cores and what one of them holds; latencies; FLOP
per byte) that a statement says of the device. What a kernel reaches, moves, holds or takes is none.
Whom a quantity is said of is read off the words around it, between the stops of a sentence:

- **rates** are the device's, unless a word for kernels (`reaches`, `achieved`, `moves`, `goal`,
  `candidate`, `63% of ...`) is nearer than one for devices (`bandwidth`, `HBM`, `the H100's`), or
  stands right before them; `peak`, `ceiling`, `theoretical` and the like always mean the device;
- **clocks** are the device's, unless something `ran`, `averaged` or `throttled` at them;
- **sizes** are the device's beside a word for a store (`L2 of 50 MB`, `50 MB L2`, `the GPU has
  80 GB`), unless a kernel `uses`, `needs`, `moves` or `stages` them;
- **counts** are the device's (`132 SMs`, `warp size 32`), and per multiprocessor, block or thread
  where a limit is meant (`at most 255 registers per thread`);
- **watts**, **latencies**, **bus widths** and **FLOP per byte** are the device's beside `TDP`,
  `power limit`, `L2 latency`, `bus`, `ridge` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from roofsmith.analysis import audit_words as lexicon
from roofsmith.analysis.audit_quantities import Quantity, quantities, quantity_of

_REACH = 300
"""Characters about a number that are read: longer sentences are none."""


@dataclass(frozen=True, slots=True)
class _Around:
    """A quantity and the words about it, up to the stops of its sentence and other quantities."""

    quantity: Quantity
    before: str
    after: str

    @property
    def all(self) -> str:
        return f"{self.before} {self.after}"


def hardware_numbers(statement: str) -> list[Quantity]:
    """The quantities of one statement that are said of a device, in order.

    Args:
        statement: a line of text, or a cell of a table after its headings.
    """
    text = plain(statement)
    found = [q for q in quantities(text) if _is_of_device(text, q)]
    taken = [(q.start, q.end) for q in found]
    for match in lexicon.COUNTED.finditer(text):
        start, end = match.span("number")
        if all(end <= first or start >= last for first, last in taken):
            counted = quantity_of(match["number"], "")
            found.append(replace(counted, text=match.group(), start=start, end=end))
    return sorted(found, key=lambda q: q.start)


def unmarked(text: str) -> str:
    """Text without markup, with plain spaces."""
    return re.sub(r"[*`\\]", "", re.sub(r"[\u00a0\u2007\u2009\u202f]", " ", text))


def plain(text: str) -> str:
    """The same as words: names of fields taken apart, product names without the size in them."""
    bare = re.sub(r"(?<!\w)_|_(?!\w)", "", unmarked(text))
    bare = re.sub(r"(?<=[A-Za-z0-9])[._](?=[A-Za-z])|(?<=[A-Za-z])_(?=[0-9])", " ", bare)
    return lexicon.PRODUCT.sub(lambda match: re.sub(r"\d+\s?GB", "", match.group()), bare)


def _is_of_device(text: str, quantity: Quantity) -> bool:
    judge = _JUDGES.get(str(quantity.dimension))
    if judge is None or lexicon.SHARE_AFTER.match(text, quantity.end):
        return False
    around = _around(text, quantity)
    return bool(lexicon.HAS_BEFORE.search(around.before)) or judge(around)


def _around(text: str, quantity: Quantity) -> _Around:
    # `L2 (50 MB)` is said of the L2: for sizes, an opening parenthesis is no stop.
    stop = lexicon.SIZE_STOP if quantity.dimension == "byte" else lexicon.STOP
    first, last = max(0, quantity.start - _REACH), min(len(text), quantity.end + _REACH)
    start = max((m.end() for m in stop.finditer(text, first, quantity.start)), default=first)
    end = next((m.start() for m in stop.finditer(text, quantity.end, last)), last)
    return _Around(quantity, text[start : quantity.start], text[quantity.end : end])


def _rate(around: _Around) -> bool:
    before, after = _clear(around.before), _clear(around.after)
    near_before, near_after = lexicon.PAUSE.split(before)[-1], lexicon.PAUSE.split(after)[0]
    last_words = " ".join(near_before.split()[-lexicon.NEAR :])
    strong_after = lexicon.STRONG.search(" ".join(near_after.split()[:2]))
    if (
        lexicon.KERNEL.search(last_words)
        and not lexicon.STRONG.search(_since_kernel(last_words))
        and not strong_after
    ):
        return False
    if lexicon.STRONG.search(f"{near_before} {near_after}"):
        return True
    device = _distance(before, after, lexicon.DEVICES, lexicon.WEAK, lexicon.STRONG)
    kernel = _distance(before, after, lexicon.KERNEL)
    return device <= kernel


def _clear(words: str) -> str:
    """Without shares of a peak, and without what belongs to another quantity."""
    return lexicon.SHARE.sub("", words)


def _since_kernel(words: str) -> str:
    return words[max((m.start() for m in lexicon.KERNEL.finditer(words)), default=0) :]


def _distance(before: str, after: str, *kinds: re.Pattern[str]) -> float:
    """Words between a quantity and the nearest word of some kinds; infinite without one."""
    distances = [float("inf")]
    for kind in kinds:
        distances += [len(before[m.end() :].split()) for m in kind.finditer(before)]
        # What follows another quantity belongs to that one rather.
        own = next((q.start for q in quantities(after)), len(after))
        distances += [len(after[: m.start()].split()) for m in kind.finditer(after[:own])]
    return min(distances)


def _size(around: _Around) -> bool:
    store = lexicon.STORE_BEFORE.search(around.before)
    if store is not None:
        return not _is_held(around.before[: store.start()])
    after = lexicon.STORE_AFTER.match(around.after)
    return after is not None and not _is_held(around.before)


def _is_held(before: str) -> bool:
    """Whether the last word about programs or places says that a program holds the bytes."""
    holds = max((m.end() for m in lexicon.HOLDS.finditer(before)), default=-1)
    places = (*lexicon.FITS.finditer(before), *lexicon.DEVICES.finditer(before))
    return holds > max((m.end() for m in places), default=-1)


def _clock(around: _Around) -> bool:
    before, after = around.before, around.after
    device = _distance(before, after, lexicon.DEVICES, lexicon.WEAK, lexicon.STRONG)
    return device <= _distance(before, after, lexicon.KERNEL)


def _beside(*kinds: re.Pattern[str]) -> Callable[[_Around], bool]:
    return lambda around: any(kind.search(around.all) for kind in kinds)


def _count(around: _Around) -> bool:
    last_words = " ".join(around.before.split()[-2:])
    part = lexicon.PART_USE_BEFORE.search(last_words) or lexicon.PART_USE_AFTER.match(around.after)
    return part is None


def _per(around: _Around) -> bool:
    before, after = around.before, around.after
    used = _distance(before, after, lexicon.HOLDS, lexicon.KERNEL)
    return _distance(before, after, lexicon.LIMIT) < used


_JUDGES: Final[dict[str, Callable[[_Around], bool]]] = {
    "byte/s": _rate,
    "bit/s": _rate,
    "FLOP/s": _rate,
    "per clock": _rate,
    "Hz": _clock,
    "byte": _size,
    "count": _count,
    "per": _per,
    "W": _beside(lexicon.POWER, lexicon.DEVICES),
    "s": _beside(lexicon.LATENCY),
    "cycle": _beside(lexicon.LATENCY),
    "FLOP/byte": _beside(lexicon.BALANCE),
    "bit": _beside(lexicon.BUS),
}
