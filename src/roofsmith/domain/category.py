"""What kind of change an idea is. The command line reads it: nothing heavy is imported here."""

from __future__ import annotations

from typing import Literal

Category = Literal[
    "parallelism", "vectorisation", "tiling", "memory_access", "layout", "prefetch", "precision",
    "algebra", "fusion", "launch", "scheduling", "dispatch", "other",
]  # fmt: skip
"""Where one kind leads nowhere, another may."""

Bucket = Literal["K1", "K2", "K3", "K4", "W1", "W2", "W3"]
"""Over-fitting buckets: K1 kernel-internal, K2 layout variants, K3 single-launch fusion,
K4 same-call data flow; W1 weight cache; W2 activation-keyed cache; W3 generic memoisation."""
TRANSFERRING: frozenset[Bucket] = frozenset({"K1", "K2", "K3", "K4"})
"""Those whose gain doesn't depend on inputs coming again."""
OVER_FITTING: frozenset[Bucket] = frozenset({"W2", "W3"})
"""Those that gain nothing for anybody but a benchmark."""
