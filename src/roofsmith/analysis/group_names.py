"""What grouped operators call their groups, and lines that hint at groups taken to be even."""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofsmith.domain.transfer import Assumption, AssumptionCode

SAYS: dict[AssumptionCode, str] = {
    "compile_time_group_size": "the number of rows per group may be fixed when it is compiled",
    "uniform_group_size": "every group may be taken to have the same number of rows",
    "divisible_group_size": "every group may be taken to have a multiple of a tile's rows",
    "no_empty_group": "no group may be taken to be empty",
}

SIZES = re.compile(
    r"(k?_?(m|row|token|group|expert|segment)_?(sizes|lens|lengths|counts"
    r"|offs|offsets|ptrs?|indptr)|k?(offsets|indptr)"
    r"|(rows|tokens|num_tokens|m|n)_per_(expert|group)s?_?(ptr|list|tensor)?)(_ptr|_t)?",
    re.IGNORECASE,
)
"""An array with a number per group. `group_size`, in the singular, is how many share a scale."""
_FIXED = (
    r"k?_?((m|rows?|tokens?|num_?(rows|tokens)|len)_?per_?(group|expert|g|e|segment)"
    r"|(group|expert|segment)_?(rows|tokens|len))"
)
"""One number of rows for all groups. `GROUP_M` isn't: it orders blocks for a cache."""
_COUNT = r"(G|E|(num|n|nr)?_?(groups|experts|segments)|num_(group|expert)|len\(\w+\))"
_ROWS = (
    r"(M|T|total_?(m|rows|tokens)|(num_?|n_?)?(tokens|rows)|len\(\w+\)"
    r"|\w+\.(shape\[0\]|size\(0\)))"
)
_DEMANDED = r"(assert|raise|if|CHECK|REQUIRE)\w*\b.*"
_ONE = r"((m|group|expert|row|token|segment)_?(m_)?(size|len|length|count|rows|tokens)|size)"

_PATTERNS: tuple[tuple[AssumptionCode, str], ...] = (
    ("compile_time_group_size", rf"\b{_FIXED}\s*:\s*[\w.]*constexpr"),
    ("compile_time_group_size", rf"^\s*(#define\s+|(static |inline |const\w* )+\w+ )?{_FIXED}"
                                r"\s*=?\s*\(?\d+\)?;?\s*$"),
    ("compile_time_group_size", rf"template\s*<.*\b(int|unsigned|size_t) {_FIXED}\b"),
    ("uniform_group_size", rf"\b{_ROWS}\s*//?\s*\(?(int\()?{_COUNT}(?!\w)"),
    ("uniform_group_size", rf"\b(chunk|tensor_split|array_split)\(.*\b{_COUNT}(?!\w)"),
    ("uniform_group_size", rf"\b(view|reshape|unflatten)\([\w, ]*[({{]?{_COUNT},"),
    ("uniform_group_size", r"\bzip\(.*\.(chunk|split)\(\d+\)|\brearrange\(.*\"\(g "),
    ("divisible_group_size", rf"{_DEMANDED}(sizes|lens|counts|{_ONE}|{_FIXED})\W.*%"),
    ("divisible_group_size", rf"\b{_ONE}\s*//\s*\w"),
    ("no_empty_group", rf"{_DEMANDED}(sizes|lens|counts|{_ONE})\b\S*\s*(>|!=|==|<=)\s*0"),
)  # fmt: skip
_HINTS = tuple((code, re.compile(pattern, re.IGNORECASE)) for code, pattern in _PATTERNS)
_FIRST_SIZE = re.compile(r"(\w+)\s*(?:\[\s*0\s*\]|\.float\(\)\.mean\(|\.mean\()")
_COMMENTS = {True: re.compile(r"#.*"), False: re.compile(r"//.*")}
"""Of Python, and of all else."""


def group_hints(path: str, text: str) -> Iterator[Assumption]:
    """Lines of a file that may take groups for even; none unless it has groups, by their names."""
    if not any(SIZES.fullmatch(word) for word in set(re.findall(r"\w+", text))):
        return
    comment = _COMMENTS[path.endswith(".py")]
    for number, line in enumerate(text.splitlines(), start=1):
        for code in dict.fromkeys(_codes(comment.sub("", line))):
            yield Assumption(
                code=code, path=path, line=number, detail=line.strip()[:200], says=SAYS[code]
            )


def is_offsets(name: str) -> bool:
    """Whether an array says where groups begin, rather than how long they are."""
    return re.search(r"off|ptr|cu_?seq", name, re.IGNORECASE) is not None


def _codes(line: str) -> Iterator[AssumptionCode]:
    yield from (code for code, pattern in _HINTS if pattern.search(line))
    first = (m[1] for m in _FIRST_SIZE.finditer(line))
    if any(SIZES.fullmatch(name) and not is_offsets(name) for name in first):
        yield "uniform_group_size"
