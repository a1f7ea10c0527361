"""Problems of our own in the forms of public sets become targets, or rows that say why not."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roofsmith.cli.root import cli
from roofsmith.targets.file import load_target
from roofsmith.targets.problem_sets.formats import READERS
from roofsmith.targets.problem_sets.problem import (
    KernelProblem,
    Unread,
    hosted,
    whole,
    yaml_mapping,
)

SETS = Path(__file__).parent / "problem_sets"


def only(form: str, place: Path | None = None) -> KernelProblem:
    (found,) = READERS[form](place or SETS / form)
    assert isinstance(found, KernelProblem), found
    return found


def refused(form: str, place: Path) -> str:
    (found,) = READERS[form](place)
    assert isinstance(found, Unread), found
    return found.reason


@pytest.mark.parametrize(
    ("form", "dims"),
    [
        ("kernelbench", [{"N": 128}, {"N": 64}]),
        ("sol-execbench", [{"N": 64, "D": 256}, {"N": 200, "D": 256}]),
        ("flashinfer", [{"N": 256, "D": 64, "M": 128}, {"N": 33, "D": 64, "M": 128}]),
        ("atrex-bench", [{"N": 64, "D": 256}, {"N": 128, "D": 512}]),
        ("gpu-mode", [{"N": 262144}, {"N": 1023}, {"N": 1024}]),
    ],
)
def test_the_sizes_of_a_set_are_those_that_are_judged(
    form: str, dims: list[dict[str, int]], tmp_path: Path
) -> None:
    import torch
    from test_pytorch_files import read

    found = only(form)
    for name, text in found.files.items():
        (tmp_path / name).write_text(text)
    torch.manual_seed(1)
    program = read(tmp_path / "model.py", name=found.entry)
    assert [*program.workloads] == dims
    assert program.draws_itself


def test_weights_and_tolerances_are_the_sets(tmp_path: Path) -> None:
    assert only("atrex-bench").weight == 3.5
    assert "isn't taken over" in only("sol-execbench").notes[0]
    assert only("kernelbench").tolerance


def test_shapes_that_take_most_time_are_judged_on(tmp_path: Path) -> None:
    shutil.copytree(SETS / "atrex-bench" / "gate", tmp_path / "gate")
    sizes = {str(n): {"input_kwargs": {"rows": n + 1, "cols": 4}} for n in range(20)}
    (tmp_path / "gate" / "shapes.json").write_text(json.dumps(sizes))
    performance = {"performance_us": 2.0}
    shapes = {str(n): {"call_count": n, "production_performance": performance} for n in range(20)}
    (tmp_path / "gate" / "metadata.json").write_text(json.dumps({"shapes": shapes}))
    found = only("atrex-bench", tmp_path)
    assert "'rows': 20," in found.files["model.py"]
    assert "'rows': 12," not in found.files["model.py"]
    assert found.notes == ("8 of 20 shapes are judged on: 65% of the time in production",)
    assert found.weights == tuple(2.0 * n for n in range(19, 11, -1))
    shapes["19"] = {"call_count": float("nan"), "production_performance": performance}
    shapes["18"]["call_count"] = 1e308
    (tmp_path / "gate" / "metadata.json").write_text(json.dumps({"shapes": shapes}))
    found = only("atrex-bench", tmp_path)
    assert found.weights[0] == 1e12
    shapes["18"] = {}
    (tmp_path / "gate" / "shapes.json").write_text(json.dumps({"18": sizes["18"], "3": sizes["3"]}))
    (tmp_path / "gate" / "metadata.json").write_text(json.dumps({"shapes": shapes}))
    found = only("atrex-bench", tmp_path)
    assert found.weights == ()
    assert "18" in found.notes[0]
    for other in ([1], {"3": None}, {"3": {"call_count": 1, "production_performance": 0.1}}):
        (tmp_path / "gate" / "metadata.json").write_text(json.dumps({"shapes": other}))
        assert only("atrex-bench", tmp_path).weights == ()


def test_a_task_of_commands_becomes_a_repository_s_target(tmp_path: Path) -> None:
    output = tmp_path / "out"
    ran = CliRunner().invoke(
        cli, ["import", "agentkernelarena", str(SETS / "agentkernelarena"), "--output", str(output)]
    )
    assert ran.exit_code == 0, ran.output + ran.stderr
    target = load_target(output / "t1")
    assert target.command is not None
    assert target.command.editable == ("kernel.py",)
    assert target.command.test == "python test.py"
    assert target.command.metric == "time_us"
    assert json.loads((output / "t1" / "problem.json").read_text())["source"].endswith("t1")
    words = ["import", "agentkernelarena", str(SETS / "agentkernelarena"), "--force", "--output"]
    ran = CliRunner().invoke(cli, [*words, str(output)])
    assert "holds something" in ran.stdout
    assert (output / "t1" / ".git").exists()


@pytest.mark.parametrize("file", ["../../out.py", "/etc/passwd", "gone.py", "link.py"])
def test_files_of_a_task_lie_in_it(file: str, tmp_path: Path) -> None:
    (tmp_path / "out.py").write_text("")
    shutil.copytree(SETS / "agentkernelarena" / "t1", tmp_path / "a" / "t1")
    (tmp_path / "a" / "t1" / "link.py").symlink_to(tmp_path / "out.py")
    said = f"source_file_path: [{file}]\nperformance_command: [python bench.py]\n"
    (tmp_path / "a" / "t1" / "config.yaml").write_text(said)
    assert file in refused("agentkernelarena", tmp_path / "a")


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ("x, size, 3", "(data_0, data_0.shape[0], 3)"),
        ("[x, x], 2 * size // 2", "([data_0_0, data_0_1], data_0_0.shape[0])"),
        ("x, 0.5, True, None, [1, 2], 'sum'", "(data_0, 0.5, True, None, [1, 2], 'sum')"),
        ("x, float('inf'), float('nan')", '(data_0, float("inf"), float("nan"))'),
    ],
)
def test_what_is_no_tensor_stays_among_the_inputs(given: str, call: str, tmp_path: Path) -> None:
    import torch
    from test_pytorch_files import read

    found = generated(given, tmp_path)
    torch.manual_seed(1)
    program = read(found, name="ref_kernel")
    assert program.call == call
    assert [dims["N"] for dims in program.workloads] == [256, 64]


@pytest.mark.parametrize("given", ["x, random.random()", "x, seed % 97", "object(), x"])
def test_a_number_that_is_drawn_is_a_reason(given: str, tmp_path: Path) -> None:
    from test_pytorch_files import read

    from roofsmith.targets.pytorch.user_file import Refused

    with pytest.raises(Refused):
        read(generated(given, tmp_path), name="ref_kernel")


def generated(given: str, folder: Path) -> Path:
    """The module of a problem of gpu-mode's whose generator gives this."""
    (folder / "task.yml").write_text(
        "tests: [{size: 64, seed: 1}]\nbenchmarks: [{size: 256, seed: 3}]\n"
    )
    (folder / "reference.py").write_text(
        "import random\nimport torch\n\n\ndef generate_input(size, seed):\n"
        f"    torch.manual_seed(seed)\n    x = torch.randn(size)\n    return ({given})\n\n\n"
        "def ref_kernel(data):\n    x = data[0] if torch.is_tensor(data[0]) else data[-1]\n"
        "    return data[0][0] * 2 if isinstance(data[0], list) else x * 2\n"
    )
    found = only("gpu-mode", folder)
    for name, text in found.files.items():
        (folder / name).write_text(text)
    return folder / "model.py"


def definition(folder: Path, workload: object, **changed: object) -> Path:
    said = json.loads((SETS / "sol-execbench" / "rms" / "definition.json").read_text())
    (folder / "definition.json").write_text(json.dumps({**said, **changed}))
    (folder / "workload.jsonl").write_text(json.dumps(workload))
    return folder


GIVEN = {"axes": {"B": 8}, "inputs": {"eps": {"type": "scalar", "value": 1}}}


@pytest.mark.parametrize(
    ("workload", "changed", "said"),
    [
        ({"axes": {}}, {}, "no size of axis B"),
        ({"axes": {"B": 8}}, {}, "no value of eps"),
        (GIVEN, {"reference": "import os"}, "no run()"),
        (GIVEN, {"axes": {"D": {"type": "expr", "expression": "__import__('os')"}}}, "no sum"),
        (GIVEN, {"inputs": {"x": {"shape": ["B"], "dtype": "float4_e2m1"}}}, "float4_e2m1"),
        (GIVEN, {"inputs": {"x); import os; (": {"shape": [], "dtype": "int8"}}}, "is called"),
        (GIVEN, {"custom_inputs_entrypoint": "make"}, "defines no make()"),
    ],
)
def test_a_definition_that_cant_be_had_is_a_row(
    workload: object, changed: dict[str, object], said: str, tmp_path: Path
) -> None:
    assert said in refused("sol-execbench", definition(tmp_path, workload, **changed))


DUMPED = """
@torch.no_grad()
def _scaled_reference(input, weight, gain=2.0):
    return F.relu(input) * weight * math.sqrt(gain)
"""


def test_a_definition_that_an_engine_dumped_runs(tmp_path: Path) -> None:
    import torch

    inputs = {name: {"shape": ["B", "D"], "dtype": "float32"} for name in ("x", "weight")}
    place = definition(tmp_path, GIVEN, inputs=inputs, reference=DUMPED)
    found: dict[str, Any] = {}
    exec(only("sol-execbench", place).files["model.py"], found)
    given = found["get_inputs"]()
    wanted = torch.relu(given["x"]) * given["weight"] * 2**0.5
    torch.testing.assert_close(found["run"](**given), wanted)


def test_sizes_of_one_dont_fix_an_axis(tmp_path: Path) -> None:
    from test_pytorch_files import read

    place = definition(tmp_path, GIVEN)
    lines = [json.dumps({**GIVEN, "axes": {"B": rows}}) for rows in (1, 4, 2)]
    (place / "workload.jsonl").write_text("\n".join(lines))
    found = only("sol-execbench", place)
    (tmp_path / "model.py").write_text(found.files["model.py"])
    workloads = read(tmp_path / "model.py", name=found.entry).workloads
    assert [one["N"] for one in workloads] == [4, 2, 1]


def test_text_of_a_set_stays_text(tmp_path: Path) -> None:
    hostile = {"axes": {"B": 8}, "inputs": {"eps": {"type": "scalar", "value": 1.5}}}
    place = definition(tmp_path, hostile, name='"""; import os', description='"""\nimport os')
    parts = ast.walk(ast.parse(only("sol-execbench", place).files["model.py"]))
    imported = [one.names[0].name for one in parts if isinstance(one, ast.Import)]
    assert imported == ["torch", "torch"]


@pytest.mark.parametrize(
    ("form", "name", "text"),
    [
        ("gpu-mode", "task.yml", "tests: [{"),
        ("gpu-mode", "task.yml", "- 1"),
        ("gpu-mode", "task.yml", "tests: 5"),
        ("gpu-mode", "task.yml", "a: &a [1, 1]\ntests: [{size: *a}]"),
        ("agentkernelarena", "config.yaml", "a: &a [1, 1]\nsource_file_path: [*a, *a]"),
        ("gpu-mode", "task.yml", "tests:\n- {size: .nan}"),
        ("gpu-mode", "task.yml", "tests:\n- {size: 2026-01-01}"),
        ("atrex-bench", "shapes.json", "[1]"),
        ("atrex-bench", "shapes.json", "{"),
        ("agentkernelarena", "config.yaml", "{}"),
        ("flashinfer", "definition.json", "[]"),
        ("kernelbench", "1_Nothing.py", "print('no model')"),
        ("kernelbench", "1_Latin.py", "class Model:  # caf\xe9"),
    ],
)
def test_a_broken_problem_is_a_row(form: str, name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "latin1")
    reference = "def generate_input(size): ...\ndef ref_kernel(data): ..."
    if form == "gpu-mode":
        (tmp_path / "reference.py").write_text(reference)
    assert refused(form, tmp_path)


def test_why_a_problem_is_refused_is_a_sentence(tmp_path: Path) -> None:
    """Without an object's address, nor all that the set says."""
    infinite = {**GIVEN, "inputs": {"eps": {"type": "scalar", "value": float("inf")}}}
    assert "ast." not in refused("sol-execbench", definition(tmp_path, infinite))
    axes = {"B": {"type": "var"}, "D": {"type": "expr", "expression": "B*" * 20_000 + "1"}}
    assert len(refused("sol-execbench", definition(tmp_path, GIVEN, axes=axes))) < 2000


def test_tensors_are_made_where_it_runs() -> None:
    text = 'x = torch.rand(4, device="cuda:0").cuda()  # on cuda\ny = torch.cuda.is_available()\n'
    assert hosted(text) == (
        'x = torch.rand(4, device="cpu").cpu()  # on cuda\ny = torch.cuda.is_available()\n'
    )
    assert hosted("def f(:") == "def f(:"


def test_what_is_asserted_of_numbers_is_left_out() -> None:
    text = (
        "def f(x):\n    assert x.shape[0] == 4\n"
        "    assert (x > 0).all(), (\n        'no'\n    )\n    return x\n"
    )
    assert hosted(text) == ("def f(x):\n    assert x.shape[0] == 4\n    pass\n\n\n    return x\n")


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n\tassert x.max() < 9\n\treturn x * 4\n",
        "def f(x):\r  assert x.max() < 9\r  return x * 4\r",
        "def f(x):\r\n  assert x.max() < 9\n  return x * 4\r",
        "def f(x):\n  assert (n := x.shape[0]) and x.max() < 9\n  return x * n\n",
    ],
)
def test_who_asserts_less_still_computes(text: str) -> None:
    import torch

    names: dict[str, Any] = {}
    exec(hosted(text), names)
    assert names["f"](torch.ones(4)).tolist() == [4] * 4
    assert ("x.max()" in hosted(text)) == (":=" in text)


@pytest.mark.parametrize("text", ["[" * 30 + "]" * 30, "- " * 30, "a: 1  # long\n" * 9999])
def test_yaml_that_costs_much_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="its YAML"):
        yaml_mapping(text)


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), -1.0])
def test_a_tolerance_that_bounds_nothing_is_said(bound: float, tmp_path: Path) -> None:
    found = only("sol-execbench", definition(tmp_path, {**GIVEN, "tolerance": {"max_atol": bound}}))
    assert found.atol is None
    assert "max_atol" in found.notes[0]


def saved(file: Path, tensors: dict[str, Any], **header: object) -> None:
    """As a safetensors file is laid out."""
    said: dict[str, object] = {}
    body = b""
    for name, one in tensors.items():
        data = one.numpy().tobytes()
        kind = {"torch.int32": "I32", "torch.float32": "F32"}[str(one.dtype)]
        where = [len(body), len(body) + len(data)]
        said[name] = {"dtype": kind, "shape": [*one.shape], "data_offsets": where}
        body += data
    text = json.dumps({**said, **header}).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def ragged(folder: Path, path: str = "ends.safetensors") -> Path:
    """A definition whose `ends` is the set's own."""
    (folder / "definition.json").write_text(
        json.dumps(
            {
                "name": "ragged/sum", "axes": {"N": {"type": "var"}, "B": {"type": "var"}},
                "inputs": {
                    "x": {"shape": ["N"], "dtype": "float32"},
                    "ends": {"shape": ["B"], "dtype": "int32"},
                },
                "outputs": {"out": {"shape": ["B"], "dtype": "float32"}},
                "reference": "import torch\n\ndef run(x, ends):\n"
                "    assert int(ends[-1]) <= x.shape[0]\n"
                "    return torch.cat([torch.zeros(1), x.cumsum(0)])[ends.long()]\n",
            }
        )
    )  # fmt: skip
    said = {"type": "safetensors", "path": path, "tensor_key": "ends"}
    row = {"axes": {"N": 64, "B": 4}, "inputs": {"x": {"type": "random"}, "ends": said}}
    (folder / "workload.jsonl").write_text(json.dumps(row))
    return folder


def drawn(found: KernelProblem, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A problem's module, imported."""
    for name, text in found.files.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "tensors", raising=False)
    names: dict[str, Any] = {}
    exec(found.files["model.py"], names)
    return names


def test_a_sets_own_tensors_are_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    ends = torch.tensor([3, 9, 9, 64], dtype=torch.int32)
    saved(tmp_path / "ends.safetensors", {"other": torch.ones(3), "ends": ends})
    found = only("sol-execbench", ragged(tmp_path))
    names = drawn(found, tmp_path, monkeypatch)
    for given in (names["get_inputs"](), names["get_workloads"]()[0]):
        assert torch.equal(given["ends"], ends)
    assert not torch.equal(names["get_inputs"]()["x"], names["get_inputs"]()["x"])
    assert not found.notes


@pytest.mark.parametrize(
    ("header", "path", "said"),
    [
        ({"ends": {"dtype": "I32", "shape": [4], "data_offsets": [0, 900]}}, "", "of a type"),
        ({"ends": {"dtype": "I32", "shape": [4], "data_offsets": [9, 25]}}, "", "outside"),
        ({"ends": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}}, "", "not int32"),
        ({"ends": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}, "", "of a type"),
        ({"ends": {"dtype": "I32", "shape": [-4, -1], "data_offsets": [0, 16]}}, "", "of a type"),
        ({"ends": {"dtype": "I32", "shape": [1] * 65, "data_offsets": [0, 4]}}, "", "of a type"),
        ({"ends": {"dtype": "I32", "shape": [0, 10**99], "data_offsets": [0, 0]}}, "", "of a type"),
        ({}, "../beyond.safetensors", "isn't there"),
        ({}, "/etc/passwd", "isn't there"),
        ({}, "x" * 300, "isn't there"),
        ({}, "zero\0byte", "isn't there"),
        ({}, "\ud800", "isn't there"),
        ({}, "circle", "isn't there"),
        ({}, "workload.jsonl", "no safetensors"),
    ],
)
def test_a_hostile_file_of_tensors_is_said_and_not_used(
    header: dict[str, object], path: str, said: str, tmp_path: Path
) -> None:
    import torch

    place = tmp_path / "set"
    place.mkdir()
    (place / "circle").symlink_to("circle")
    for file in (place / "ends.safetensors", tmp_path / "beyond.safetensors"):
        saved(file, {"ends": torch.ones(4, dtype=torch.int32)}, **header)
    found = only("sol-execbench", ragged(place, path or "ends.safetensors"))
    assert said in found.notes[0]
    assert "tensors.py" not in found.files


def test_what_a_definition_makes_itself_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ragged(tmp_path)
    said = json.loads((place / "definition.json").read_text())
    said["custom_inputs_entrypoint"] = "get_inputs"
    said["reference"] += (
        "\ndef get_inputs(axes, device):\n"
        "    return {'ends': torch.full((axes['B'],), axes['N'] // 2, dtype=torch.int32)}\n"
    )
    (place / "definition.json").write_text(json.dumps(said))
    names = drawn(only("sol-execbench", place), tmp_path, monkeypatch)
    assert names["get_inputs"]()["ends"].tolist() == [32] * 4
    assert names["DEFINITION"] == "ragged/sum"


@pytest.mark.parametrize(("value", "seeds"), [("size", 2**31 - 1), ("size + seed", 1000)])
def test_a_seed_that_goes_into_values_stays_small(value: str, seeds: int, tmp_path: Path) -> None:
    (tmp_path / "task.yml").write_text("tests: [{size: 8, seed: 5}]")
    (tmp_path / "reference.py").write_text(
        "import torch\ndef ref_kernel(data): return data\n\n"
        "def generate_input(size, seed):\n    gen = torch.Generator()\n"
        f"    gen.manual_seed(seed + 1)\n    return torch.full((size,), float({value}))\n"
    )
    assert f"randint({seeds}" in only("gpu-mode", tmp_path).files["model.py"]


def test_a_form_feed_ends_no_line() -> None:
    text = 'import torch\n\x0c\ndef f():\n    return torch.rand(4, device="cuda")\n'
    assert hosted(text) == text.replace("cuda", "cpu")


@pytest.mark.parametrize(
    ("workload", "changed"),
    [
        (GIVEN, {"axes": ["B"]}),
        (GIVEN, {"axes": {"B": 8}}),
        (GIVEN, {"inputs": {"x": {"shape": 3, "dtype": "float32"}}}),
        ({"axes": {"B": 8}, "inputs": None}, {}),
        ({"axes": {"B": 8}, "inputs": {"eps": {"type": "scalar", "value": float("nan")}}}, {}),
        ({"workload": "all"}, {}),
    ],
)
def test_json_of_another_form_is_a_row(
    workload: object, changed: dict[str, object], tmp_path: Path
) -> None:
    assert refused("sol-execbench", definition(tmp_path, workload, **changed))


def test_workloads_of_another_definition_are_not_taken(tmp_path: Path) -> None:
    place = definition(tmp_path, {"definition": "other", "workload": {**GIVEN, "axes": {"B": 9}}})
    name = json.loads((place / "definition.json").read_text())["name"]
    mine = {"definition": name, "workload": GIVEN}
    (place / "mine.jsonl").write_text(json.dumps(mine))
    assert "((8, " in only("sol-execbench", place).files["model.py"]
    assert "((9, " not in only("sol-execbench", place).files["model.py"]


def test_small_integers_are_drawn_within_their_type(tmp_path: Path) -> None:
    inputs = {"x": {"shape": ["B"], "dtype": "int8"}, "n": {"shape": [], "dtype": "int64"}}
    place = definition(tmp_path, {"axes": {"B": 512}, "inputs": {}}, inputs=inputs)
    names: dict[str, Any] = {}
    exec(only("sol-execbench", place).files["model.py"], names)
    assert names["get_inputs"]()["x"].shape == (512,)


def test_sizes_are_sums_products_and_quotients() -> None:
    assert whole("2 * H + max(H, 3) // 2 - -1", {"H": 4}) == 11
    for strange in ("H ** 9", "H.real", "f(H)", "1 / 0", "[H]", "7 / 2"):
        with pytest.raises(ValueError, match="sum, product"):
            whole(strange, {"H": 4})


def test_a_set_becomes_targets_and_rows(tmp_path: Path) -> None:
    place, output = tmp_path / "a set", tmp_path / "out"
    place.mkdir()
    (place / "LICENSE").write_text("\nMIT License\n")
    text = (SETS / "kernelbench/level1/12_Scaled_Softmax.py").read_text()
    (place / "1_Softmax.py").write_text(text)
    (place / "2_Broken.py").write_text(
        text.replace("self.norm(x)", "self.norm(x * x[0, 0].item())")
    )
    words = ["kernel", "import", "kernelbench", str(place), "--output", str(output), "--json"]
    ran = CliRunner().invoke(cli, words)
    rows = {row["name"]: row for row in json.loads(ran.stdout)["problems"]}
    assert ran.exit_code == 1
    assert rows["1_Softmax"]["is_right"] is True
    assert rows["2_Broken"]["directory"] is None
    assert "looks at the numbers" in rows["2_Broken"]["reason"]
    assert {"target.yaml", "reference.py", "model.py"} <= {
        one.name for one in (output / "1_Softmax").iterdir()
    }
    about = json.loads((output / "1_Softmax" / "problem.json").read_text())
    assert about["licence"] == "MIT License"
    again = CliRunner().invoke(cli, [*words, "--only", "1_*"])
    assert again.exit_code == 0
    assert json.loads(again.stdout)["problems"][0]["notes"] == ["it was there already"]
    other = CliRunner().invoke(cli, [*words[:3], str(place / "1_Softmax.py"), *words[4:]])
    assert other.exit_code == 0
    about["source"] = "another set's"
    (output / "1_Softmax" / "problem.json").write_text(json.dumps(about))
    other = CliRunner().invoke(cli, [*words, "--only", "1_*"])
    assert "holds another set's" in json.loads(other.stdout)["problems"][0]["reason"]
    (output / "1_Softmax" / "target.yaml").unlink()  # as a killed run leaves it
    whole_again = CliRunner().invoke(cli, [*words, "--only", "1_*"])
    assert whole_again.exit_code == 0
    assert json.loads(whole_again.stdout)["problems"][0]["is_right"] is True


def test_the_next_problem_still_comes(tmp_path: Path) -> None:
    hostile = ("def run(x): '\ud800'", "def run(x): " + "-" * 9999 + "1")
    for number, reference in enumerate(hostile):
        (tmp_path / str(number)).mkdir()
        definition(tmp_path / str(number), GIVEN, name="hostile", reference=reference)
    (tmp_path / "2").mkdir()
    ragged(tmp_path / "2", "\x1b]0;title\x07")
    words = ["kernel", "import", "sol-execbench", str(tmp_path), "--output", str(tmp_path / "out")]
    ran = CliRunner().invoke(cli, words)
    assert ran.exit_code == 1
    assert "0: not taken" in ran.stdout
    assert "1: not taken" in ran.stdout
    assert "ragged" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["ragged-sum"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobodys", "."], "no format nobodys"),
        (["kernelbench", "nowhere"], "nowhere isn't there"),
        (["kernelbench", "."], "holds no problem"),
    ],
)
def test_wrong_arguments_are_said(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(cli, ["kernel", "import", *words])
    assert ran.exit_code == 2
    assert said in ran.stderr
