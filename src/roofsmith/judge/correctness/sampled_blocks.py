"""Parts of large outputs, of which some are compared after a timed call."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import row_length

SPOT_ELEMENTS = 2**17
"""Up to this many elements of an output are compared after a timed call. Which ones of more is
chosen once the call is done, so none is safe to skip."""
STRETCH = 4096
"""Elements of a longer row that are compared together: many stretches tell more than a few rows."""

Numbers = NDArray[np.int64]


class Stretches:
    """The rows of arrays of one shape, and where they are longer than `STRETCH`, parts of them."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.row = row_length(shape)
        """Elements of a row."""
        self.length = min(self.row, STRETCH)
        """Elements of a stretch."""
        self._of_a_row = -(-self.row // self.length)
        self.count = prod(shape) // self.row * self._of_a_row
        """All stretches."""

    @property
    def are_rows(self) -> bool:
        """Whether no row has more than one."""
        return self._of_a_row == 1

    def places(self, chosen: Numbers) -> tuple[Numbers, Numbers]:
        """The rows of some stretches, and where within their rows these begin."""
        rows, pieces = np.divmod(chosen, self._of_a_row)
        # what the last stretch of a row lacks is taken from the one before it
        return rows, np.minimum(pieces * self.length, self.row - self.length)
