"""What a disassembly says about a kernel: packed or scalar arithmetic, calls inside loops."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.instructions import (
    ELSEWHERE,
    Function,
    Instruction,
    MachineLoop,
    Samples,
    seen_in,
)

OBJDUMP_DEADLINE_S = 10.0
"""A kernel's library is disassembled in milliseconds."""


HOT_SHARE = 0.05
"""Of all samples: a loop, or what is called, that is seen less often is not where the time goes."""
_THREADED = re.compile(r"GOMP|kmpc|thread|tbb|cilk|async|blas|gemm|gemv|lapack|mkl|fft")
"""Runtimes, and libraries that bring one."""
MOSTLY = 0.5
"""Of a loop's arithmetic."""
LINKED = frozenset(("_init", "_fini", "frame_dummy", "register_tm_clones", "deregister_tm_clones"))
"""What the linker adds to every library."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Of the loops that are hot; of everything where there is no loop."""

    vector_share: float | None
    """Packed over all floating-point arithmetic; None if there is none, or nobody can tell."""
    calls_in_loops: tuple[str, ...]
    """Library functions that they call, sorted."""


def read_listing(functions: Sequence[Function], samples: Samples | None = None) -> Listing:
    """What the innermost loops do, each weighed by how often it was seen; a pure function.

    A pass over a remainder, or one that comes once before the work, is a loop as well, and hardly
    ever seen. Where nobody looked, there is a share only if all loops agree: most of each one's
    arithmetic is packed, or most is scalar.

    Args:
        functions: of the library.
        samples: where it was seen while it ran; None: nobody looked.
    """
    loops = [loop for function in functions for loop in function.innermost()]
    if not any(_kinds(loop.body) for loop in loops):
        everything = [one for function in functions for one in function.instructions]
        return Listing(_packed_share([(1.0, everything)]), _called(loops, samples))
    if samples is not None:
        seen = [(seen_in(loop, samples) / len(loop.body), loop.body) for loop in loops]
        return Listing(_packed_share(seen), _called(loops, samples))
    weighed = [(1.0, loop.body) for loop in loops]
    shares = [share for each in weighed if (share := _packed_share([each])) is not None]
    agree = len({share >= MOSTLY for share in shares}) == 1
    return Listing(_packed_share(weighed) if agree else None, _called(loops, None))


def starts_no_threads(functions: Sequence[Function]) -> bool:
    """Whether nothing that the library jumps to or calls can start one, by its name."""
    own = [function for function in functions if "@plt" not in function.name]
    every = [one for function in own for one in function.instructions]
    hidden = any("*" in one.operands for one in every)
    return (
        bool(every)
        and not hidden
        and not any(_THREADED.search(one.target[1]) for one in every if one.target is not None)
    )


def _packed_share(weighed: Sequence[tuple[float, Sequence[Instruction]]]) -> float | None:
    packed = sum(weight * _kinds(body)["packed"] for weight, body in weighed)
    total = sum(weight * _kinds(body).total() for weight, body in weighed)
    return packed / total if total else None


def _kinds(body: Sequence[Instruction]) -> Counter[str]:
    """How many instructions are packed arithmetic, and how many scalar."""
    return Counter(kind for one in body if (kind := one.arithmetic) is not None)


def _called(loops: Sequence[MachineLoop], samples: Samples | None) -> tuple[str, ...]:
    """By loops that are hot, if what is called takes any time: it is no code of the library's."""
    if samples is not None:
        total = sum(samples.values())
        if samples.get(ELSEWHERE, 0) < HOT_SHARE * total:
            return ()
        loops = [loop for loop in loops if seen_in(loop, samples)]
    names = {one.target[1] for loop in loops for one in loop.body if one.is_call and one.target}
    return tuple(sorted(n.removesuffix("@plt") for n in names if n.endswith("@plt")))


def disassemble(library: Path, bytes_shown: str = "--no-show-raw-insn") -> str | None:
    """The library's listing; None if objdump is missing or fails."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    try:
        answer = subprocess.run(
            [objdump, "-d", "-l", bytes_shown, str(library)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=OBJDUMP_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else None
