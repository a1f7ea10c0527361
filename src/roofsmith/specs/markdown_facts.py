"""Numbers with units in a Markdown document, each with the one product that it is said of.

The nearest of these decides which product that is: the column, the row or the sentence itself, the
headings from the inside out, the file's name. One that names two products, a relative or a whole
server says nothing of either. Numbers that are hedged, marked with a footnote or given twice are
left out: a fact that isn't there is UNKNOWN, a wrong one is worse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from roofsmith.analysis.quantities import NUMBER, quantity
from roofsmith.specs.product_names import ProductName, products_in
from roofsmith.specs.wiki_metrics import SYNONYMS, VECTOR_TYPES

HEDGES: Final = re.compile(
    r"[~≈?≤≥<>±†‡*]|(?:\b(?:about|approx\w*|around|roughly|circa|ca|should|would|could|may|might"
    r"|usually|typical\w*|probabl[ye]|presumabl[ye]|maybe|perhaps|estimat\w*|expect\w*|similar\w*"
    r"|like(?:ly)?|assum\w*|guess\w*|rumou?r\w*|unofficial|unconfirmed|unverified|reported(?:ly)?"
    r"|preliminary|projected|speculat\w*|nearly|almost|over|under|up to|at (?:least|most)|tbd"
    r"|not?|never|instead|than|vs|versus|compared|unlike|half|twice|double|achieved?|measured"
    r"|effective|sustained|practical)\b)",
    re.IGNORECASE,
)
"""Words and signs of who doesn't know, compares, or speaks of something else than a limit."""
_OTHER_THING: Final = re.compile(
    r"(?<![A-Za-z0-9])\d+\s*[x\u00d7]|\d[- ]gpus?\b|\s[x\u00d7]\s*\d|\b(?:[hd]gx|nodes?|servers?"
    r"|systems?|boards?|racks?|aggregate|total|per (?:stack|gcd|die|xcd)|variant|edition|vgpu|mig"
    r"|slice|partition)\b",
    re.IGNORECASE,
)
"""Of more, or of less, than one product."""
_DOUBTFUL_PART: Final = re.compile(
    r"\b(?:estimat|rumou?r|unofficial|unconfirmed|preliminary|speculat|similar|approx)\w*", re.I
)
"""In a heading: numbers beneath it are doubtful."""
_COMPARES: Final = re.compile(r"\b(?:compar|differ|versus|vs|than|against|relative)\w*", re.I)
"""In a heading: numbers beneath it are of whichever product, unless they name one."""
_BARE: Final = re.compile(r"(?:peak |max )?bandwidth")
_OF_MEMORY: Final = re.compile(r"memory|hbm|dram|gddr", re.IGNORECASE)
"""In the heading of what is called bandwidth alone: it may be a link's, or a cache's."""
_UNIT: Final = (
    r"[kKMGTPE]i?B(?:ytes?)?(?:/s(?:ec)?|ps)?|[MGTPE]FLOP[Ss]?(?:/s)?|T?OPS|[kMG]Hz|SMs?|CUs?"
    r"|[Bb](?:ytes?)?/(?:clk|cycle)/(?:CU|SM)|W|bits?"
)
_QUANTITY: Final = re.compile(
    rf"(?<![\w.,/-])(?P<number>{NUMBER})(?:\s*(?P<unit>{_UNIT}))(?![\w/*†‡^])"
)
_CELL: Final = re.compile(
    rf"(?P<number>{NUMBER})\s*(?P<unit>{_UNIT})?(?:\s+(?:HBM\w*|GDDR\w*))?(?:\s*\((?P<said>[^()\d]*|(?:HBM|GDDR)\w*)\))?"
)
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
_RULE: Final = frozenset("|-: \t")
"""Signs between a table's head and its body."""
_LEAD: Final = re.compile(
    r".*(?:\b(?:the|an?|its|has|have|with|and|offers?|provides?|delivers?|is)\b|[,.;])\s",
    re.IGNORECASE,
)
_TRAIL: Final = re.compile(r"\s*(?:of|is|at|:|=|\||-)*\s*$", re.IGNORECASE)
_FULL_STOP: Final = re.compile(r"(?<=[a-z0-9)])\.\s+(?=[A-Z])")
_ENDS: Final = re.compile(r"\s*(?:$|[.,;)]|\((?:[^()\d]*|(?:HBM|GDDR)\w*)\))")
_VALUE_COLUMNS: Final = frozenset({"value", "spec", "specification", "peak", "figure", ""})
_ASIDE_COLUMNS: Final = frozenset({"note", "notes", "remark", "remarks", "comment", "source"})
LONGEST_LINE: Final = 2000
"""Characters; nobody writes a fact into more."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A number that a line states of a product."""

    product: ProductName
    metric: Metric
    line: int
    under: str
    """The headings above it, from the outside in."""


def stated_in(path: str, text: str) -> Iterator[Stated]:
    """Everything that a document states.

    Args:
        path: of the document; its name counts where no heading names a product.
    """
    reader = _Reader(PurePosixPath(path).stem)
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and len(line) <= LONGEST_LINE:
            yield from reader.read(line.strip(), number)


class _Reader:
    def __init__(self, stem: str) -> None:
        self._stem = stem
        self._headings: dict[int, str] = {}
        self._columns: Sequence[str] = ()
        self._before: Sequence[str] = ()

    def read(self, line: str, number: int) -> Iterator[Stated]:
        before, self._before = self._before, ()
        if heading := _HEADING.fullmatch(line):
            level = len(heading[1])
            self._headings = {k: v for k, v in self._headings.items() if k < level}
            self._headings[level] = heading[2]
            self._columns = ()
        elif "|" in line and "-" in line and _RULE.issuperset(line):
            self._columns = before
        elif "|" in line:
            self._before = _cells(line)
            yield from self._row(self._before, number) if self._columns else ()
        elif not line.startswith((">", "<!--")):
            self._columns = ()
            for sentence in _FULL_STOP.split(line):
                yield from self._sentence(sentence, number)

    def _row(self, cells: Sequence[str], number: int) -> Iterator[Stated]:
        named = dict(zip(map(plain, self._columns), cells, strict=False))
        asides = " ".join(text for column, text in named.items() if column in _ASIDE_COLUMNS)
        unit = next((named[c] for c in ("unit", "units") if c in named), "")
        for column, cell in list(zip(self._columns, cells, strict=False))[1:]:
            found = _CELL.fullmatch(cell.replace("**", ""))
            heads = plain(column)
            if found is None or heads in _ASIDE_COLUMNS:
                continue
            row = cells[0]
            if heads in _VALUE_COLUMNS or products_in(column):
                label = row
            elif products_in(row):
                label = column
            else:
                label = f"{row} {column}"
            around = f"{row} {column} {found['said'] or ''} {asides}"
            if products_in(row) and products_in(column):
                continue
            if HEDGES.search(around.replace("*", "")) or _OTHER_THING.search(f"{row} {column}"):
                continue
            if "spars" in asides.lower() and "spars" not in label.lower():
                continue
            product = self._product(column, row)
            written = found["unit"] or unit or _unit_in(column) or _unit_in(row)
            label = f"{label} {_kind(cell)}"
            yield from self._stated(product, label, found["number"], written, number)

    def _sentence(self, line: str, number: int) -> Iterator[Stated]:
        text = re.sub(r"^(?:[-*+]|\d+[.)])\s+", "", line).replace("**", "").replace("`", "")
        numbers = list(_QUANTITY.finditer(text))
        if len(numbers) != 1:
            return
        one = numbers[0]
        after = text[one.end() :]
        if HEDGES.search(text) or _OTHER_THING.search(text) or not _ENDS.match(after):
            return
        before = text[: one.start()]
        is_row = before.rstrip().endswith((":", "="))  # running text may say anything of anything
        label = _LEAD.sub("", _TRAIL.sub("", before) + " ").strip()
        label = f"{label} {_kind(after)}"
        for found in self._stated(self._product(text), label, one["number"], one["unit"], number):
            if is_row or not found.metric.path.startswith(UNLISTED):
                yield found

    def _stated(
        self, product: ProductName | None, label: str, number: str, unit: str, line: int
    ) -> Iterator[Stated]:
        if product is None:
            return
        label = _without_products(label) or unit
        above = list(self._headings.values())[-1:]
        if _BARE.fullmatch(plain(label)) and not any(map(_OF_MEMORY.search, above)):
            return
        for metric in metrics_of(label, number, unit, amd=product.is_amd):
            yield Stated(product, metric, line, " > ".join(self._headings.values()))

    def _product(self, *nearest: str) -> ProductName | None:
        """The one product that something is said of here; None: it isn't one."""
        headings = [text for _, text in sorted(self._headings.items(), reverse=True)]
        if any(_DOUBTFUL_PART.search(text) for text in headings):
            return None
        above = () if any(map(_COMPARES.search, headings)) else (*headings, self._stem)
        for text in (*nearest, *above):
            if named := products_in(text):
                is_one = len(named) == 1 and not _OTHER_THING.search(text)
                return next(iter(named)) if is_one else None
        return None


def _kind(text: str) -> str:
    """What brackets say of a rate: `(dense)`, `(with sparsity)`."""
    found = re.search(r"\(((?:with )?(?:dense|sparsity|sparse|tensor|matrix|vector)[^()]*)\)", text)
    return found[1] if found else ""


def _without_products(label: str) -> str:
    words = label.split()
    return " ".join(
        word for word in words if not products_in(word) and word.lower() not in ("nvidia", "amd")
    )


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _unit_in(label: str) -> str:
    """The unit of a label such as `Bandwidth (TB/s)` or `TFLOPS dense`."""
    found = re.findall(rf"(?<![\w/])({_UNIT})(?![\w/])", label)
    return found[0] if len(found) == 1 else ""


_MEMORY: Final = r"(?:gpu |device |global )?(?:hbm\w*|gddr\w*|v?ram|dram|memory)"
_KINDS: Final = tuple(
    (path, unit, re.compile(pattern))
    for path, unit, pattern in (
        ("memory.bandwidth_byte_per_s", "byte/s", rf"(?:peak |max )?(?:{_MEMORY} )*bandwidth"),
        ("memory.size_bytes", "byte", rf"(?:{_MEMORY} ?)+(?:capacity|size)?"),
        ("caches.l2_bytes", "byte", r"l2(?: cache)?(?: size| capacity)?"),
        ("caches.infinity_cache_bytes", "byte", r"infinity cache(?: size| capacity)?|mall"),
        ("caches.lds_per_cu_bytes", "byte", r"lds(?: size| capacity)?(?: per cu|/cu)?"),
        (
            "caches.shared_memory_per_sm_max_bytes",
            "byte",
            r"(?:max )?(?:shared memory|smem)(?: size| capacity)?(?: per sm|/sm)?",
        ),
        ("caches.lds_bandwidth", "byte/clk/CU", r"(?:peak )?lds bandwidth(?: per cu|/cu)?"),
        (
            "execution.sm_count",
            "SM",
            r"(?:number of )?(?:sms?|streaming multiprocessors)(?: count)?",
        ),
        ("execution.cu_count", "CU", r"(?:cus?|compute units)(?: count)?"),
        ("execution.boost_clock_hz", "Hz", r"(?:max |peak )?(?:boost|engine) clock"),
    )
)
_TYPE: Final = re.compile(r"(?:fp(?:64|32|16|8)|tf32|bf16|int(?:8|32))")
_MATRIX: Final = frozenset({"tensor", "matrix", "mfma"})
_VECTOR: Final = frozenset({"vector", "cuda", "non-tensor", "simt"})
_SPARSE: Final = frozenset({"sparse", "sparsity", "2:4"})
_RATE_WORDS: Final = frozenset(
    ("core", "cores", "dense", "peak", "theoretical", "performance", "throughput", "compute",
     "rate", "max", "with", "single", "precision", "units", "tflops", "tflop/s",
     "pflops", "tops", "flops", "ops")
)  # fmt: skip
_MARKS: Final = re.compile(
    r"[*`]|(?<!\w)_|_(?!\w)|number of "
    r"|[(\[](?:[kMGTP]i?B|[TPG]?FLOPS?|T?OPS|[MG]Hz|HBM|GDDR|CUs?\b|SMs?\b)[^)\]]*[)\]]",
    re.IGNORECASE,
)
UNLISTED: Final = "stated."
"""Section of what the wiki has no path for."""
LARGEST: Final = 1e9
"""In front of a unit with its prefix; what is more isn't of this world."""
_BINARY: Final = "caches."
"""Sections whose KB and MB are binary; memory is sold in decimal ones."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A path, and the value in the unit that the wiki has for it."""

    path: str
    value: float
    unit: str


def metrics_of(label: str, number: str, unit: str, *, amd: bool) -> Iterator[Metric]:
    """What a labelled number states; a label that isn't known is a path of its own.

    Nothing, where a known metric has a unit that is another kind of quantity.
    """
    name = plain(label)
    found = quantity(number, unit or "count")
    if not 0 < found.number < LARGEST:
        return
    base = re.sub(r"^byte?s?(?=/clk/)|^b(?=/clk/)", "byte", found.unit, flags=re.IGNORECASE)
    rates = tuple(_rates(name, amd=amd))
    for path in rates:
        wanted = "OP/s" if path.rpartition(".")[2].startswith("int") else "FLOP/s"
        if base == wanted:
            yield Metric(path, found.number * found.scales[0], wanted)
    known = next(((p, u) for p, u, pattern in _KINDS if pattern.fullmatch(name)), None)
    if known is not None:
        path, wanted = known
        if base == wanted or (wanted in ("SM", "CU") and base in ("count", f"{wanted}s", wanted)):
            scale = found.scales[-1 if path.startswith(_BINARY) else 0]
            yield Metric(path, found.number * scale, wanted)
    elif not rates and unit and name and not _TYPE.search(name):
        words = re.sub(r"[^a-z0-9]+", "_", name).strip("_")
        yield Metric(f"{UNLISTED}{words}", found.number * found.scales[0], base)


def plain(label: str) -> str:
    """A label in small letters, without mark-up, brackets and units in brackets."""
    return " ".join(re.sub(r"[()\[\],:]", " ", _MARKS.sub("", label)).lower().split())


def _rates(name: str, *, amd: bool) -> Iterator[str]:
    """Paths of peak rates: a bare type is the row that vendors print under it."""
    words = re.split(r"[ /]+(?!s\b)", name)
    types = [kind for word in words if _TYPE.fullmatch(kind := SYNONYMS.get(word, word))]
    rest = {word for word in words if not _TYPE.fullmatch(SYNONYMS.get(word, word))}
    matrix, vector, sparse = rest & _MATRIX, rest & _VECTOR, rest & _SPARSE
    if not types or rest - _MATRIX - _VECTOR - _SPARSE - _RATE_WORDS or (matrix and vector):
        return
    for kind in types:
        on_vectors = bool(vector) or (not matrix and kind in VECTOR_TYPES)
        unit = "vector" if on_vectors else "matrix" if amd else "tensor"
        yield f"peak_rates.{unit}.{'sparse' if sparse else 'dense'}.{kind}"
