"""Which products a text names, told apart to the last letter: H20 is no H200, nor an H20-3e."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_VARIANT: Final = r"SXM\d?|PCIe|NVL|Ti|SUPER|Ultra|Max|OAM|D|\d+[ ]?GB?"
PRODUCT: Final = re.compile(
    r"(?<![A-Za-z0-9.])"
    r"(?P<base>(?:RTX[ -]?(?:A|PRO[ ])?|MI|GB|GH|[HABLVTPK])\d{2,4}[A-Z]{0,2}(?:-\d[a-z])?|[LT]4)"
    rf"(?P<more>(?:[ (-]+(?:{_VARIANT})(?![A-Za-z0-9])\)?)*)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
"""A product as people write it."""
_WORD: Final = re.compile(_VARIANT, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProductName:
    base: str
    """Such as `H20`, `MI308X`, in capitals."""
    variant: frozenset[str] = frozenset()
    """Such as `sxm`, `80gb`; empty: the text doesn't say."""

    @property
    def is_amd(self) -> bool:
        return self.base.startswith("MI")


def products_in(text: str) -> frozenset[ProductName]:
    return frozenset(
        ProductName(
            re.sub(r"[ -](?!\d[A-Z]$)", "", match["base"].upper()),
            frozenset(map(_folded, _WORD.findall(match["more"]))),
        )
        for match in PRODUCT.finditer(text.replace("_", " "))
    )


def _folded(variant: str) -> str:
    """SXM5 is sxm, `96 GB` and 96G are 96gb."""
    return re.sub(r"(?<=sxm)\d|(?<=\d)gb?$| ", "", variant.lower()) + (
        "gb" if variant[0].isdigit() else ""
    )
