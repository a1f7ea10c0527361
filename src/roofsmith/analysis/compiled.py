"""What a compiler's account of a kernel means on the multiprocessor that it runs on."""

from __future__ import annotations

from typing import Final

from roofsmith.analysis.occupancy import (
    WARP,
    Occupancy,
    multiprocessor,
    no_rules_for,
    nvidia_occupancy,
)
from roofsmith.domain.kernel import KernelResources
from roofsmith.domain.profile import Profile

COMPILED: Final = "compiled"
"""Begins the evidence lines that describe kernels."""
MAX_LINES: Final = 4
"""Kernels that evidence names; an autotuner leaves dozens."""
WORD_BYTES: Final = 4
"""Of a register."""
LEAST_REGISTERS: Final = 16
"""Of a thread in a launch, as ncu counts: on an H100 it read 16 for a kernel that the compiler gave
14, and forums.developer.nvidia.com/t/237752 has 16 for one that ptxas gave 10 for sm_86. That is no
rounding to what is allocated: one with 31, of which 32 are allocated, reads 31."""
_LIMITERS: Final = {"shared": "shared memory", "warps": "the size of a block"}


def candidates_for(profile: Profile) -> tuple[KernelResources, ...]:
    """Of the compiled kernels, those that may be the one that the profiler saw.

    Of an autotuned kernel every configuration was compiled, and the launch tells which one ran: by
    its name, and where the profiler counted them, by registers (a launch has at least
    `LEAST_REGISTERS`) and the size of a block. Without a kernel in the profile, all of them.
    """
    named = [kernel for kernel in profile.resources if profile.kernel in (None, kernel.name)]
    return tuple(kernel for kernel in named if _could_be(kernel, profile))


def _could_be(kernel: KernelResources, profile: Profile) -> bool:
    block = _block_size(kernel)
    counted_as = {
        "registers_per_thread": _counted_registers(kernel),
        "block_size": None if block is None else (block,),
    }
    return all(
        own is None or (counted := profile.get(name)) is None or counted in own
        for name, own in counted_as.items()
    )


def launched_registers(compiled: int) -> int:
    """Of a thread, as ncu counts them in a launch of a kernel that the compiler gave so many."""
    return max(compiled, LEAST_REGISTERS)


def _counted_registers(kernel: KernelResources) -> tuple[int, ...] | None:
    """A thread's, as a profiler may count them: as the compiler does, or as ncu."""
    if kernel.registers is None or not kernel.arch.startswith("sm_"):
        return None if kernel.registers is None else (kernel.registers,)
    return kernel.registers, launched_registers(kernel.registers)


def compiled_readings(profile: Profile) -> dict[str, float]:
    """What the compiled kernels say of the profiled one, by the names of the profiler's counters.

    Only what all kernels agree on that it may be; `spilled_bytes` is of one thread.
    """
    each = [_readings(kernel) for kernel in candidates_for(profile)]
    if not each:
        return {}
    first, *others = each
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }


def compiled_lines(profile: Profile) -> tuple[str, ...]:
    """A line of evidence for each kernel that the profiled one may be."""
    kernels = candidates_for(profile)
    lines = [f"{COMPILED}: {described(kernel)}" for kernel in kernels[:MAX_LINES]]
    if len(kernels) > MAX_LINES:
        lines.append(f"{COMPILED}: and {len(kernels) - MAX_LINES} more configurations")
    return tuple(lines)


def described(kernel: KernelResources) -> str:
    """One line: name and launch options, registers, spills, shared memory, what fits."""
    taken = [
        _amount(kernel.registers, "register"),
        _amount(kernel.accumulation_registers, "accumulation register"),
        _spills(kernel),
        None if kernel.shared_bytes is None else f"{kernel.shared_bytes:,} bytes of shared memory",
        _fit(kernel),
    ]
    known = ", ".join(part for part in taken if part is not None)
    return f"{title(kernel)}: {known or 'the compiler says nothing'}"


def title(kernel: KernelResources) -> str:
    """A kernel's name, and in brackets what tells it from others of that name."""
    options = [
        kernel.arch,
        _amount(kernel.num_warps, "warp"),
        _amount(kernel.num_stages, "stage"),
        None if kernel.variant is None else f"variant {kernel.variant}",
    ]
    return f"{kernel.name} ({', '.join(option for option in options if option is not None)})"


def spilled_bytes(kernel: KernelResources) -> int | None:
    """Of one thread's registers, in local memory; None where the compiler doesn't say."""
    if kernel.spilled_registers is not None:
        return kernel.spilled_registers * WORD_BYTES
    counted = [kernel.spill_store_bytes, kernel.spill_load_bytes]
    known = [size for size in counted if size is not None]
    return max(known) if known else None


def occupancy_of(kernel: KernelResources) -> Occupancy | None:
    """How a kernel fills a multiprocessor of NVIDIA's, where the compiler decides its blocks."""
    processor = multiprocessor(kernel.arch)
    block = _block_size(kernel)
    if processor is None or not block or kernel.registers is None or kernel.shared_bytes is None:
        return None
    return nvidia_occupancy(
        processor, block_size=block, registers=kernel.registers, shared_bytes=kernel.shared_bytes
    )


def _block_size(kernel: KernelResources) -> int | None:
    """Threads of a block, where the compiler decides them; AMD's waves differ in size."""
    if kernel.num_warps is None or not kernel.arch.startswith("sm_"):
        return None
    return kernel.num_warps * WARP


def _readings(kernel: KernelResources) -> dict[str, float]:
    spilled = spilled_bytes(kernel)
    found: dict[str, float | None] = {
        "registers_per_thread": kernel.registers,
        "block_size": _block_size(kernel),
        "spilled_bytes": spilled,
    }
    fit = occupancy_of(kernel)
    if fit is not None:
        limits = {f"block_limit_{name}": float(limit) for name, limit in fit.limits.items()}
        found |= {"theoretical_occupancy": fit.fraction, **limits}
    return {name: float(value) for name, value in found.items() if value is not None}


def _fit(kernel: KernelResources) -> str | None:
    fit = occupancy_of(kernel)
    if fit is None:
        decides = _block_size(kernel) is not None
        return no_rules_for(kernel.arch) if decides and not multiprocessor(kernel.arch) else None
    if not fit.blocks:
        return f"too large to be launched by {_limited_by(fit)}"
    if fit.fraction == 1:
        return "full occupancy possible"
    return f"{fit.fraction:.0%} occupancy at most, limited by {_limited_by(fit)}"


def _spills(kernel: KernelResources) -> str | None:
    spilled = spilled_bytes(kernel)
    if spilled is None:
        return None
    return f"{spilled:,} bytes spilled" if spilled else "no spills"


def _amount(count: int | None, noun: str) -> str | None:
    if count is None:
        return None
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _limited_by(fit: Occupancy) -> str:
    return " and ".join(_LIMITERS.get(name, name) for name in fit.limiters)
