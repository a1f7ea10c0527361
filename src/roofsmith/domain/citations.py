"""What became of the citations that a hypothesis rests on."""

from __future__ import annotations

from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.values import Value


class CheckedCitations(Value):
    """A hypothesis whose citations were looked up."""

    problems: tuple[str, ...] = ()
    """Citations that are malformed, lead nowhere, or say something else than their source, each as
    `<field>: <what>: <why>; <what to do>`. Such a proposal is refused."""
    unsourced: tuple[str, ...] = ()
    """Numbers with a unit of hardware that none of its citations covers, as `<field>: <number>
    <unit>`: they are marked."""
    of_devices: tuple[str, ...] = ()
    """Those of them that only a device has. A model or an agent is sent back once for them; else
    they are struck."""
    nearest: tuple[str, ...] = ()
    """Facts in the same units, nearest first, as they may be cited."""
    struck: Hypothesis | None = None
    """What is left without a device's numbers; None where there are none."""
