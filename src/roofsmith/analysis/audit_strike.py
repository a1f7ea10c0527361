"""Texts of others without the hardware numbers that don't hold. Pure."""

from __future__ import annotations

import re
from typing import Final

from roofsmith.analysis.audit import Sources, audit_text
from roofsmith.analysis.audit_rule import unmarked

LEFT_OUT: Final = "[number without a source]"
_MOST_LOOKS: Final = 8
"""What is left out changes what stands beside it, so every text is looked at again."""
_CITATION: Final = r"(?:\s*<-\s*\S*[^\s,;.](?:\s\([^)]*\))?)?"


def struck(text: str, sources: Sources) -> str | None:
    """The text, with `LEFT_OUT` for every number that the audit would find.

    Args:
        text: of one statement; stays as it is if it holds.
        sources: where its citations are looked up.

    Returns:
        None where numbers can't be taken out of it, as those that are a part of a name.
    """
    for _ in range(_MOST_LOOKS):
        problems = audit_text("text", text, sources)
        if not problems:
            return text
        text = unmarked(text)
        for number in {problem.number for problem in problems}:
            words = r"\s*".join(map(re.escape, number.split()))
            text = re.sub(rf"(?:<-\s*)?(?<![\w.]){words}(?!\w){_CITATION}", LEFT_OUT, text)
    return None
