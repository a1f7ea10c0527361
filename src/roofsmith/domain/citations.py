"""What became of the citations that a hypothesis rests on."""

from __future__ import annotations

from roofsmith.domain.values import Value


class CheckedCitations(Value):
    """A hypothesis whose citations were looked up."""

    problems: tuple[str, ...] = ()
    """Citations that are malformed, lead nowhere, or say something else than their source, each as
    `<field>: <what>: <why>; <what to do>`. Such a proposal is refused."""
    unsourced: tuple[str, ...] = ()
    """Numbers with a unit of hardware that none of its citations covers, as `<field>: <number>
    <unit>`. They are marked, and the proposal is judged all the same."""
