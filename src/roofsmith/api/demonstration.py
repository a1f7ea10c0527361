"""Which bundled kernel `roofsmith demo` takes: a GPU's where this machine can judge one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.api.preferences import DEFAULT_PROPOSERS
from roofsmith.cuda_programs import find_program
from roofsmith.domain.kernel import Language
from roofsmith.errors import MachineError
from roofsmith.machine.choice import source_for
from roofsmith.machine.frameworks import torch_build, triton_version
from roofsmith.machine.plugged import ELSEWHERE, vendors


@dataclass(frozen=True, slots=True)
class DemoChoice:
    """A demonstration that works here."""

    example: str
    """Folder of the bundled example, or its target file."""
    proposers: str
    line: str
    """Where it runs; for processors, why there, and what a GPU's would take."""


def choose_demo(cpu: bool = False, root: Path = Path("/")) -> DemoChoice:
    """A GPU's demonstration if there are GPU, PyTorch and a compiler for it, else the processors'.

    Args:
        cpu: take the processors', whatever is here.
        root: of the file system that shows whose driver is loaded.
    """
    why = "as asked" if cpu else None
    if why is None:
        language, why = _language(root)
        if language is not None:
            example = "triton/softmax/naive.yaml" if language == "triton" else _CUDA
            line = f"a naive softmax in {_NAMES[language]}, on this machine's GPU; --cpu: without"
            return DemoChoice(example, DEFAULT_PROPOSERS, line)
    # a sweep would take a quarter of the time
    line = f"a naive softmax in C, on this machine's processors: {why}"
    return DemoChoice("softmax", "recipes", line)


_CUDA = "cuda/softmax/naive.yaml"
_NAMES = {"triton": "Triton", "cuda": "CUDA"}


def _language(root: Path) -> tuple[Language | None, str]:
    """What a GPU's kernel can be written in here; else None, and what is missing."""
    if not vendors(root).loaded:
        return None, f"no driver of a GPU is loaded (for one, {ELSEWHERE})"
    torch = torch_build()
    if torch is None or not (torch.cuda or torch.hip):
        return None, "there is a GPU; its kernels need a PyTorch built for it, pip install torch"
    language: Language
    if triton_version() is not None:
        language = "triton"
    elif torch.cuda and find_program("nvcc") is not None:
        language = "cuda"
    else:
        return None, "there is a GPU; its kernels need Triton (pip install triton) or nvcc"
    try:
        source_for(language, root).device()
    except MachineError as error:
        return None, f"the GPU can't be used: {error}"
    return language, ""
