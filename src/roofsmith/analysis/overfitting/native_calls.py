"""What calls in C, C++, CUDA and HIP kernels do to what they are given, by their names."""

from __future__ import annotations

import re

LOOKS = ("find", "count", "contains", "at", "equal_range", "lower_bound")
"""Methods that look a container up."""
PUTS = ("emplace", "insert", "try_emplace", "insert_or_assign")
"""Methods that store under a key."""
FILLS = ("assign", "push_back", "emplace_back", "push", "store", "append")
"""Methods that store without one."""
FACTS = (
    "size", "sizes", "numel", "dim", "stride", "strides", "scalar_type", "dtype", "device",
    "is_contiguous", "options", "capacity", "empty", "end", "resize", "reserve", "clear", "erase",
)  # fmt: skip
"""Methods that say nothing of elements."""
COPIES = re.compile(r"(std::)?(memcpy|memmove|wmemcpy)|(cuda|hip)Memcpy\w*")
TICKETS = re.compile(
    r"atomic(Add|Sub|Inc|Dec)(_\w+)?|atomic_fetch_(add|sub)\w*|__(sync|atomic)_fetch_\w+|fetch_(add|sub)"
)
"""Who draws a number takes the next piece of this call's work; what is counted up to isn't kept."""
