"""Whether a reference's `setup` gives inputs that nobody can remember the results of."""

from __future__ import annotations

from roofsmith.errors import TargetError
from roofsmith.judge.oracle import ReferenceProcess
from roofsmith.wording import some_of


def require_fresh_inputs(oracle: ReferenceProcess) -> None:
    """See that another seed gives other inputs.

    Arrays that are always the same are allowed beside such as are not, and so is a kernel that
    reads none: what it computes is the same by nature.

    Raises:
        TargetError: all that is read is the same whatever the seed, and so is the result. A kernel
            that copies its first result would be right for ever.
    """
    found = oracle.tolerated()
    same = set(found.same)
    if found.is_fixed and same and {*found.free, *found.bound} <= same:
        raise TargetError(
            f"setup gives the same inputs whatever its seed is ({some_of(found.same)}): nobody"
            " would notice a kernel that remembers its first result",
            hint="draw them from the seed that setup gets: `np.random.default_rng(seed)`, or"
            " `torch.Generator().manual_seed(seed)` (docs/target.md)",
        )
