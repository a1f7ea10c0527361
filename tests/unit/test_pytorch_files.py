"""What a PyTorch file computes is seen: sizes, arrays, results, and why it can't be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from roofsmith.domain.modes import KernelLanguage
from roofsmith.targets.pytorch import looking
from roofsmith.targets.pytorch.describing import draw_of, read_program
from roofsmith.targets.pytorch.program import PyTorchProgram, PyTorchRequest, module_name
from roofsmith.targets.pytorch.text import reference_text, torch_kernel
from roofsmith.targets.pytorch.user_file import Refused

FILES = Path(__file__).parent / "pytorch_files"
INPUTS = "\ndef get_inputs():\n    return [torch.randn(16, 8)]\n"
MODULE = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        {returned}
"""


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path) -> Iterator[None]:
    """Files are imported by name, from their folders. Libraries stay: torch holds sympy's classes,
    and a second sympy wouldn't know them."""
    path, folders = [*sys.path], (str(tmp_path), str(FILES))
    yield
    sys.path[:] = path
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(folders):
            del sys.modules[name]


def read(
    path: Path, language: KernelLanguage = "c", most_flop: float = 1e12, **said: object
) -> PyTorchProgram:
    request = PyTorchRequest(
        path=str(path), shown=path.name, language=language, most_flop=most_flop,
        most_bytes=2**40, free_bytes=10**9, **said,
    )  # fmt: skip
    return read_program(request)


def read_text(folder: Path, text: str, **said: object) -> PyTorchProgram:
    path = folder / "model.py"
    path.write_text(text)
    return read(path, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("workloads", "own"),
    [
        ("[[torch.randn(8, 4)], [torch.randn(16, 4)]]", ((1, {"N": 16, "D": 4}),)),
        ("[[torch.zeros(8, 4)], [torch.zeros(16, 4)]]", ()),
        ("[[torch.empty(n, 4, device='meta')] for n in (8, 16)]", ()),
        ("iter([[torch.randn(8, 4)], [torch.randn(16, 4)]])", ()),
    ],
)
def test_a_list_that_draws_is_drawn_from(
    workloads: str, own: tuple[object, ...], tmp_path: Path
) -> None:
    program = read_text(
        tmp_path,
        "import torch\n\ndef f(x):\n    return x * 2\n\ndef get_inputs():\n"
        "    return [torch.randn(8, 4)]\n\ndef get_workloads():\n"
        f"    return {workloads}\n",
    )
    assert program.own == own
    assert len(program.workloads) == 2


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("x * 0 + 1", "the same results"),
        ("x + 0 * y.sum()", "don't depend on y"),
        ("x * 1e-9 + 0 * y", "lets zeros pass"),
        ("x + y", ""),
    ],
)
def test_what_a_kernel_could_leave_out_is_told(result: str, said: str, tmp_path: Path) -> None:
    text = f"import torch\n\ndef f(x, y):\n    return {result}\n\ndef get_inputs():\n"
    text += "    return [torch.randn(8, 4), torch.randn(8, 4)]\n"
    told = [one for one in read_text(tmp_path, text, atol=1e-2).notes if "degenerate" in one]
    assert bool(told) == bool(said)
    assert said in "".join(told)


def test_sizes_that_may_change_are_dims_and_those_of_weights_numbers() -> None:
    program = read(FILES / "attention.py")
    assert program.dims == {"B": 2, "T": 32}
    assert program.results[0].shape == ("B", "T", 32)
    assert [one.weight for one in program.weights][-1] == "mask"
    assert len(program.workloads) == 2
    assert program.workloads[0] != program.workloads[1]


def test_windows_give_results_whose_sizes_are_rounded() -> None:
    assert read(FILES / "conv.py").results[0].shape == ("B", 8, "(H + 1) // 4", "(W + 1) // 4")


def test_what_is_changed_in_place_is_a_result() -> None:
    program = read(FILES / "inplace.py")
    assert [one.name for one in program.inputs if one.is_changed] == ["p", "m"]
    assert program.results == ()


def test_nested_arguments_and_results_get_flat_names() -> None:
    program = read(FILES / "nested.py")
    assert [one.name for one in program.inputs] == ["pair_0", "pair_1", "options_mask"]
    assert program.call == "pair=(pair_0, pair_1), options={'mask': options_mask}, scale=0.5"
    assert [one.path for one in program.results] == ["['y']", "['parts'][0]", "['parts'][1]"]


def test_indices_stay_below_the_dim_that_they_pick_from() -> None:
    drawn = read(FILES / "loss.py").inputs[1].draw
    assert drawn == "torch.randint(0, D, (N,), dtype=torch.int64)"


def test_large_inputs_are_not_drawn_to_find_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are indices in them forgotten, which nothing but a call with numbers would notice."""
    monkeypatch.setattr(looking, "SHORT_BYTES", 1e3)
    monkeypatch.setattr(looking, "_numbers", lambda *_: pytest.fail("numbers were drawn"))
    drawn = read(FILES / "loss.py").inputs[1].draw
    assert drawn == "torch.randint(0, D, (N,), dtype=torch.int64)"
    text = "import torch\n\n\ndef f(x):\n    return x.sum(dim=0)\n"
    given = "\n\ndef get_inputs():\n    return [torch.randn(64, 32)]\n"
    assert read_text(tmp_path, text + given).dims == {"N": 64, "D": 32}


def test_large_sizes_are_scaled_down_and_it_is_said() -> None:
    program = read(FILES / "mlp.py", most_flop=3e5)
    assert program.workloads[0]["N"] < 32
    assert "N=32" in program.notes[0]


def test_sizes_that_are_asked_for_are_taken() -> None:
    program = read(FILES / "mlp.py", workloads=({"N": 7},))
    assert program.workloads == ({"N": 7},)
    with pytest.raises(Refused, match="there is no Q"):
        read(FILES / "mlp.py", workloads=({"Q": 7},))


def test_weights_that_nothing_uses_are_left_out_and_state_is_told(tmp_path: Path) -> None:
    text = MODULE.format(made="self.norm = nn.BatchNorm1d(8)", returned="return self.norm(x)")
    program = read_text(tmp_path, text + INPUTS)
    assert [one.weight for one in program.weights] == ["norm.weight", "norm.bias"]
    assert "norm.running_mean" in program.state


@pytest.mark.parametrize("name", ["mlp", "embed", "several", "half", "inplace", "gain"])
def test_the_reference_gives_what_the_file_gives(name: str, tmp_path: Path) -> None:
    program = read(FILES / f"{name}.py")
    made = {}
    sys.path[:0] = [str(FILES)]
    exec(reference_text(program, "torch", f"{name}.py"), made)
    exec(torch_kernel(program, f"{name}.py"), kernel := {})  # type: ignore[var-annotated]
    drawn = made["setup"](**program.workloads[1])
    inputs = drawn["inputs"]
    again = {k: v.clone() if torch.is_tensor(v) else v for k, v in inputs.items()}
    with torch.no_grad():
        made["reference"](**inputs)
        kernel["run_kernel"](**again)
    for one in (*drawn.get("outputs", ()), *drawn.get("inouts", ())):
        assert torch.equal(inputs[one], again[one])
        assert inputs[one].isfinite().all()


def test_arrays_may_be_called_as_the_reference_calls_its_own(tmp_path: Path) -> None:
    """`weights` would be a parameter twice, `model` the file, `value` what a loop came to."""
    text = MODULE.replace("x)", "weights, model, value)").format(
        made="self.norm = nn.BatchNorm1d(8)",
        returned="return {'values': self.norm(value) + weights, 'result': model * 2}",
    )
    given = "\ndef get_inputs():\n    return [torch.randn(16, 8), torch.randn(16, 8), "
    program = read_text(tmp_path, f"{text}{given}torch.randn(16, 8)]\n")
    sys.path[:0] = [str(tmp_path)]
    exec(reference_text(program, "torch", "model.py"), made := {})  # type: ignore[var-annotated]
    inputs = made["setup"](**program.workloads[0])["inputs"]
    _, model, value, *_ = inputs.values()
    with torch.no_grad():
        made["reference"](**inputs)
    values, result = (inputs[one.name] for one in program.results)
    assert torch.equal(result, model * 2)
    weights = next(iter(inputs.values()))
    scale, shift = (inputs[one.name] for one in program.weights)
    normed = (value - value.mean(0)) / (value.var(0, unbiased=False) + 1e-5).sqrt()
    assert torch.allclose(values, normed * scale + shift + weights, atol=1e-5)


FUNCTION = "import torch\n\n\ndef f(x):\n    {body}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch\n", "holds no function and no nn.Module"),
        (FUNCTION.format(body="return x"), r"no get_inputs\(\)"),
        (FUNCTION.format(body="return x if x.sum() > 0 else -x") + INPUTS, ":5: .*looks at the"),
        (FUNCTION.format(body="return x[x > 0]") + INPUTS, "model.py:5: .*looks at the numbers"),
        (FUNCTION.format(body="return x @ x") + INPUTS, "model.py:5: calling it raises"),
        (FUNCTION.format(body="return 3") + INPUTS, "returns no tensor"),
        (FUNCTION.format(body="return x + torch.rand(8)") + INPUTS, "model.py:5: .*draws random"),
        ("import torch\nimport not_there_at_all\n", "model.py:2: not_there_at_all isn't installed"),
        ("import sys\nsys.exit(1)\n", "model.py:2: importing it exits"),
        (FUNCTION.format(body="return x") + INPUTS.replace("8)", "8, device='meta')"), "on meta"),
        (
            MODULE.format(made="self.drop = nn.Dropout(0.1)", returned="return self.drop(x)")
            + INPUTS,
            "model.py:11: .*draws random numbers",
        ),
        (
            MODULE.format(made="self.w = nn.Linear(20000, 20000)", returned="return self.w(x)")
            + INPUTS,
            "1.6 GB of weights",
        ),
        (
            MODULE.replace("(self)", "(self, width)", 1).format(made="pass", returned="return x")
            + INPUTS,
            "made with width",
        ),
        (
            FUNCTION.format(body="return x") + FUNCTION.replace("f(", "g(").format(body="return x"),
            "holds several: f, g",
        ),
    ],
)  # fmt: skip
def test_what_cant_be_used_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        read_text(tmp_path, text)


def test_draws_are_like_what_was_given() -> None:
    torch.manual_seed(0)
    shape = ("N", "N")
    assert draw_of(torch.rand(50, 50), shape) == "torch.rand((N, N))"
    assert draw_of(torch.randn(50, 50), shape) == "torch.randn((N, N))"
    assert draw_of(torch.ones(9, 9).tril(), shape) == (
        "torch.ones((N, N), dtype=torch.float32).tril()"
    )
    assert draw_of(torch.arange(7), ("N",)) == "torch.arange(N, dtype=torch.int64)"
    made = eval(draw_of(torch.randint(3, 9, (99,)), ("N",)), {"torch": torch, "N": 500})
    assert made.min() >= 3
    assert made.max() < 9


def test_a_file_keeps_its_name_where_it_may() -> None:
    assert module_name("model") == "model"
    assert module_name("reference") != "reference"
    assert module_name("random") != "random"
    assert module_name("my net-2").isidentifier()
