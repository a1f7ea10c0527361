"""Who writes the first kernel in a language: one place to register another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from roofsmith.computation.graph import Contract, Graph
from roofsmith.computation.kinds import kind
from roofsmith.domain.kernel import Parameter, Signature, default_build
from roofsmith.domain.modes import FirstLanguage, KernelLanguage
from roofsmith.proposers.schedules.c_file import PLAIN, c_kernel
from roofsmith.proposers.schedules.cuda.module import cuda_kernel
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.triton.module import triton_module
from roofsmith.proposers.schedules.wanted import Wanted
from roofsmith.targets.pytorch.program import PyTorchProgram
from roofsmith.targets.pytorch.text import stored


@dataclass(frozen=True)
class RenderedKernel:
    text: str
    flags: tuple[str, ...] = ()
    """Those that it is built with."""


class NoKernel(Exception):  # noqa: N818
    """Why none is written."""


Render = Callable[[Graph, PyTorchProgram], RenderedKernel]
"""A kernel of a graph, whose entry takes the program's inputs, weights, results and dims, in this
order. Raises `NoKernel`."""


@dataclass(frozen=True)
class Backend:
    """Writes kernels of one language."""

    file: str
    """The kernel's."""
    render: Render | None
    """None: the kernel is the program itself, called as it is."""


def signature_of(program: PyTorchProgram, language: KernelLanguage) -> Signature:
    parameters = [
        Parameter(name=one.name, role="output" if one.is_changed else "input",
                  dtype=stored(one.dtype, language))
        for one in (*program.inputs, *program.weights)
    ]  # fmt: skip
    parameters += [
        Parameter(name=one.name, role="output", dtype=stored(one.dtype, language))
        for one in program.results
    ]
    parameters += [Parameter(name=name, role="size", dtype="int32") for name in program.dims]
    return Signature(parameters=tuple(parameters))


def widened(graph: Graph, language: KernelLanguage) -> Graph:
    """A graph whose 16-bit floats are float32 where a language lacks them: it rounds less often."""
    return replace(graph, nodes=tuple(
        replace(node, dtype=stored(node.dtype, language)) for node in graph.nodes
    ))  # fmt: skip


def _in_c(graph: Graph, program: PyTorchProgram, language: KernelLanguage) -> RenderedKernel:
    try:
        signature = signature_of(program, language)
        made = c_kernel(
            widened(graph, language), signature, language=language, threads=1,
            dims=program.workloads, mark=PLAIN,
        )  # fmt: skip
    except (NoSchedule, ValueError) as why:
        raise NoKernel(str(why)) from why
    return RenderedKernel(made.text, (*default_build(language).flags, *made.flags))


def _in_cuda(graph: Graph, program: PyTorchProgram) -> RenderedKernel:
    signature, wanted = signature_of(program, "cuda"), Wanted(dims=program.workloads)
    try:
        made = cuda_kernel(graph, signature, wanted)
    except (NoSchedule, ValueError) as why:
        raise NoKernel(str(why)) from why
    return RenderedKernel(made.text, default_build("cuda").flags)


def _in_triton(graph: Graph, program: PyTorchProgram) -> RenderedKernel:
    arrays = (*program.inputs, *program.weights, *program.results)
    names = [*(one.name for one in arrays), *program.dims]
    try:
        return RenderedKernel(triton_module(graph, names, Wanted(dims=program.workloads)))
    except NoSchedule as why:
        raise NoKernel(str(why)) from why


BACKENDS: Mapping[FirstLanguage, Backend] = {
    "c": Backend("kernel.c", lambda graph, program: _in_c(graph, program, "c")),
    "cpp": Backend("kernel.cpp", lambda graph, program: _in_c(graph, program, "cpp")),
    "cuda": Backend("kernel.cu", _in_cuda),
    "torch": Backend("kernel.py", None),
    "triton": Backend("kernel.py", _in_triton),
}


_FAMILIES: Mapping[str, tuple[str, int]] = {
    "attention": ("attention", 2), "contraction": ("gemm", 1), "convolution": ("conv2d", 1),
    "softmax": ("softmax", 0), "cross-entropy": ("cross_entropy", 0), "normalisation": ("norm", 0),
    "reduction": ("reduction", 0), "map": ("elementwise", 0), "transpose": ("transpose", 0),
    "copy": ("copy", 0),
}  # fmt: skip
"""By kind; and how many products one operator of the family has: several layers are of none."""


def family_read(graph: Graph) -> str | None:
    """The family, of `analysis.flops`; None: it is of none, or of several."""
    family, products = _FAMILIES.get(kind(graph), (None, 0))
    count = sum(isinstance(node, Contract) for node in graph.nodes)
    return family if count == products else None
