"""What a sentence asks of a campaign, each value with the words that it was read from.

The sentence is data: what a rule of `sentence.yaml` reads is taken out of it, and what no rule
reads is said. Nothing is looked up here, run, or guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from itertools import groupby
from typing import Any, Final

import yaml

from roofsmith.specs.product_names import PRODUCT
from roofsmith.store.sources import LANGUAGES
from roofsmith.store.workload_text import whole_number

LONGEST: Final = 4000
"""Characters: a page. Whoever has more to say writes a target file."""
_GONE: Final = "\0"
"""In place of what was read."""
_SIZES: Final = re.compile(
    r"(?:\b(?:with|for|and|at|(?:target_)?shapes?:?|sizes?:?|workloads?:?)\s+){0,8}"
    r"(?P<names>(?:\b[A-Za-z]\w{0,15}\s*=\s*){1,16})"
    r"(?P<size>1 ?<< ?\d{1,2}|\d\w*(?:(?:\*\*|\^)\d{1,2})?)(?![\w<*^]|\.\d|,\d{3}(?![\w=]))"
)
_TABLE: Final = re.compile(
    r"^[ |\t]*(?P<names>[A-Za-z]\w{0,15}(?:[ |\t]+[A-Za-z]\w{0,15})*)[ |\t]*\n(?:[ |\t:-]+\n)?"
    r"(?P<rows>(?:[ |\t]*\d[\w^*]*(?:[ |\t]+\d[\w^*]*)*[ |\t]*(?:\n|\Z))+)",
    re.MULTILINE,
)
"""`| N | D |` over a line for each workload, as Markdown or with blanks between."""
_SECONDS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_MANY: Final = (12, 100)
"""`two dozen` is 24, `twenty two` 22."""
_PLAIN: Final = {0x2019: "'", 0x201C: '"', 0x201D: '"', 0x3BC: "\xb5", 0: " "}
Match = re.Match[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """A parameter as it was read."""

    value: Any
    words: str


@dataclass(slots=True)
class Sentence:
    """What was read of a text, by parameter, and what wasn't."""

    text: str
    said: dict[str, list[Reading]] = field(default_factory=dict)
    rest: str = ""
    """The text, with what was read blanked."""

    def get(self, name: str) -> Reading | None:
        """What was read, where that is one thing."""
        found = self.said.get(name, [])
        return found[0] if len({str(one.value) for one in found}) == 1 else None

    def take(self, name: str, pattern: str, value: Callable[[Match], Any]) -> None:
        """Read a parameter wherever the pattern matches; a value of None is no reading."""
        for match in re.finditer(pattern, self.rest):
            if (read := value(match)) is not None:
                self.said.setdefault(name, []).append(Reading(read, self.blank(match)))

    def blank(self, match: Match) -> str:
        begin, end = match.span()
        self.rest = self.rest[:begin] + _GONE * (end - begin) + self.rest[end:]
        return " ".join(self.text[begin:end].split()).lstrip(":= ")

    @property
    def not_understood(self) -> tuple[str, ...]:
        """Phrases that no rule read, without the words that say nothing."""
        found = list[str]()
        for part in re.split(r"[\0,;:!?()\n]+|\.(?=\s|$)", self.rest):
            for is_filler, run in groupby(part.split(), _is_filler):
                phrase = " ".join(run)
                found += [phrase] * (not is_filler and bool(re.search(r"\w|[<>%=]", phrase)))
        return tuple(found)


def read_sentence(text: str) -> Sentence:
    """Read every parameter that a sentence names."""
    plain, rules = text[:LONGEST].translate(_PLAIN), table()
    found = Sentence(plain, rest=plain)
    found.take("invoked", r"^\s*/(?P<bare>[\w-]+)(?=\s)", _path)
    for name, (kind, words) in rules["fields"].items():
        # Of the colons in `model.py:Net` and `agent:NAME` none has a blank behind it.
        shape = "{text}" if name in rules["whole_lines"] else "{path}"
        words = words.replace("_", "[_ ]")
        _rule(found, name, kind, rf"(?<![\w./-])(?:{words})\s*(?::(?=\s|\"|')|=(?!=))\s*{shape}")
    _tabled(found)
    _sizes(found)
    for name, kind, pattern in rules["rules"]:
        _rule(found, name, kind, pattern)
    _one_language(found)
    operator = re.search(rf"(?i){_expanded(rules['op'])}", found.rest)
    if operator is not None and "op" not in found.said:
        found.said["op"] = [Reading(_operator(operator), found.blank(operator))]
    found.take("notes", rf"(?i){rules['note']}", lambda match: _note(found.text, match))
    return found


def _rule(found: Sentence, name: str, kind: Any, pattern: str) -> None:
    value = KINDS.get(kind, lambda _: kind)
    if (shape := table()["paths"].get(kind)) is not None:
        value = partial(_path, shape=rf"(?i){_expanded(shape)}")
    found.take(name, rf"(?i){_expanded(pattern)}", value)


@cache
def table() -> Any:
    rules = yaml.safe_load(resources.files(__package__).joinpath("sentence.yaml").read_bytes())
    return rules | {"filler": rules["filler"].split()}


@cache
def _expanded(pattern: str) -> str:
    rules = table()
    parts: Mapping[str, str] = rules["parts"] | {
        "numbers": "|".join(reversed(rules["numbers"])),
        "shares": "|".join(rules["shares"]),
        "filler": "|".join(map(re.escape, rules["filler"])),
        "products": PRODUCT.pattern,
        "languages": rf"(?-i:{'|'.join(f'(?:{one})' for one in rules['languages'].values())})",
        "suffix": rf"(?:{'|'.join(re.escape(one) for one in LANGUAGES)})(?::\w+)?",
    }
    while named := re.search(r"\{([a-z]\w+|n)\}", pattern):
        pattern = pattern.replace(named[0], parts[named[1]])
    return pattern


def _is_filler(word: str) -> bool:
    return word.strip(".'\"`<>-").lower() in table()["filler"]


def _path(match: Match, shape: str = "") -> str | None:
    """A quoted text as it is, else without what ends a sentence or a remark."""
    groups = match.groupdict()
    bare = str(groups.get("bare") or "").strip().lstrip("(")
    path = groups.get("quoted") or groups.get("angle") or bare.rstrip(".,;:!?)") or bare
    return path if path and re.search(shape, path) else None


def _number(match: Match) -> float | None:
    """`7`, `forty-five`, `two dozen`, `a hundred and ten`."""
    said = str(match.groupdict().get("n") or _path(match) or "").lower()
    known = table()["numbers"]
    words = [said] if said in known else re.split(r"(?:-| )(?:and )?", said)
    if words[0] not in known:
        return float(said) if re.fullmatch(r"\d+(?:\.\d+)?", said) else None
    total = 0.0
    for value in map(known.__getitem__, words):
        total = total * value if total and value in _MANY else total + value
    return total


def _whole(match: Match) -> int | str | None:
    if (_path(match) or "").lower() in ("none", "null", "unlimited"):
        return "none"
    number = _number(match)
    return int(number) if number is not None and number.is_integer() and number > 0 else None


def _seconds(match: Match) -> float | None:
    """`90 s`, `half an hour`, `two and a half hours`, `1 h 30 min`; without a number it is one."""
    number, unit = _number(match), _SECONDS[match["unit"][0].lower()]
    parts = filter(None, (match["part"], match["and1"], match["and2"]))
    share = sum(table()["shares"][part.lower()] for part in parts)
    whole = (0.0 if match["part"] else 1.0) if number is None else number
    more = float(match["more"]) * _SECONDS[match["unit2"][0].lower()] if match["more"] else 0.0
    return (whole + share) * unit + more or None


def _over(least: float, most: float, scale: float = 1.0, add: float = 0.0) -> Any:
    def value(match: Match) -> float | None:
        number = _number(match)
        inside = number is not None and least < number <= most
        return round(add + number / scale, 9) if inside and number is not None else None

    return value


def scale_of(unit: str) -> tuple[str, float] | None:
    """`GB/s` as bytes, 1e9: whether of operations a second, of bytes a second, or of seconds."""
    plain = re.sub(r"(?:/| per )?s(?:ec(?:ond)?s?)?$", "", unit.strip().lower())
    found = ((what, units.get(plain)) for what, units in table()["units"].items())
    return next(((what, scale) for what, scale in found if scale is not None), None)


def _quantity(match: Match) -> float | None:
    number, unit = _number(match), scale_of(match["unit"])
    # 40 us are 4e-5 s, not 3.9999999999999996e-05.
    return None if number is None or unit is None else float(f"{number * unit[1]:.15g}")


def _language(match: Match) -> str | None:
    said = _path(match) or match[0]
    names = table()["languages"].items()
    is_called = (name for name, words in names if re.fullmatch(words, said) or said.upper() == name)
    inside = (name for name, words in names if re.search(words, match.string[: match.end()][-40:]))
    return next(is_called, None) or next(inside, None)


def _note(text: str, match: Match) -> str | None:
    """What to keep to, in the sentence's own words; None if other rules read all that it says."""
    is_more = not all(map(_is_filler, re.findall(r"[\w'-]+", match[0])[1:]))
    return text[match.start() : match.end()].strip() if is_more else None


KINDS: Final[Mapping[Any, Callable[[Match], Any]]] = {
    "language": _language,
    "words": lambda match: match[0].strip(" ()") if "(" not in match[0] else match[0],
    "whole": _whole,
    "seconds": _seconds,
    "percent": _over(0, 100, 100),
    "factor": _over(1, 1e6),
    "added": _over(0, 1e6, 100, 1.0),
    "quantity": _quantity,
    "who": lambda match: f"{match['kind'].lower()}:{match['bare']}",
    "switch": lambda match: {"true": True, "false": False}.get(str(_path(match)).lower()),
}
"""What is made of a match, by the kind of value that a rule names."""


def _sizes(found: Sentence) -> None:
    """`N=4096,D=4096`, `M = N = K = 1024`; a name that comes again begins another workload."""
    workloads: list[dict[str, str]] = [{}]
    words = []
    for match in _SIZES.finditer(found.rest):
        size = re.sub(r"1 ?<< ?", "2**", match["size"].replace("_", ""))
        if whole_number(size) is None:
            continue
        names = re.findall(r"\w+", match["names"])
        if workloads[-1].keys() & set(names):
            workloads.append({})
        workloads[-1] |= dict.fromkeys(names, size)
        words.append(found.blank(match))
    if words:
        texts = tuple(",".join(f"{k}={v}" for k, v in one.items()) for one in workloads)
        found.said.setdefault("workloads", []).append(Reading(texts, ", ".join(words)))


def _tabled(found: Sentence) -> None:
    """Workloads of a table, unless its head reads as words or a cell holds no size."""
    for match in _TABLE.finditer(found.rest):
        names = re.findall(r"\w+", match["names"])
        rows = [re.findall(r"[^\s|]+", line) for line in match["rows"].splitlines()]
        is_prose = "|" not in match["names"] and any(map(_is_filler, names))
        sizes = [whole_number(cell) for row in rows for cell in row]
        if is_prose or None in sizes or any(len(row) != len(names) for row in rows):
            continue
        texts = (",".join(map("=".join, zip(names, row, strict=True))) for row in rows)
        found.said["workloads"] = [Reading(tuple(texts), found.blank(match))]


def _one_language(found: Sentence) -> None:
    """Of several, the one that something is to be written in; PyTorch may be what it comes from."""
    said = found.said.get("framework", [])
    said = [one for one in said if one.value != "TORCH"] or said
    into = re.compile(r"\b(?:in|into|to|as|as an?)\s+(?:an? |plain )?$", re.IGNORECASE)
    aimed = [one for one in said if into.search(found.text[: found.text.find(one.words)])]
    several = len({one.value for one in said}) > 1
    found.said["framework"] = aimed if several and aimed else said


def _operator(match: Match) -> str:
    """`blockwise FP8 GEMM` as gemm_fp8_blockwise: the type before its granularity."""
    details = re.findall(_expanded("{details}"), match[0].lower())
    ordered = sorted(dict.fromkeys(details), key=lambda word: not word[-1].isdigit())
    name = re.sub(r"matrix multipl\w+", "matmul", match["operator"].lower())
    return re.sub(r"\W+", "_", "_".join([name, *(word.replace("-", "") for word in ordered)]))
