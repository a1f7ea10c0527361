"""What grouped operators call their groups, and what is said of an assumption about them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from roofsmith.domain.transfer import Assumption, AssumptionCode

Found = tuple[AssumptionCode, int, str]
"""What is taken for granted, the line, and the code that does it."""

SAYS: dict[AssumptionCode, str] = {
    "compile_time_group_size": "the number of rows per group is fixed when it is compiled",
    "uniform_group_size": "every group is taken to have the same number of rows",
    "divisible_group_size": "every group is taken to have a multiple of a tile's rows",
    "no_empty_group": "no group is taken to be empty",
}

SIZES = re.compile(
    r"(k?_?(m|row|token|group|expert|segment)_?(sizes|lens|lengths|counts"
    r"|offs|offsets|ptrs?|indptr)|k?(offsets|indptr)"
    r"|(rows|tokens|num_tokens|m|n)_per_(expert|group)s?_?(ptr|list|tensor)?)(_ptr|_t)?",
    re.IGNORECASE,
)
"""An array with a number per group. `group_size`, in the singular, is how many share a scale."""
FIXED_ROWS = re.compile(
    r"k?_?((m|rows?|tokens?|num_?(rows|tokens)|len)_?per_?(group|expert|g|e|segment)"
    r"|(group|expert|segment)_?(rows|tokens|len)|(GROUP|EXPERT)_(ROWS|TOKENS|LEN))",
    re.IGNORECASE,
)
"""One number of rows for all groups. `GROUP_M` isn't: it orders blocks for a cache."""
ONE_SIZE = re.compile(
    r"(m|group|expert|g|row|token|segment|cur|this)_?(m_)?(size|len|length|count|rows|tokens)"
    r"|(rows|tokens|m)_in_(group|expert)|size|gm|m_g",
    re.IGNORECASE,
)
"""A number of rows of one group, where it comes from the array of all."""
COUNT = re.compile(
    r"k?_?(G|E|(num|n|nr)?_?(groups|experts|segments)|num_(group|expert)|n_(group|expert))",
    re.IGNORECASE,
)
"""How many groups there are."""
ROWS = re.compile(
    r"(M|T|total_?(m|rows|tokens)|m_?total|(num_?|n_?)?(tokens|rows)|n_tok)", re.IGNORECASE
)
"""How many rows there are in all groups together."""
EXTENT = re.compile(r"(\w+)\s*\.\s*(shape\s*\[\s*0\s*\]|size\s*\(\s*0\s*\))")
"""The first extent of an array."""


def assumptions_of(path: str, found: Iterable[Found]) -> tuple[Assumption, ...]:
    """What was found in a file, in words, by line."""
    made = [
        Assumption(code=code, path=path, line=line, detail=detail, says=SAYS[code])
        for code, line, detail in found
    ]
    return tuple(sorted(made, key=lambda a: (a.line, a.code)))


def is_offsets(name: str) -> bool:
    """Whether an array says where groups begin, rather than how long they are."""
    return re.search(r"off|ptr|cu_?seq", name, re.IGNORECASE) is not None


def is_count(text: str) -> bool:
    """Whether an expression is a number of groups: by name, or as an array's length."""
    text = _bare(text)
    if COUNT.fullmatch(text):
        return True
    length = re.fullmatch(r"len\((\w+)\)|(\w+)\.numel\(\)|(\w+)\.(shape\[0\]|size\(0\))", text)
    name = next((g for g in length.groups()[:3] if g), "") if length else ""
    return SIZES.fullmatch(name) is not None


def is_rows(text: str) -> bool:
    """Whether an expression is the number of rows of all groups."""
    text = _bare(text)
    if ROWS.fullmatch(text):
        return True
    extent = EXTENT.fullmatch(text)
    return extent is not None and not SIZES.fullmatch(extent[1])


def _bare(text: str) -> str:
    """Without parentheses around all of it."""
    text = text.strip()
    while text.startswith("(") and text.endswith(")") and ")" not in text[1:-1].split("(")[0]:
        text = text[1:-1].strip()
    return text
