"""Callgrind's simulation of one kernel: instructions, cache and branch behaviour without a PMU."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from roofsmith.client_request import CAN_BEGIN_LATE
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import PRINTED
from roofsmith.domain.profile import Counter
from roofsmith.ports import KernelDiedError
from roofsmith.profilers.disassembly import disassemble

WORK_LIMIT = 1 << 18
"""Largest product of a simulated workload's dimensions: callgrind does about 20 million
instructions a second, so that even a hundred instructions per point take a second or two."""

KNOWN = "-march=haswell"
"""AVX2 and FMA; every gcc and clang of the last ten years knows the name."""
_NEWER = ("-march=", "-mavx512", "-mavx10", "-mprefer-vector-width=")
_EVEX = re.compile(r"^\s*[0-9a-f]+:\t(?:6[4-7] )*62 ", re.MULTILINE)
"""The prefix that every instruction of AVX-512 on vectors begins with, and no other in 64 bits
(Intel's manual, volume 2, section 2.7)."""

SMALLEST_DIMENSION = 8
"""Dimensions aren't reduced below this: half a cache line of floats, one vector register."""


def find_valgrind() -> str | None:
    """valgrind's path; None if it isn't installed."""
    return shutil.which("valgrind")


def launcher(valgrind: str, output: Path) -> tuple[str, ...]:
    """What to start a worker under. Collection isn't toggled by name: see `read_callgrind`."""
    return (
        "/usr/bin/env",
        f"TMPDIR={output.parent}",  # a worker has none, and valgrind writes to /tmp then
        valgrind,
        "--quiet",
        "--tool=callgrind",
        "--cache-sim=yes",
        "--branch-sim=yes",
        f"--instr-atstart={'no' if CAN_BEGIN_LATE else 'yes'}",
        f"--callgrind-out-file={output}",
    )


def knows(library: Path) -> bool | None:
    """Whether a library has no AVX-512, which no valgrind knows; None where nobody can tell."""
    listing = disassemble(library, "--show-raw-insn")
    return None if listing is None else _EVEX.search(listing) is None


def known_to_it(candidate: Candidate) -> Candidate:
    """The same kernel, to be built for the latest processor whose instructions valgrind knows."""
    flags = [flag for flag in candidate.build.flags if not flag.startswith(_NEWER)]
    build = candidate.build.model_copy(update={"flags": (*flags, KNOWN)})
    return candidate.model_copy(update={"build": build})


def told(died: KernelDiedError) -> str:
    """What became of a kernel under valgrind, without what that printed: its own stack."""
    what = died.outcome.detail.partition(PRINTED)[0]
    if "SIGILL" in what:
        return "valgrind gave up at an instruction that it doesn't know (not the kernel's fault)"
    return f"the kernel did not survive valgrind: {what}"


def reduced(dims: Mapping[str, int], limit: int = WORK_LIMIT) -> dict[str, int]:
    """The same dimensions, the largest one halved again and again until their product fits.

    Halving keeps what divides what (heads and widths) as far as that is possible. Dimensions that
    can't be halved evenly are left alone.
    """
    small = dict(dims)
    while math.prod(small.values()) > limit:
        candidates = [n for n, s in small.items() if s % 2 == 0 and s // 2 >= SMALLEST_DIMENSION]
        if not candidates:
            return _truncated(small, limit)
        largest = max(candidates, key=lambda name: small[name])
        small[largest] //= 2
    return small


def _truncated(dims: Mapping[str, int], limit: int) -> dict[str, int]:
    """Odd sizes can't be halved evenly; then the largest is simply cut down."""
    small = dict(dims)
    while True:
        largest = max(small, key=lambda name: small[name])
        if math.prod(small.values()) <= limit or small[largest] <= SMALLEST_DIMENSION:
            return small
        small[largest] = max(small[largest] // 2, SMALLEST_DIMENSION)


_NAME = re.compile(r"^(c?fn)=\((\d+)\)(?: (.*))?$")
_CALLS = re.compile(r"^calls=(\d+)")


def read_callgrind(text: str, functions: Sequence[str]) -> dict[str, int] | None:
    """Inclusive cost of the first of `functions` that was called: events (Ir, Dr, D1mr, ...) to
    counts over all calls.

    Callgrind loses sight of a function that libffi calls, because the tail of `ffi_call` has no
    symbol of its own. So callers name the kernel's entry first and `ffi_call` second, and read the
    costs off the call graph; `--toggle-collect` would collect nothing.

    Format: https://valgrind.org/docs/manual/cl-format.html
    """
    events: list[str] = []
    names: dict[str, str] = {}
    totals: dict[str, list[int]] = {}
    callee, pending = "", False
    for line in text.splitlines():
        if line.startswith("events:"):
            events = line.split()[1:]
        elif match := _NAME.match(line):
            if match[3]:
                names[match[2]] = match[3].strip()
            if match[1] == "cfn":
                callee = names.get(match[2], "")
        elif match := _CALLS.match(line):
            pending = int(match[1]) > 0
        elif pending:
            if callee in functions:
                # Trailing zeros are left out of a line of costs.
                costs = [int(cost) for cost in line.split()[1:] if cost.isdecimal()]
                before = totals.get(callee, [])
                totals[callee] = [a + b for a, b in zip_longest(before, costs, fillvalue=0)]
            pending = False
    for function in functions:
        if function in totals:
            padded = totals[function] + [0] * len(events)
            return dict(zip(events, padded, strict=False))
    return None


def counters(events: Mapping[str, int], calls: int) -> tuple[Counter, ...]:
    """Counters per call of `solve`; cache counters are simulated ones."""

    def total(*names: str) -> float:
        return float(sum(events.get(name, 0) for name in names))

    instructions = total("Ir")
    references, l1_misses = total("Dr", "Dw"), total("D1mr", "D1mw")
    llc_misses = total("DLmr", "DLmw")
    branches, branch_misses = total("Bc", "Bi"), total("Bcm", "Bim")
    found = [
        ("instructions", instructions / calls, instructions),
        ("data_references", references / calls, references),
        ("l1_miss_rate", l1_misses / references if references else 0.0, references),
        ("llc_miss_rate", llc_misses / references if references else 0.0, references),
        ("branches", branches / calls, branches),
        ("branch_miss_rate", branch_misses / branches if branches else 0.0, branches),
        (
            "l1_misses_per_kilo_instruction",
            1000 * l1_misses / instructions if instructions else 0.0,
            references,
        ),
    ]
    return tuple(Counter(name=n, value=value, unit="1") for n, value, basis in found if basis > 0)
