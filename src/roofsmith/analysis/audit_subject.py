"""Whether the words beside a number name another thing than the fact that it is cited as. Pure.

A number is said of something: a product, a type of arithmetic, a unit that computes, a store. Where
both the words and the fact name one, they must share it: `the fp8 peak` is not the fact of fp16.
What either of them leaves out isn't compared. Products are looked for in the whole sentence,
everything else in the words next to the number: up to the next comma, stop or other quantity, and
as far as it goes in a label before a colon.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from roofsmith.analysis.audit_quantities import dimension_of, quantities
from roofsmith.domain.facts import Fact


def _aspect(**names: str) -> re.Pattern[str]:
    """The names that one aspect can have, each with the words for it; the first that fits counts.

    A dot and an underline end a word, as in `peak_rates.tensor.sparse.fp16`.
    """
    choices = "|".join(rf"(?P<{name}>{words})" for name, words in names.items())
    return re.compile(rf"(?<![^\W_])(?:{choices})(?![^\W_])", re.IGNORECASE)


_OF_UNITS = (
    r"(?=[\s._-]*(?:cores?|units?|pipes?|engines?|peak|rate|dense|sparse|[bt]?fp?\d|b?float|int\d"
    r"|[,:]|$))"
)
_SPARSITY: Final = _aspect(
    dense=r"dense|(?:without|no|non)[\s-](?:structured\s)?sparsity", sparse=r"spars\w+"
)
_ASPECTS: Final = (
    _SPARSITY,
    _aspect(
        bf16=r"bf16|bfloat16",
        tf32=r"tf32|tfloat32",
        fp64=r"fp64|float64|f64|double[\s-]precision",
        fp32=r"fp32|float32|f32|single[\s-]precision",
        fp16=r"fp16|float16|f16|half[\s-]precision",
        fp8=r"fp8|float8|e4m3|e5m2",
        fp6=r"fp6",
        fp4=r"(?:nv|mx)?fp4",
        int32=r"u?int32",
        int8=r"u?int8",
        int4=r"u?int4",
    ),
    _aspect(
        vector=rf"(?:without|no)\s(?:the\s)?(?:tensor|matrix)\scores?|vector{_OF_UNITS}|FMA|SIMT"
        r"|VALU|CUDA\scores?",
        tensor=rf"(?:tensor|matrix){_OF_UNITS}|(?:W?G?M|MF)MA",
    ),
    _aspect(
        shared=r"shared[\s_]mem(?:ory)?|smem|LDS",
        tensor=r"TMEM|tensor\smemory",
        registers=r"register\sfiles?|registers?|regs?|[SV]GPRs?",
        l1=r"L1[di]?",
        l2=r"L2",
        l3=r"L3|LLC|last[\s-]level(?:\scache)?",
        infinity=r"infinity[\s_]cache|MALL",
        fabric=r"infinity[\s_]fabric",
        nvlink=r"NVLink\d?",
        pcie=r"PCIe|PCI[\s-]Express",
        memory=r"HBM\w*|L?P?G?DDR\w*|[DV]RAM|memory",
    ),
    _aspect(boost=r"boost", base=r"base(?=[\s_]clock)"),
    _aspect(
        multiprocessor=r"(?:per[\s_]|/\s?)(?:SM|CU|multiprocessor|compute\sunit)",
        block=r"(?:per[\s_]|/\s?)(?:(?:thread\s)?block|workgroup|CTA)",
        thread=r"(?:per[\s_]|/\s?)thread",
    ),
    _aspect(**{access: rf"{access}(?=\sbandwidth)" for access in ("read", "copy", "triad")}),
)
"""What a number may be said of: sparsity, type, unit, store, clock, share of the device, access."""

_HERE: Final = "here"
"""The machine that a campaign ran on, beside the places of pages."""
_THIS: Final = (
    r"(?:this|our)\s(?:machine|device|GPU|CPU|processor|card|chip|board|accelerator|host|server)"
)
_SENTENCE: Final = re.compile(r"[.!?](?=\s|$)")
_BREAK: Final = re.compile(r"[,;()\[\]\u2014]|[.!?](?=\s|$)|\b(?:and|but|while)\b")
_PAUSE: Final = re.compile(r"[,;()\[\]\u2014]|[.!?](?=\s|$)")
_LABEL_BEGINS: Final = re.compile(r":\s|;|[.!?](?=\s)")
_ASIDE: Final = re.compile(r"\s?\((?P<words>[^()]*)\)")


@dataclass(frozen=True)
class Products:
    """Which products people mean by which names, and whose facts a citation leads to."""

    pages: Mapping[str, Collection[str]]
    """A name to the places of the pages of all products that are called so."""
    here: Collection[str] | None = None
    """Pages of the machine that the campaign ran on; None where no campaign is known."""
    machine: str = ""
    """What that machine is called: also a slice of a product, which has no page of its own."""
    measured: Collection[str] = ()
    """Places of what was measured or reported on that machine."""

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(place for places in self.pages.values() for place in places)

    @cached_property
    def _folded(self) -> dict[str, frozenset[str]]:
        folded: dict[str, frozenset[str]] = {}
        for name, places in self.pages.items():
            folded[_folded(name)] = folded.get(_folded(name), frozenset()).union(places)
        return folded

    @cached_property
    def _names(self) -> re.Pattern[str]:
        """Longer names first: an `H100 PCIe` is not every `H100`; and an L4 cache is no product."""
        words = (r"[\s_-]+".join(map(re.escape, name.split())) for name in self._folded)
        names = "|".join((*sorted(words, key=len, reverse=True), _THIS))
        return re.compile(rf"(?<![\w-])(?:{names})(?!\w|\scaches?\b)", re.IGNORECASE)

    def named(self, text: str) -> frozenset[str]:
        """The pages of every product in a text, and `_HERE` for the campaign's machine."""
        places = (self._folded.get(_folded(m.group()), {_HERE}) for m in self._names.finditer(text))
        found = frozenset(place for several in places for place in several)
        return found - {_HERE} if self.here is None else found

    def without(self, text: str) -> str:
        """A text without its products."""
        return self._names.sub(" ", text)

    def is_page(self, fact: Fact) -> bool:
        """Whether the fact stands on a page of the wiki."""
        return fact.citation is not None and fact.citation.path in self._known

    def owners(self, fact: Fact) -> frozenset[str]:
        """What the fact is of: a page, the campaign's machine, or both; empty if nobody knows."""
        if fact.citation is None:
            return frozenset()
        path, here = fact.citation.path, self.here or ()
        if path in self._known:
            return frozenset((path, _HERE) if path in here else (path,))
        if path not in self.measured:
            return frozenset()
        return frozenset((*here, *self.named(self.machine), _HERE))


NO_PRODUCTS: Final = Products({})


def contradiction(
    text: str, start: int, end: int, fact: Fact, products: Products = NO_PRODUCTS
) -> str | None:
    """What the words say the number of, if it isn't what the fact is of; None if they agree.

    Args:
        text: the statement.
        start: of the number.
        end: after it and its unit.
        fact: whose value it has.
        products: who is who.
    """
    sentence = _sentence(text, start, end)
    named, owners = products.named(sentence), products.owners(fact)
    if named and owners and not named & owners:
        return "another product's"
    metric = _spoken(fact.metric)
    if "sparse" in _names(_SPARSITY, metric) - _names(_SPARSITY, sentence):
        return "a sparse rate, and not called so"
    words = products.without(f"{_before(text[:start])} {text[start:end]} {_after(text[end:])}")
    for aspect in _ASPECTS:
        own, said = _names(aspect, metric), _names(aspect, words)
        if own and said and not own & said:
            return f"not {', '.join(sorted(said))}"
    return None


def is_name_of(label: str, fact: Fact, products: Products = NO_PRODUCTS) -> bool:
    """Whether a label has no word but those of the fact's metric and of what it is measured in.

    Args:
        label: what stands before the colon of `<metric>: <value> <unit> <- <place>`.
        fact: what the citation leads to.
        products: who is who; their names may stand in a label.
    """
    metric = _spoken(fact.metric)
    rest = re.sub(r"(?<=\w)['\u2019]s\b", "", products.without(_spoken(label)))
    for aspect in _ASPECTS:
        rest = _without(aspect, _names(aspect, metric), rest)
    known = {*_stems(metric), *_stems(_SAID_OF.get(dimension_of(fact.unit), "")), *_ANY_METRIC}
    return _stems(rest) <= known


_ANY_METRIC: Final = frozenset((
    "the", "of", "a", "an", "in", "on", "at", "for", "per", "and", "its", "with", "is", "peak",
    "rate", "max", "maximum", "theoretical", "total", "nvidia", "amd", "hardware", "datasheet",
    "spec",
))  # fmt: skip
"""Words that a name may have whatever it is the name of."""
_SAID_OF: Final = {
    "byte/s": "bandwidth bw throughput",
    "FLOP/s": "throughput compute tensor matrix core unit",
    "Hz": "clock frequency",
    "W": "power limit board",
    "byte": "size capacity cache memory",
    "count": "count number size limit multiprocessor compute unit",
    "bit": "bus width interface",
}
"""Words for whatever is measured so."""


def _names(aspect: re.Pattern[str], text: str) -> set[str]:
    return {str(match.lastgroup) for match in aspect.finditer(text)}


def _without(aspect: re.Pattern[str], names: set[str], text: str) -> str:
    """A text without the words for some names of an aspect."""
    return aspect.sub(lambda match: " " if match.lastgroup in names else match.group(), text)


def _spoken(metric: str) -> str:
    return re.sub(r"[._]", " ", metric)


def _stems(text: str) -> set[str]:
    """Words without the `s` of many; not numbers."""
    return {word.removesuffix("s") for word in re.findall(r"\b[a-z]\w*", text.lower())}


def _folded(name: str) -> str:
    return " ".join(re.sub(r"[\s_-]+", " ", name).split()).casefold()


def _sentence(text: str, start: int, end: int) -> str:
    first = max((m.end() for m in _SENTENCE.finditer(text, 0, start)), default=0)
    last = next((m.start() for m in _SENTENCE.finditer(text, end)), len(text))
    return text[first:last]


def _before(text: str) -> str:
    """The words before a number that belong to it: of a label all of them."""
    if text.rstrip().endswith(":"):
        return _LABEL_BEGINS.split(text.rstrip()[:-1])[-1]
    near = _PAUSE.split(text)[-1]
    others = list(quantities(near))
    if not others:
        return near
    return _BREAK.split(near[others[-1].end :], maxsplit=1)[-1]  # `50 MB of L2 and 3.35 TB/s`


def _after(text: str) -> str:
    """The words after a number that belong to it, and what stands in parentheses behind it."""
    aside = _ASIDE.match(text)
    if aside is not None:
        return aside["words"] if next(quantities(aside["words"]), None) is None else ""
    near = _BREAK.split(text)[0]
    other = next(quantities(near), None)
    return near[: other.start] if other else near
