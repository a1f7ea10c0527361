"""Which version of the rules this is. Everything that a ledger concludes from what was measured
goes by rules: whether a kernel is kept, which classes there are, what ends a campaign. They get
better, and what was concluded by earlier ones was honest all the same."""

from __future__ import annotations

from typing import Final

RULES: Final = 6
"""Recorded when a campaign begins and when it is resumed; `verify` holds conclusions of another
version as notes, and goes on checking facts. To be counted up with every change by which
`verify` finds something in a ledger of the version before; a test has such a ledger of every
version.

1: all ledgers from before versions were recorded.
2: a gain that the judge's clock corrects has to be proven by it alone; a class or a workload that
seems to pay has to be shown to be spared; whoever is slower makes a regression, aimed at or not;
profilers have to see a gain, and a repository's own makes its totals; declared classes are divided;
grouped operators gain on uneven groups; pairs too few for an interval score no prediction; nobody
forged what messages may hide.
3: a prediction is hit within its interval, or within a factor of the ratio and of its logarithm;
directions that the kernel's source shows already come after those that it shows nothing of; a
CPU's ceilings are those of its busy processors, and `parallelism` is the first direction where
others are idle; the roofline of other pipes doesn't bind a kernel on matrix units; a grid is too
small that leaves a fifth of the device empty.
4: a round and an end are expected to take what this campaign's own parts took; intervals bet half
 of their stake on large effects, and those of a first measurement are at 5%.
5: before any was judged, a round is expected to take what measuring the baseline took, and an end
where nothing was kept measures nothing.
6: an interval too wide to tell leaves a prediction undecided, and one that is inconclusive never
says that the opposite came true.
"""
