"""What a shell, a control group or a batch system grants at most: memory and processors."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
LEAST_ADDRESSES = 16 * 2**30
"""PyTorch built for CUDA maps some 10 GB before it computes anything. Chosen."""
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    name: str
    bytes: int
    cure: str

    def __str__(self) -> str:
        return f"{self.name} grants {self.bytes / 1e9:.1f} GB here; {self.cure}"


def granted(kind: int, wanted: int) -> int:
    """`wanted`, or what this process's own limit of a kind allows, if that is less.

    Args:
        kind: such as `resource.RLIMIT_AS`.
        wanted: in its unit.
    """
    limits = resource.getrlimit(kind)
    return min([wanted, *(one for one in limits if one != resource.RLIM_INFINITY)])


def memory_limit(environment: Mapping[str, str] = os.environ) -> MemoryLimit | None:
    """The tightest bound on memory; None where there is none but the machine's."""
    found = (*_of_shell(), *_of_groups(), *_of_job(environment))
    return min(found, key=lambda one: one.bytes, default=None)


def memory_share(share: float) -> int:
    """Addresses for a process: a share of the machine's memory in bytes, or what is granted, if
    that is less. Of a job's memory at least `LEAST_ADDRESSES`: addresses are no memory yet."""
    machine = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * share)
    if (limit := memory_limit()) is not None:
        machine = min(machine, max(limit.bytes, LEAST_ADDRESSES))
    return granted(resource.RLIMIT_AS, machine)


def job_processors(environment: Mapping[str, str] = os.environ) -> int | None:
    """Processors that a batch system grants this task, where it says so."""
    jobs = {"SLURM_JOB_ID": ("SLURM_CPUS_PER_TASK",), "PBS_JOBID": ("NCPUS", "PBS_NUM_PPN")}
    names = [name for job, said in jobs.items() if job in environment for name in said]
    found = [number for name in names if (number := _number(environment.get(name))) > 0]
    return min(found, default=None)


def _of_shell() -> Iterator[MemoryLimit]:
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY:
        yield MemoryLimit("`ulimit -v`", most, "raise it, or choose a smaller workload")


def _of_groups() -> Iterator[MemoryLimit]:
    """Of this process's control group and those above it, of version 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for own in (line.removeprefix("0::/") for line in lines if line.startswith("0::/")):
        place = CGROUPS / own
        for group in (place, *place.parents):
            if group.is_relative_to(CGROUPS) and (most := _number(_text(group / "memory.max"))):
                yield MemoryLimit(f"{group}/memory.max", most, "give the container or job more")


def _of_job(environment: Mapping[str, str]) -> Iterator[MemoryLimit]:
    """SLURM_MEM_* are in MiB, 0 for all there is; PBS_RESC_TOTAL_MEM is in bytes."""
    processors = _number(environment.get("SLURM_CPUS_ON_NODE"))
    slurm = {"SLURM_MEM_PER_NODE": _MIB, "SLURM_MEM_PER_CPU": _MIB * processors}
    for name, unit in {**slurm, "PBS_RESC_TOTAL_MEM": 1}.items():
        if most := unit * _number(environment.get(name)):
            yield MemoryLimit(name, most, "ask for more: `--mem` of sbatch, `-l mem=` of qsub")


def _number(text: str | None) -> int:
    """A whole number; 0 for whatever else it is."""
    return int(text) if text is not None and text.strip().isdigit() else 0


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
