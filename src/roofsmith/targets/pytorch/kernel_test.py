"""The text of test_kernel.py, which needs pytest and no roofsmith."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofsmith.domain.kernel import Language
from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.targets.pytorch.program import KernelArray, PyTorchProgram

ALLOWED: Mapping[str, float] = {
    "float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1,
}  # fmt: skip
"""Worst relative error of results in a type: sums of a thousand terms and more. Chosen; the judge
of `roofsmith kernel check` works out what honest arithmetic makes, and allows that."""

_TEXT = '''"""Is the kernel right? `pytest test_kernel.py` or `python test_kernel.py` says so."""

{imports}
import pytest
import torch

import reference

FOLDER = Path(__file__).parent
WORKLOADS = [
{workloads}]
ALLOWED = {{
{allowed}}}
"""Worst relative error of each result; whole numbers and booleans are equal."""

{calling}

def errors(dims, seed=1):
    """Worst relative error of each result: against the reference in float64, with numbers that are
    small beside the others (below their root mean square) taken as those are."""
    drawn = reference.setup(**dims, seed=seed)
    names = [*drawn.get("outputs", []), *drawn.get("inouts", [])]
    inputs = drawn["inputs"]
    for name, value in inputs.items():
        inputs[name] = value.to(DEVICE) if torch.is_tensor(value) else value
    exact = {{
        name: value.double() if torch.is_tensor(value) and value.is_floating_point()
        else value.clone() if torch.is_tensor(value) else value
        for name, value in inputs.items()
    }}
    with torch.no_grad():
        reference.reference(**exact)
    call(inputs)
    return {{name: worst(inputs[name], exact[name]) for name in names}}


def worst(found, right):
    if not found.is_floating_point():
        return 0.0 if torch.equal(found, right) else float("inf")
    found, same = found.double(), (found == right) | (found.isnan() & right.isnan())
    usual = right[right.isfinite()].square().mean().sqrt().clamp_min(1e-30)
    wrong = ((found - right).abs() / right.abs().clamp_min(usual)).masked_fill(same, 0)
    return wrong.nan_to_num(float("inf")).max().item() if wrong.numel() else 0.0


def lines(dims):
    for name, error in errors(dims).items():
        allowed, told = ALLOWED[name], "PASS" if error <= ALLOWED[name] else "FAIL"
        sizes = ",".join(f"{{key}}={{size}}" for key, size in dims.items())
        error = f"worst relative error {{error:.2g}}, allowed {{allowed:.2g}}"
        yield f"{{told}} {{sizes}} {{name}}: {{error}}"


@pytest.mark.skipif(MISSING != "", reason=f"not tried: {{MISSING}}")
@pytest.mark.parametrize("dims", WORKLOADS, ids=str)
def test_kernel(dims, capsys):
    told = [*lines(dims)]
    with capsys.disabled():
        print("", *told, sep="\\n")
    assert not [line for line in told if line.startswith("FAIL")]


if __name__ == "__main__":
    if MISSING:
        print(f"SKIP: not tried: {{MISSING}}")
        sys.exit()
    told = [line for dims in WORKLOADS for line in lines(dims)]
    print(*told, sep="\\n")
    sys.exit(any(line.startswith("FAIL") for line in told))
'''
_COMPILED = '''DEVICE = "{device}"
MISSING = "" if shutil.which("{compiler}") else "there is no {compiler} on PATH"
{needs}

@functools.cache
def solve():
    """The kernel's function, built anew."""
    library = Path(tempfile.mkdtemp()) / "kernel.so"
    subprocess.run([{words}, "-o", library, FOLDER / "{kernel}"{link}], check=True)
    return ctypes.CDLL(str(library)).solve


def call(inputs):
    """Let the kernel fill its results."""
    solve()(*(
        ctypes.c_void_p(value.data_ptr()) if torch.is_tensor(value) else ctypes.c_int(value)
        for value in inputs.values()
    )){wait}
'''
_MODULE = '''DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
{needs}

def call(inputs):
    """Let the kernel fill its results."""
    import kernel

    with torch.no_grad():
        kernel.run_kernel(**inputs)
'''
_NEEDS_GPU = """\
if not torch.cuda.is_available():
    MISSING = "PyTorch sees no GPU here"
"""
_NEEDS_TRITON = """\
MISSING = "" if importlib.util.find_spec("triton") else "Triton isn't installed"
os.environ.setdefault("TRITON_INTERPRET", "0" if DEVICE == "cuda" else "1")
"""


def kernel_test(
    program: PyTorchProgram, language: Language, kernel: str, flags: Sequence[str]
) -> str:
    results: list[KernelArray] = [*program.results]
    results += (one for one in program.inputs if one.is_changed)
    allowed = {one.name: ALLOWED.get(one.dtype, 0.0) for one in results}
    return _TEXT.format(
        imports=_imports(language),
        workloads="".join(f"    {dims},\n".replace("'", '"') for dims in program.workloads),
        allowed="".join(f'    "{name}": {value:g},\n' for name, value in allowed.items()),
        calling=_calling(language, kernel, flags),
    )


def _imports(language: Language) -> str:
    modules = ["sys"]
    if language in COMPILERS:
        modules += ["ctypes", "functools", "shutil", "subprocess", "tempfile"]
    if language == "triton":
        modules += ["importlib.util", "os"]
    return "\n".join(
        [*(f"import {name}" for name in sorted(modules)), "from pathlib import Path\n"]
    )


COMPILERS: Mapping[Language, str] = {"c": "cc", "cpp": "c++", "cuda": "nvcc", "hip": "hipcc"}


def _calling(language: Language, kernel: str, flags: Sequence[str]) -> str:
    if language not in COMPILERS:
        return _MODULE.format(needs=_NEEDS_TRITON if language == "triton" else 'MISSING = ""\n')
    on_host = language in HOST_LANGUAGES
    shared = ["-shared", "-fPIC"] if on_host else ["-shared", "-Xcompiler", "-fPIC"]
    words = [COMPILERS[language], *flags, *shared]
    return _COMPILED.format(
        device="cpu" if on_host else "cuda",
        compiler=COMPILERS[language],
        needs="" if on_host else _NEEDS_GPU,
        words=", ".join(f'"{word}"' for word in words),
        kernel=kernel,
        link=', "-lm"' if on_host else "",
        wait="" if on_host else "\n    torch.cuda.synchronize()",
    )
