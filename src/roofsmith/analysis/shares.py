"""How sure a share is. Pure."""

from __future__ import annotations

import math
from typing import Final

WILSON_Z: Final = 1.959963984540054
"""Of 95%, both sides."""


def wilson(count: int, trials: int) -> tuple[float, float]:
    """The interval of a share at 95% (Wilson, JASA 22, 1927); all of it without trials."""
    if not trials:
        return 0.0, 1.0
    share, z2 = count / trials, WILSON_Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    half = WILSON_Z * spread / (1 + z2 / trials)
    # The exact bound of a share of 0 or 1 is that share; rounding may miss it by an ulp.
    low = 0.0 if count == 0 else centre - half
    high = 1.0 if count == trials else centre + half
    return low, high
