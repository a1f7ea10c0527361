"""What a profiler saw of a whole program, and which of its kernels are worth the work."""

from __future__ import annotations

from roofsmith.domain.profile import ProfiledKernel
from roofsmith.domain.values import Value


class TracedProgram(Value):
    """Every kernel of a run, the one that takes the GPU longest first."""

    tool: str
    """Whose trace it is, such as torch.profiler, nsys, rocprofv3, ncu."""
    kernels: tuple[ProfiledKernel, ...]
    device: str | None = None
    """The GPU's name as its driver has it."""
    devices: int = 1
    """How many of them ran kernels."""
    span_s: float | None = None
    """From the first kernel's begin to the last one's end; None where only sums were traced."""

    @property
    def time_s(self) -> float:
        """Of all launches together."""
        return sum(kernel.time_s for kernel in self.kernels)

    def part(self, kernel: ProfiledKernel) -> float:
        """The kernel's part of the run: of the span in which GPUs had work, else of GPU time."""
        whole_s = self.time_s if self.span_s is None else self.span_s * self.devices
        return min(1.0, kernel.busy_s / whole_s) if whole_s else 0.0

    @property
    def idle_share(self) -> float | None:
        """Of the span; 0 where several streams worked for longer than it lasted."""
        if not self.span_s:
            return None
        return max(0.0, round(1 - self.time_s / (self.span_s * self.devices), 9))


class Prospect(Value):
    """What one kernel of a program could bring."""

    kernel: ProfiledKernel
    part: float
    """Of the run, from 0 to 1."""
    fraction: float | None
    """Its floor over its time, where a floor is known: how near it is to its roofline."""
    most_speedup: float | None
    """Of the whole run, if the kernel came down to its floor, or to nothing where none is known
    (Amdahl, 1967); None: nothing but it ran."""
    dropped: str | None = None
    """Why it isn't worth the work; None: it is."""
    next: str = ""
    """What to type; a word in capitals is for the user to fill in."""


class ProgramPlan(Value):
    """Prospects by the part of the run that they could save, those that were dropped last."""

    program: TracedProgram
    prospects: tuple[Prospect, ...]
    ceiling: str = ""
    """The cited bandwidth that floors rest on, or why there is none."""
