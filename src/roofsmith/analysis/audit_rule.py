"""Which numbers in a text are hardware numbers: quantities said of a device. Pure.

A hardware number is a quantity in a unit of hardware (rates in byte/s, bit/s and FLOP/s, per clock;
Hz; W; sizes in bytes; counts of multiprocessors, cores and what one of them holds; latencies; FLOP
per byte) that a statement says of the device. What a kernel reaches, moves, holds or takes is none.
Whom a quantity is said of is read off the words around it, between the stops of a sentence:

- **rates** are the device's, unless a word for kernels (`reaches`, `achieved`, `moves`, `goal`,
  `candidate`, `63% of ...`) is nearer than one for devices (`bandwidth`, `HBM`, `the H100's`), or
  stands right before them; `peak`, `ceiling`, `theoretical` and the like always mean the device,
  and so do what a device itself reaches, what a share is of (`60% of the 4.8 TB/s`), and what work
  is divided by (`10 GB / 4.8 TB/s`, `with 4.8 TB/s the kernel would need 2 ms`);
- **clocks** are the device's, unless something `ran`, `averaged` or `throttled` at them;
- **sizes** are the device's beside a word for a store (`L2 of 50 MB`, `50 MB L2`, `the GPU has
  80 GB`), unless a kernel `uses`, `needs`, `moves` or `stages` them; shared memory is what a kernel
  allocates (`48 KB of shared memory`, `smem of 72 KB per block`), unless a device or a limit is
  named (`228 KB of shared memory per SM`, `shared memory: at most 227 KB per block`);
- **counts** are the device's (`132 SMs`, `warp size 32`), and per multiprocessor, block or thread
  where a limit is meant (`at most 255 registers per thread`), unless somebody sets it (`use at most
  64 registers per thread`); so many per multiprocessor as the smallest has mean a limit
  (`65536 registers per SM`), unless a word for kernels is near;
- **watts**, **latencies**, **bus widths** and **FLOP per byte** are the device's beside `TDP`,
  `power limit`, `L2 latency`, `bus`, `ridge` and the like, if no word for kernels is nearer.
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

    def between(self, pause: re.Pattern[str]) -> _Around:
        """The same up to the nearest pauses."""
        before, after = pause.split(self.before)[-1], pause.split(self.after)[0]
        return replace(self, before=before, after=after)


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
    placed = re.sub(r"(?<=\.cu):(?=\d)", " line ", unmarked(text))  # no compute units, but a file
    bare = re.sub(r"(?<!\w)_|_(?!\w)", "", placed)
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
    near = replace(around, before=before, after=after).between(lexicon.PAUSE)
    if _is_reached_by_device(near) or _is_whole(around):
        return True
    last_words = " ".join(near.before.split()[-lexicon.NEAR :])
    strong_after = lexicon.STRONG.search(" ".join(near.after.split()[:2]))
    if (
        lexicon.KERNEL.search(last_words)
        and not lexicon.STRONG.search(_since_kernel(last_words))
        and not strong_after
    ):
        return False
    if lexicon.STRONG.search(near.all):
        return True
    device = _distance(before, after, lexicon.DEVICES, lexicon.WEAK, lexicon.STRONG)
    kernel = _distance(before, after, lexicon.KERNEL)
    return device <= kernel


def _is_reached_by_device(near: _Around) -> bool:
    """Whether the device itself is who reaches it: `an H100 reaches 3.35 TB/s`."""
    reaches = lexicon.DEVICE_REACHES.search(near.before)
    if reaches is None or lexicon.BEFORE_PLACE.search(near.before[: reaches.start()]):
        return False
    return not lexicon.WHO_RUNS.search(near.all)


def _is_whole(around: _Around) -> bool:
    """Whether a share or a time is of it: `60% of the 4.8 TB/s`, not `that the baseline had`."""
    near = around.between(lexicon.PAUSE)
    if lexicon.GIVEN_BEFORE.search(near.before) and lexicon.GIVEN_AFTER.match(around.after):
        return True
    if lexicon.DIVISOR_BEFORE.search(near.before):
        return not lexicon.REACHED.search(around.all)
    if not lexicon.PART_OF_BEFORE.search(near.before):
        return False
    return bool(lexicon.DEVICES.search(near.after)) or not lexicon.KERNEL.search(near.after)


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
    before = lexicon.STORE_BEFORE.search(around.before)
    store = before or lexicon.STORE_AFTER.match(around.after)
    if store is None or _is_held(around.before[: before.start()] if before else around.before):
        return False
    return not lexicon.ALLOCATED.search(store.group()) or _is_capacity(around, before)


def _is_capacity(around: _Around, before: re.Match[str] | None) -> bool:
    """Whether so much of a store is said to be there, and not to be allocated."""
    near = around.between(lexicon.COMMA)
    if lexicon.CAPACITY.search(near.all) or lexicon.INTO_THE.search(near.before):
        return True
    if lexicon.ALLOCATION.search(around.all):
        return False
    return before is not None or bool(lexicon.DEVICES.search(around.all))


def _is_held(before: str) -> bool:
    """Whether the last word about programs or places says that a program holds the bytes."""
    holds = max((m.end() for m in lexicon.HOLDS.finditer(before)), default=-1)
    places = (*lexicon.FITS.finditer(before), *lexicon.DEVICES.finditer(before))
    return holds > max((m.end() for m in places), default=-1)


def _clock(around: _Around) -> bool:
    before, after = around.before, around.after
    device = _distance(before, after, lexicon.DEVICES, lexicon.WEAK, lexicon.STRONG)
    kernel = _distance(before, after, lexicon.KERNEL)
    return device <= kernel and not lexicon.FELL_TO.search(before)


def _beside(*kinds: re.Pattern[str], unless: re.Pattern[str]) -> Callable[[_Around], bool]:
    """Whether words of some kinds stand nearer than those of another."""

    def judge(around: _Around) -> bool:
        near = around.between(lexicon.COMMA)
        device = _distance(near.before, near.after, *kinds)
        return device < float("inf") and device <= _distance(near.before, near.after, unless)

    return judge


def _count(around: _Around) -> bool:
    last_words = " ".join(around.before.split()[-2:])
    if around.quantity.text.endswith(" cores") and lexicon.RUNS_ON.search(last_words):
        return False
    part = lexicon.PART_USE_BEFORE.search(last_words) or lexicon.PART_USE_AFTER.match(around.after)
    return part is None


def _per(around: _Around) -> bool:
    before, after = around.before, around.after
    near = around.between(lexicon.PAUSE)
    if not lexicon.DEVICES.search(near.all) and (
        lexicon.SETS_BEFORE.search(near.before) or lexicon.SETS_AFTER.match(near.after)
    ):
        return False
    used = _distance(before, after, lexicon.HOLDS, lexicon.KERNEL)
    if _is_all_there_is(around.quantity):
        used = min(used, _distance(before, after, lexicon.PLACED))
        return used == float("inf") or _distance(before, after, *_LIMITS) < used
    return _distance(before, after, lexicon.LIMIT) < used


def _is_all_there_is(quantity: Quantity) -> bool:
    """Whether no multiprocessor has so few that a kernel's share would be as many."""
    match = lexicon.PER_MULTIPROCESSOR.search(quantity.text)
    if match is None:
        return False
    return max(quantity.values) >= lexicon.LEAST_THERE_ARE[match["noun"].lower()]


_LIMITS: Final = (lexicon.LIMIT, lexicon.DEVICES)
_JUDGES: Final[dict[str, Callable[[_Around], bool]]] = {
    "byte/s": _rate,
    "bit/s": _rate,
    "FLOP/s": _rate,
    "per clock": _rate,
    "Hz": _clock,
    "byte": _size,
    "count": _count,
    "per": _per,
    "W": _beside(lexicon.POWER, lexicon.DEVICES, unless=lexicon.DRAWN),
    "s": _beside(lexicon.LATENCY, unless=lexicon.KERNEL),
    "cycle": _beside(lexicon.LATENCY, unless=lexicon.KERNEL),
    "FLOP/byte": _beside(lexicon.BALANCE, unless=lexicon.INTENSITY),
    "bit": _beside(lexicon.BUS, unless=lexicon.HOLDS),
}
