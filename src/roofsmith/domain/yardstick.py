"""Yardsticks: what PyTorch makes of the reference, to hold the final kernel against.

A yardstick is a module candidate like any other, made from the target's own reference, so that it
is built, checked and timed by the same judge on the same inputs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.domain.values import Value

ENTRY = "run_kernel"
"""What a module must define; `run_kernel(**inputs)` fills the outputs in place."""
_EAGER = f"""

{ENTRY} = reference
"""
_COMPILED = f"""

import torch as _torch
import torch._dynamo.config as _dynamo
import torch._inductor.config as _inductor

_dynamo.cache_size_limit = 64  # every workload has its own shapes; beyond the limit it runs eagerly
_inductor.compile_threads = 1  # no pool of processes: the one that is judged compiles
{ENTRY} = _torch.compile(reference, mode=MODE, dynamic=False)
"""
_PRECISION = """

import torch as _torch

_backends = _torch.backends
if hasattr(_backends, "fp32_precision"):  # since PyTorch 2.9, beside the old switches
    _cudnn = _backends.cudnn
    for _part in (_backends, _backends.cuda.matmul, _cudnn, _cudnn.conv, _cudnn.rnn):
        _part.fp32_precision = "tf32" if ALLOWED else "ieee"
_torch.set_float32_matmul_precision("high" if ALLOWED else "highest")
_backends.cuda.matmul.allow_tf32 = _backends.cudnn.allow_tf32 = ALLOWED
"""
"""The same for all of them as for the reference: PyTorch computes convolutions in TF32 unless it is
told otherwise, and a module may set what it likes when it is imported."""
_MODES = ("default", "max-autotune-no-cudagraphs")
"""Of torch.compile. CUDA graphs are left out: they copy inputs into places of their own."""
_MODULES = frozenset(("torch", "F"))


class PyTorchBaseline(Value):
    """One implementation that the final kernel is held against."""

    name: str
    """Such as `eager`, or `torch.compile`."""
    candidate: Candidate
    calls: tuple[str, ...] = ()
    """What the reference calls of PyTorch, as it is written. A single call is the vendor's library,
    where PyTorch leaves it to one: `torch.matmul` to cuBLAS, say."""


class PyTorchBaselineResult(Value):
    """How a yardstick did: it was the candidate, and the final kernel the incumbent."""

    name: str
    calls: tuple[str, ...] = ()
    candidate_id: str
    judgement: Judgement


class PyTorchBaselines(Value):
    """The yardsticks were measured beside the kernel that holds.

    Comes before `Stopped`, and before a `Diagnosed` of the highest level.
    """

    kind: Literal["yardsticks"] = "yardsticks"
    incumbent_id: str
    """Of the kernel that they were measured beside."""
    results: tuple[PyTorchBaselineResult, ...]
    at: str


def pytorch_yardsticks(target: Target) -> tuple[PyTorchBaseline, ...]:
    """Eager, and `torch.compile` in two modes; none for kernels on the host's processors."""
    if target.language in HOST_LANGUAGES:
        return ()
    text = target.truth.text + _PRECISION.replace("ALLOWED", str(target.tf32))
    eager = PyTorchBaseline(
        name="eager", candidate=_module(target, "eager.py", text + _EAGER), calls=torch_calls(text)
    )
    return eager, *(
        PyTorchBaseline(
            name="torch.compile" if mode == "default" else f"torch.compile {mode}",
            candidate=_module(
                target, f"compile-{mode}.py", text + _COMPILED.replace("MODE", repr(mode))
            ),
        )
        for mode in _MODES
    )


def torch_calls(text: str) -> tuple[str, ...]:
    """What `reference` calls of PyTorch: `torch.softmax`, `F.layer_norm`, `@`; each once.

    Methods of tensors can't be told from other methods by their text, so they are left out, and so
    is all of a reference that doesn't parse.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    bodies = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "reference"]
    return tuple(dict.fromkeys(name for body in bodies for name in _called(body)))


def _called(body: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(body):
        match node:
            case ast.BinOp(op=ast.MatMult()):
                yield "@"
            case ast.Call(func=ast.Attribute() as function):
                name = ast.unparse(function)
                if name.partition(".")[0] in _MODULES:
                    yield name
            case _:
                pass


def _module(target: Target, path: str, text: str) -> Candidate:
    sources = (SourceFile(path=path, text=text), *target.reference_files)
    return Candidate(language="torch", sources=sources, entry=ENTRY)
