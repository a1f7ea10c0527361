"""Kernels that return their results are called as they are, and go home as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from campaign_builder import softmax_campaign

from roofsmith.api.subjects import candidate_from
from roofsmith.api.telling import told_candidate
from roofsmith.domain.returning import called_in_place, returning_entry, taken_out, told_of
from roofsmith.errors import TargetError
from roofsmith.report.next_steps import taken_home
from roofsmith.targets.file import load_target
from roofsmith.toolchains.module import module_entry

REFERENCE = """import torch


def setup(N, D, seed=0):
    torch.manual_seed(seed)
    x, w = torch.randn(N, D), torch.randn(D)
    empty = {"y": torch.empty(N, D), "s": torch.empty(N)}
    return {"inputs": {"x": x, "w": w, **empty, "N": N, "D": D}, "outputs": ["y", "s"]}


def reference(x, w, y, s, N, D):
    y.copy_(x * w)
    s.copy_(x.sum(1))
"""
GPU_MODE = """import torch
import model


def setup(N, seed=0):
    given = model.get_inputs()
    inputs = {"data_0": given[0], "scale": given[1].reshape(1), "out": torch.empty(N), "N": N}
    return {"inputs": inputs, "outputs": ["out"]}


def reference(data_0, scale, out, **dims):
    scale = scale.reshape(())
    result = model.ref_kernel((data_0, 3, None, [scale, 'sum', float("inf")]))
    out.copy_(result)
"""


def called(text: str, reference: str, **arguments: Any) -> str:
    """The text as it is called; `arguments` are filled."""
    found = called_in_place(text, "torch", reference)
    module: dict[str, Any] = {}
    exec(found, module)
    module["run_kernel"](**arguments)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "def run_kernel(x, w):\n    return x * w, x.sum(1)\n",
        "def run_kernel(w, *, x, eps=1e-5):\n    return {'s': x.sum(1), 'y': x * w}\n",
        "def custom_kernel(data):\n    x, w = data\n    return [x * w, x.sum(1)]\n",
        "def solve(a, b, /):\n    return a * b, a.sum(1)",
        "def solve(a, b, rows, columns):\r\n    return a * b, a.sum(1)\r\n",
        "def _custom(d): return d[0] * d[1]\n_returning = 1\n\ndef run_kernel(data):\n"
        "    return _custom(data), data[0].sum(1)\n",
    ],
)
def test_results_go_where_the_reference_wants_them(text: str) -> None:
    x, w, y, s = torch.randn(3, 4), torch.randn(4), torch.zeros(3, 4), torch.zeros(3)
    found = called(text, REFERENCE, x=x, w=w, y=y, s=s, N=3, D=4)
    torch.testing.assert_close(y, x * w)
    torch.testing.assert_close(s, x.sum(1))
    assert taken_out(found) == text
    assert called_in_place(found, "torch", REFERENCE) == found
    assert told_of(found)


def test_a_reference_that_takes_anything_gives_by_name() -> None:
    x, w, y, s = torch.randn(3, 4), torch.randn(4), torch.zeros(3, 4), torch.zeros(3)
    kernel = "def run_kernel(w, x, eps=0):\n    return x * w, x.sum(1)\n"
    reference = REFERENCE.replace("(x, w, y, s, N, D)", "(**inputs)")
    called(kernel, reference, x=x, w=w, y=y, s=s, N=3, D=4)
    torch.testing.assert_close(y, x * w)
    in_place = "def run_kernel(x, w, y, s, N, D):\n    return y\n"
    assert called_in_place(in_place, "torch", reference.replace('["y", "s"]', "those")) == in_place


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("return x[:1] * w, x.sum(1)", "y is returned as torch.float32 of (1, 4)"),
        ("return (x * w).double(), x.sum(1)", "torch.float64"),
        ("return x * w", "1 results in place of y, s"),
        ("return {'y': x * w, 't': x.sum(1)}", "no tensor s, of y, t"),
        ("return x * w if w is None else None", "1 results"),
    ],
)
def test_results_of_another_form_are_wrong(text: str, said: str) -> None:
    x, w, y, s = torch.randn(3, 4), torch.randn(4), torch.zeros(3, 4), torch.zeros(3)
    with pytest.raises(TypeError) as raised:
        called(f"def run_kernel(x, w):\n    {text}\n", REFERENCE, x=x, w=w, y=y, s=s, N=3, D=4)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "def run_kernel(x, w, y, s, N, D):\n    return y\n",
        "def run_kernel(**inputs):\n    return inputs\n",
        "def run_kernel(x, w):\n    pass\n",
        "def run_kernel(x, w):\n    def inner():\n        return 1\n",
        "def broken(:\n",
        "x = 1\n",
    ],
)
def test_others_stay_as_they_are(text: str) -> None:
    assert called_in_place(text, "torch", REFERENCE) == text
    assert called_in_place("int f() { return 1; }", "c", REFERENCE) == "int f() { return 1; }"


def test_who_fits_no_reference_is_refused_in_words() -> None:
    with pytest.raises(TargetError) as raised:
        called_in_place("def custom_kernel(a, b, c):\n    return a\n", "torch", REFERENCE)
    assert "x, w, y, s, N, D" in raised.value.message
    hidden = REFERENCE.replace('["y", "s"]', "names()")
    with pytest.raises(TargetError) as raised:
        called_in_place("def run_kernel(x, w):\n    return x\n", "torch", hidden)
    assert "outputs" in raised.value.message


def test_a_set_s_own_call_says_what_a_kernel_gets() -> None:
    kernel = (
        "def custom_kernel(data):\n    x, times, nothing, (scale, kind, _) = data\n"
        "    assert nothing is None and kind == 'sum' and scale.dim() == 0\n"
        "    return x * times * scale\n"
    )
    x, out = torch.randn(8), torch.zeros(8)
    called(kernel, GPU_MODE, data_0=x, scale=torch.tensor([2.0]), out=out, N=8)
    torch.testing.assert_close(out, x * 6)


def test_what_somebody_went_on_from_is_no_longer_taken_out() -> None:
    text = "def custom_kernel(data):\n    return data[0] * data[1], data[0].sum(1)\n"
    first = called_in_place(text, "torch", REFERENCE)
    later = first + "\n\ndef run_kernel(x, w, y, s, N, D):\n    y.copy_(x * w)\n"
    assert taken_out(later) == later
    assert called_in_place(later, "torch", REFERENCE, before=first) == later


def test_a_campaign_s_kernel_comes_and_goes_as_its_author_wrote_it(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef forward(x, w):\n    return x * w, x.sum(1)\n"
    (tmp_path / "kernel.py").write_text(text)
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "target.yaml").write_text(
        "name: scale\nkernel: kernel.py\nentry: forward\nreference: reference.py\n"
        "workloads: [{N: 8, D: 4}]\n"
    )
    target = load_target(tmp_path)
    assert returning_entry(target.kernel.text) == "forward"
    assert module_entry(target.baseline) == "run_kernel"
    (tmp_path / "better.py").write_text(text.replace("x * w", "w * x"))
    told = told_candidate(tmp_path / "better.py", None, target.baseline, target)
    assert returning_entry(told.kernel.text) == "forward"
    named = candidate_from(tmp_path / "kernel.py", None, "forward", tmp_path / "reference.py")
    assert named.id == target.baseline.id
    campaign = softmax_campaign()
    last = campaign.kept[-1].model_copy(update={"candidate": told})
    started = campaign.started.model_copy(update={"target": target})
    rounds = (*campaign.rounds, last)
    campaign = campaign.model_copy(update={"started": started, "rounds": rounds})
    home = taken_home(campaign)
    assert home is not None
    assert "roofsmith" not in home.difference
    assert "+    return w * x, x.sum(1)" in home.difference
