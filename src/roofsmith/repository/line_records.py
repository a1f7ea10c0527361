"""Records of lines that name a value each: `time: 1.5 ms`, under a title or without. Pure.

Also `fib/20   time: [1 ms 2 ms 3 ms]` of criterion, of which the middle counts, `real 0m1.5s` of a
shell's `time`, `perf stat`, which has the number first, and what Catch2 and Divan print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from roofsmith.repository.cells import CELL, NUMBER, UNIT, is_naming

MAX_LINE: Final = 1000
"""Characters of a line that may hold `name=value`: more is no line for people."""
CASE: Final = "case"
"""What the column is called that holds titles."""
_NAMED: Final = re.compile(
    rf"(?:METRIC\s+)?([A-Za-z_](?:[^:=.]|\.(?!\.)){{0,80}}?)\s*[:=]\s*(?P<value>{CELL}|[^\s=]+)(?:\s+\[.*\])?"
)
_NUMBERED: Final = re.compile(r"([A-Z][a-z]+) #?\d+:\s+(\S.*)")
"""`Benchmark 1: ./sum 1000`, of hyperfine."""
_TRIPLE: Final = re.compile(
    rf"(?:(?P<title>\S.*?)\s{{2,}})?(?P<name>[a-z]\w*):\s+\[{NUMBER} {UNIT}"
    rf" (?P<value>{NUMBER} {UNIT}) {NUMBER} {UNIT}\]"
)
_SPACED: Final = re.compile(
    rf"([A-Za-z](?:[\w/.-]| (?! )){{0,60}}?)(?:\t|\s{{2,}})\s*({NUMBER}\s?{UNIT})"
)
_CLOCK: Final = re.compile(r"(?P<name>real|user|sys)\s+(?P<min>\d+)m(?P<s>[\d.]+)s")
_COUNTED: Final = re.compile(r"Performance counter stats for '(.*)'(?: \(\d+ runs\))?:")
_COUNT: Final = re.compile(
    rf"\s+(?P<number>\d[\d,]*(?:\.\d+)?|{NUMBER})(?:\s*\+-\s*{NUMBER})?\s+(?:(?P<unit>msec|seconds)\s+)?"
    r"(?P<name>[A-Za-z][\w.:/-]*(?: [a-z]+)?)(?:\s+#.*)?(?:\s+\(.*\))?\s*"
)
_COUNT_CSV: Final = re.compile(rf"({NUMBER}),(\w*),([A-Za-z][\w.:/-]*),(?:\d+),[\d.]+,.*")
_TELLING: Final = ("cycles", "instructions")
_TREE: Final = re.compile(r"\S+\s+(fastest\s+│ slowest\s.*)")
_BRANCH: Final = re.compile(r"((?:[│ ]  )*)[├╰]─ (\S.*?)(?:\s{2,}(.*))?")
_AROUND: Final = " \t=#*-_:[]>"
"""What is drawn around a title."""

Found = tuple[str | None, str, str]
"""A title, if the line has one, a name and its value."""


def records_of(lines: Sequence[str]) -> list[dict[str, str]]:
    """A record ends where one of its names comes again; the line above it is its title."""
    records, titles = [dict[str, str]()], [""]
    above = ""
    for line in lines:
        found = _found(line) if len(line) <= MAX_LINE else None
        if found is None:
            above = line.strip(_AROUND) if len(line) <= MAX_LINE else ""
            continue
        own, name, value = found
        title = above if own is None else own
        is_next = bool(own) and bool(records[-1]) and own != titles[-1]
        if name in records[-1] or is_next:
            records.append({})
            titles.append("")
        titles[-1] = titles[-1] or title
        records[-1][name] = value
        above = ""
    kept = [(title, one) for title, one in zip(titles, records, strict=True) if one]
    titled = [(title, one) for title, one in kept if title and CASE not in one]
    if len(titled) > 1 and len(dict(titled)) == len(titled):
        common = [name for name in titled[0][1] if all(name in one for _, one in titled)]
        lost = [one for title, one in kept if not title and {*common} & one.keys()]
        if common and not lost:
            return [{CASE: title} | {name: one[name] for name in common} for title, one in titled]
    return [one for _, one in kept]


def _found(line: str) -> Found | None:
    text = line.strip()
    if hit := _TRIPLE.fullmatch(text):
        return hit["title"], hit["name"], hit["value"]
    if hit := _NAMED.fullmatch(text):
        return None, hit[1], hit["value"]
    if hit := _NUMBERED.fullmatch(text):
        return None, hit[1], hit[2]
    if hit := _CLOCK.fullmatch(text):
        return None, hit["name"], f"{60 * int(hit['min']) + float(hit['s']):g} s"
    return None


def spaced_records(lines: Sequence[str]) -> list[dict[str, str]]:
    """One record of lines such as `Elapsed    1.5 s`; none where a name comes twice."""
    short = (line.strip() for line in lines if len(line) <= MAX_LINE)
    pairs = [(hit[1].strip(), hit[2]) for line in short if (hit := _SPACED.fullmatch(line))]
    found = dict(pairs)
    return [found] if len(found) == len(pairs) and found else []


def stacked_records(lines: Sequence[str]) -> list[dict[str, str]]:
    """Records of Catch2: header and rows have three lines each, of which two are indented."""
    split = [re.split(r"\s{2,}", line.strip()) for line in lines]
    names, title, at, records = list[str](), "", 0, list[dict[str, str]]()
    while at + 2 < len(lines):
        first, *below = split[at : at + 3]
        three = zip(lines[at : at + 3], split[at : at + 3], strict=True)
        shape = [(line[:1].isspace(), len(fields)) for line, fields in three]
        fields = [*first, *below[0], *below[1]]
        if shape[1:] != [(True, shape[0][1] - 1)] * 2 or shape[0][0] or len(first) < 3:
            is_wrapped = len(first) == 1 and re.search(r"\w", first[0])
            title, at = f"{title}{first[0]} " if is_wrapped else "", at + 1
            continue
        if is_naming(fields):
            names = fields
        elif len(fields) == len(names):
            records.append(dict(zip(names, [title + fields[0], *fields[1:]], strict=True)))
        title, at = "", at + 3
    return records


def tree_records(lines: Sequence[str]) -> list[dict[str, str]]:
    """Records of Divan, which draws its cases as a tree: `├─ sum   1.2 ns   │ 1.3 ns`."""
    names, path, records = list[str](), list[str](), list[dict[str, str]]()
    for line in lines:
        if header := _TREE.fullmatch(line):
            names = [name.strip() for name in header[1].split("│")]
        elif names and (hit := _BRANCH.fullmatch(line)):
            path = [*path[: len(hit[1]) // 3], hit[2]]
            cells = [cell.strip() for cell in (hit[3] or "").split("│")]
            if cells[0] and len(cells) == len(names):
                records.append({CASE: "/".join(path)} | dict(zip(names, cells, strict=True)))
    return records


def perf_records(lines: Sequence[str]) -> list[dict[str, str]]:
    """A record per command that `perf stat` counted: `12.34 msec task-clock  # 0.9 CPUs`."""
    records = list[dict[str, str]]()
    for line in lines:
        if begin := _COUNTED.fullmatch(line.strip()):
            records.append({"command": begin[1]})
        elif records and (hit := _COUNT.fullmatch(line)):
            number, unit = hit["number"].replace(",", ""), hit["unit"]
            name = f"{hit['name']} time" if hit["name"] in ("user", "sys") else hit["name"]
            if unit or name in _TELLING:  # others, such as page faults, are beside the point
                records[-1][name] = f"{number} {unit}" if unit else number
    return records or [record for record in [dict(_counts_of_csv(lines))] if record]


def _counts_of_csv(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Of `perf stat -x,`, which names no columns."""
    for line in lines:
        if len(line) <= MAX_LINE and (hit := _COUNT_CSV.fullmatch(line.strip())):
            yield hit[3], f"{hit[1]} {hit[2]}".strip()
