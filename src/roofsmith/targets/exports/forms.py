"""A kernel that a campaign came to, as files that others load: without roofsmith, for PyTorch."""

from __future__ import annotations

import ast
import json
import keyword
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Candidate, Signature
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.errors import UsageError
from roofsmith.targets.pytorch.kernel_test import COMPILERS

CTYPES: Final = {
    "int64": "c_int64", "int32": "c_int32", "int16": "c_int16", "int8": "c_int8",
    "uint64": "c_uint64", "uint32": "c_uint32", "uint16": "c_uint16", "uint8": "c_uint8",
    "float32": "c_float", "float64": "c_double", "bool": "c_bool",
}  # fmt: skip
NEEDED = frozenset(("torch", "triton", "numpy", "pytest"))
"""Modules that a package of the same name would hide."""
HEADERS = (".h", ".hpp", ".cuh")
Files = dict[str, str]
_TEMPLATES = Environment(
    loader=PackageLoader("roofsmith.targets.exports"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,
)


@dataclass(frozen=True, slots=True)
class Winner:
    target: Target
    candidate: Candidate
    signature: Signature
    described: Mapping[str, WorkloadDescription]
    """By workload, all that were judged."""
    about: str
    """A sentence: how fast, where that was measured."""

    @property
    def name(self) -> str:
        plain = re.sub(r"\W+", "_", self.target.name).strip("_").lower() or "kernel"
        taken = keyword.iskeyword(plain) or plain in (
            sys.stdlib_module_names | NEEDED | {path.partition(".")[0] for path in _beside(self)}
        )
        return f"kernel_{plain}" if taken or plain[0].isdigit() else plain

    @property
    def arrays(self) -> tuple[ArraySpec, ...]:
        """Of the first workload, in order."""
        return next(iter(self.described.values())).arrays


def run_text(winner: Winner) -> str:
    """One Python file whose `run(*inputs)` gives the results."""
    arrays, candidate = winner.arrays, winner.candidate
    given = [one.name for one in arrays if one.is_given]
    judged = _judged(winner, given)
    language = winner.target.language
    parameters, numbers = winner.signature.parameters, next(iter(winner.described.values())).scalars
    return _filled(
        "run.py.j2",
        winner,
        given=given,
        changed=[one.name for one in arrays if one.role == "inout"],
        results=[one.name for one in arrays if one.is_result],
        kinds={one.name: one.dtype for one in arrays},
        judged=_lines(judged),
        device="cpu" if language in HOST_LANGUAGES else "cuda",
        language=language,
        compiler=COMPILERS.get(language),
        sources=_lines({one.path: one.text for one in candidate.sources}),
        entry=winner.signature.entry,
        kernel=repr(candidate.kernel.path),
        environment=candidate.build.environment,
        order=[one.name for one in parameters] if language in COMPILERS else [
            *(one.name for one in arrays), *numbers
        ],
        types={one.name: CTYPES[one.dtype] for one in parameters if one.role == "size"},
        command=_command(candidate),
        files=[one.path for one in candidate.sources if not one.path.endswith(HEADERS)],
        link=[*candidate.build.link],
    )  # fmt: skip


def _judged(winner: Winner, given: list[str]) -> dict[Any, Any]:
    """By the inputs' shapes what else there is, where the shapes alone say it.

    Raises:
        UsageError: they never do.
    """
    judged: dict[Any, Any] = {}
    several = set()
    for found in winner.described.values():
        shapes = {one.name: one.shape for one in found.arrays}
        made = {one.name: one.shape for one in found.arrays if not one.is_given}
        key, rest = tuple(shapes[name] for name in given), (made, dict(found.scalars))
        if judged.setdefault(key, rest) != rest:
            several.add(key)
    if not judged.keys() - several:
        raise UsageError(
            f"{winner.target.name} was judged on inputs of the same shapes with other numbers, and"
            " these forms tell them apart by their shapes",
            hint="--format patch",
        )
    return {key: rest for key, rest in judged.items() if key not in several}


def _command(candidate: Candidate) -> list[str]:
    build = candidate.build
    compiler = COMPILERS.get(candidate.language, "") if build.compiler == "auto" else build.compiler
    is_host = candidate.language in HOST_LANGUAGES
    shared = ["-shared", "-fPIC"] if is_host else ["-shared", "-Xcompiler", "-fPIC"]
    return [compiler, *build.flags, *shared]


def _filled(template: str, winner: Winner, **values: object) -> str:
    about = winner.about.replace("\\", "").replace('"', "'")
    return _TEMPLATES.get_template(template).render(name=winner.name, about=about, **values)


def _lines(values: Mapping[Any, Any]) -> str:
    """A dict with an entry a line."""
    return "{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in values.items()) + "}"


def solution(winner: Winner) -> Files:
    """FlashInfer's and SOL-ExecBench's form: a solution of a definition, which returns results."""
    language = winner.target.language
    document = {
        "name": f"roofsmith_{winner.name}",
        "definition": definition_of(winner),
        "author": "roofsmith",
        "description": winner.about,
        "spec": {
            "language": "triton" if language == "triton" else "python",
            "languages": ["triton" if language == "triton" else "pytorch"],
            "target_hardware": ["LOCAL"],
            "entry_point": "main.py::run",
            "destination_passing_style": False,
            "dependencies": ["torch"],
        },
        "sources": [{"path": "main.py", "content": _by_name(winner)}],
    }
    return {"solution.json": json.dumps(document, indent=2) + "\n"}


def definition_of(winner: Winner) -> str:
    """The definition's own name, of which the target's is a plain one."""
    for text in _beside(winner).values():
        if found := re.search(r"^DEFINITION = (['\"].*['\"])$", text, re.MULTILINE):
            return str(ast.literal_eval(found[1]))
    return winner.target.name


def _by_name(winner: Winner) -> str:
    """`run` that takes the definition's inputs by name, numbers among them."""
    given = [one.name for one in winner.arrays if one.is_given]
    text = run_text(winner).replace("def run(*inputs)", "def _run(*inputs)")
    names = ", ".join(f"{name}=None" for name in given)
    return text + f"\n\ndef run({names}, **numbers):\n    return _run({', '.join(given)})\n"


def kernelbench(winner: Winner) -> Files:
    """KernelBench's form: `ModelNew` beside the problem's own `Model`."""
    reference = winner.target.truth.text
    own = [text for text in _beside(winner).values() if re.search(r"^class Model\b", text, re.M)]
    if not own or not re.search(r"\.Model\(", reference):
        raise UsageError(
            f"{winner.target.name} has no PyTorch module Model, which ModelNew stands in for",
            hint="--format torch-op, for kernels of any target",
        )
    _require_same_results(winner, reference)
    state = re.search(r"^ +if (?:key|name) in (\[.*\]):$", reference, re.MULTILINE)
    weights = re.search(r"^WEIGHTS = \{.*?^\}\n", reference, re.MULTILINE | re.DOTALL)
    return {
        f"{winner.name}.py": _filled(
            "model_new.py.j2",
            winner,
            kernel=run_text(winner),
            model=own[0].strip(),
            weights=weights.group() if weights else "WEIGHTS = {}",
            state=state[1] if state else "[]",
            names_modes=re.search(r"\b(training|getattr)\b", own[0]) is not None,
            init_inputs=_init_inputs(reference, own[0]),
            forward_inputs=_forward_inputs(winner, reference),
        )
    }


def _require_same_results(winner: Winner, reference: str) -> None:
    """See that the kernel's results, in order, are what Model returns.

    Raises:
        UsageError: they aren't.
    """
    paths = re.findall(r"^ +\w+\.copy_\(result(.*)\)$", reference, re.MULTILINE)
    if any(one.role == "inout" for one in winner.arrays):
        why = "changes its inputs"
    elif paths != [""] and (
        len(paths) == 1 or paths != [f"[{index}]" for index in range(len(paths))]
    ):
        why = f"returns results as {', '.join(paths)}, which ModelNew doesn't"
    else:
        return
    raise UsageError(f"{winner.target.name}: Model {why}", hint="--format torch-op")


def _init_inputs(reference: str, model: str) -> str:
    """What the judged Model was made with, as it is written in a call."""
    stars = re.search(r"\((\*+)\w+\.get_init_inputs\(\)\)", reference)
    return f"{stars[1] if stars else '*'}get_init_inputs()" if "get_init_inputs" in model else ""


def _forward_inputs(winner: Winner, reference: str) -> list[object]:
    """What the judged Model was called with: `...` in a tensor's place.

    Raises:
        UsageError: there is something that can't be compared.
    """
    tensors = [one.name for one in winner.arrays if one.is_given]
    calls = [
        one.args[2] for one in ast.walk(ast.parse(reference))
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "functional_call"
    ]  # fmt: skip
    if not calls or not isinstance(calls[0], ast.Tuple):
        return [...] * len(tensors)
    try:
        return [
            ... if isinstance(one, ast.Name) and one.id in tensors else ast.literal_eval(one)
            for one in calls[0].elts
        ]
    except ValueError:
        raise UsageError(
            f"{winner.target.name} is called with {ast.unparse(calls[0])}, and ModelNew takes"
            " tensors and plain values",
            hint="--format torch-op",
        ) from None


def gpu_mode(winner: Winner) -> Files:
    """gpu-mode's form: `custom_kernel(data)`."""
    return {
        "submission.py": run_text(winner)
        + """

def custom_kernel(data):
    tensors = [one for one in data if torch.is_tensor(one)] if isinstance(data, tuple) else [data]
    return run(*tensors[: len(GIVEN)])
"""
    }


def torch_op(winner: Winner) -> Files:
    """A package with an operator of PyTorch's, a guard, and a fallback to the reference."""
    return {
        **_operator(winner, f"src/{winner.name}", is_hub=False),
        "pyproject.toml": _filled("pyproject.toml.j2", winner),
    }


def hf_kernels(winner: Winner) -> Files:
    """The same as Hugging Face's kernel-builder takes it: nothing that is built ahead.

    https://github.com/huggingface/kernels, `kernels-data/src/config/v5.rs` and `name.rs`: a name in
    small letters, digits and dashes, which begins with a letter.
    """
    hub_name = winner.name.replace("_", "-")
    if not re.fullmatch(r"[a-z](_?[a-z0-9])+", winner.name):
        raise UsageError(
            f"{winner.name} can't be a name on the Hub, which has two or more letters and digits",
            hint="rename the target, or --format torch-op",
        )
    device = "cpu" if winner.target.language in HOST_LANGUAGES else "cuda"
    return {
        **_operator(winner, f"torch-ext/{winner.name}", is_hub=True),
        "build.toml": _filled("build.toml.j2", winner, hub_name=hub_name, device=device),
        "flake.nix": _filled("flake.nix.j2", winner, hub_name=hub_name),
    }


def _operator(winner: Winner, package: str, *, is_hub: bool) -> Files:
    values = {
        "is_hub": is_hub,
        "given": [one.name for one in winner.arrays if one.is_given],
        "results": [one.name for one in winner.arrays if one.is_result],
        "is_torch": re.search(
            r"^\s*(?:import|from) torch\b", winner.target.truth.text, re.MULTILINE
        ) is not None,
    }  # fmt: skip
    ours = {"__init__.py", "kernel.py", "reference.py", "_ops.py"} & _beside(winner).keys()
    if ours:
        raise UsageError(
            f"{winner.target.name} brings a {min(ours)}, and the package needs one of its own",
            hint="rename it in the target, or another --format",
        )
    return {
        **{f"{package}/{path}": text for path, text in _beside(winner).items()},
        "README.md": _filled("operator.md.j2", winner, **values),
        f"{package}/kernel.py": run_text(winner),
        f"{package}/reference.py": winner.target.truth.text,
        f"{package}/__init__.py": _filled("operator.py.j2", winner, **values),
        "tests/test_operator.py": _filled("test_operator.py.j2", winner, is_hub=is_hub),
    }


def _beside(winner: Winner) -> Files:
    return {one.path: one.text for one in winner.target.reference_files}


FORMATS: Final[Mapping[str, Callable[[Winner], Files]]] = {
    "sol": solution,
    "flashinfer": solution,
    "kernelbench": kernelbench,
    "gpu-mode": gpu_mode,
    "torch-op": torch_op,
    "hf-kernels": hf_kernels,
}
