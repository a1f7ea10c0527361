"""References of every kind are read as graphs that compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_references import NUMPY, TORCH, SmallReference

from roofsmith.computation.counts import counted
from roofsmith.computation.documents import as_document, from_document
from roofsmith.computation.evaluate import evaluate
from roofsmith.computation.graph import Graph
from roofsmith.computation.kinds import kind
from roofsmith.computation.reading.reader import ROUNDING, ReferenceReader
from roofsmith.computation.reading.subject import RunReference, as_numpy, is_array
from roofsmith.computation.reading.tape import Unreadable
from roofsmith.computation.sizes import Size


def _read_and_compare(folder: Path, one: SmallReference, library: str) -> None:
    path = folder / "reference.py"
    path.write_text(one.text(library))
    subject = RunReference(path, None, (), None)
    graph = ReferenceReader(subject, [one.dims]).read()
    assert graph.notes == ()
    assert from_document(as_document(graph)) == graph
    drawn = subject.draw(one.dims, seed=3)
    wanted = subject.results(drawn.values)
    given = {k: as_numpy(v) if is_array(v) else v for k, v in drawn.values.items()}
    found = evaluate(graph, given, one.dims)
    assert set(found) == set(one.results)
    for name, array in found.items():
        rtol = ROUNDING.get(graph[graph.outputs[name]].dtype, 0)
        np.testing.assert_allclose(array, wanted[name], rtol=rtol, atol=10 * rtol)
    assert not {node.name for node in graph.inputs()} & set(one.results)
    numbers = {node.name for node in graph.inputs() if not node.shape}
    assert numbers == {name for name, value in one.numbers.items() if isinstance(value, float)}
    if one.kind is not None:
        assert kind(graph) == one.kind


@pytest.mark.parametrize("name", NUMPY)
def test_numpy(tmp_path: Path, name: str) -> None:
    _read_and_compare(tmp_path, NUMPY[name], "numpy")


@pytest.mark.parametrize("name", TORCH)
def test_torch(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    _read_and_compare(tmp_path, TORCH[name], "torch")


def _read(folder: Path, one: SmallReference, library: str = "numpy") -> Graph:
    path = folder / "reference.py"
    path.write_text(one.text(library))
    return ReferenceReader(RunReference(path, None, (), None), [one.dims]).read()


VECTOR = {"x": "made.f(N)"}, {"y": "out(N)"}


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_number_that_decides_what_is_computed_is_noted(tmp_path: Path, library: str) -> None:
    body = """
        if a > 0:
            y[:] = x * a
        else:
            y[:] = x - a"""
    graph = _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body, {"a": 0.5}), library)
    assert any("number a decides" in note for note in graph.notes)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_flag_or_a_count_of_steps_is_noted(tmp_path: Path, library: str) -> None:
    body = """
        now = x
        for _ in range(steps):
            now = now * 0.5 + x
        y[:] = now"""
    graph = _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body, {"steps": 3}), library)
    assert any("number steps decides" in note for note in graph.notes)
    by_dim = SmallReference({"N": 64, "steps": 3}, *VECTOR, body)
    graph = _read(tmp_path, by_dim, library)
    assert graph.notes == ()
    assert counted(graph).flops == 2 * Size.of("N") * Size.of("steps")


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_numbers_are_found_again_whatever_is_made_of_them(tmp_path: Path, library: str) -> None:
    body = """
        step = dt / (dx * dx)
        y[:] = x + step * x * math.sqrt(dt) - 1 / dx"""
    one = SmallReference({"N": 64}, *VECTOR, body, {"dt": 0.5, "dx": 2.0})
    graph = _read(tmp_path, one, library)
    assert graph.notes == ()
    x = np.arange(64, dtype=np.float32)
    got = evaluate(graph, {"x": x, "dt": 0.1, "dx": 0.3}, {"N": 64})["y"]
    np.testing.assert_allclose(got, x + 0.1 / 0.09 * x * 0.1**0.5 - 1 / 0.3, rtol=1e-5)


SEVERAL = [
    ("y[:] = F.tanh(a * x) + b * w", {"a": 0.5, "b": 0.5}),
    ("y[:] = a * F.tanh(b * x) + c * w", {"a": 1.0, "b": 1.0, "c": 1.0}),
    ("y[:] = a * F.tanh(b * x) - c * w", {"a": 0.0, "b": 0.0, "c": 0.0}),
    ("y[:] = F.tanh(a * x) + b * w", {"a": 0.5, "b": -0.5}),
    ("y[:] = F.tanh(2 * a * x) + b * w + a", {"a": 0.5, "b": 1.0}),
    ("y[:] = F.tanh(a * a * x) + b * w", {"a": 0.5, "b": 0.25}),
    ("y[:] = 0.5 * F.tanh(a * x) + b * w - 1.0", {"a": 0.5, "b": 1.0}),
    ("y[:] = F.tanh(a * x) * k + m * w", {"a": 2.0, "k": 2, "m": 2}),
    ("y[:] = x\ny[k:] = y[k:] + a * w[m : m + N - k] * b", {"a": 1.0, "b": 1.0, "k": 1, "m": 1}),
]  # fmt: skip
"""Numbers of equal values, or such that one comes of the other."""


@pytest.mark.parametrize(("body", "values"), SEVERAL)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_numbers_of_equal_values_stay_apart(
    tmp_path: Path, library: str, body: str, values: dict[str, float | int]
) -> None:
    body = body.replace("F.tanh", "np.tanh" if library == "numpy" else "torch.tanh")
    one = SmallReference({"N": 64}, {"x": "made.f(N)", "w": "made.f(2 * N)"}, VECTOR[1],
                         body.replace("* w", "* w[:N]") if "w[m" not in body else body,
                         values)  # fmt: skip
    graph = _read(tmp_path, one, library)
    assert graph.notes == ()
    subject = RunReference(tmp_path / "reference.py", None, (), None)
    drawn = subject.draw({"N": 64}).values
    for place, name in enumerate(values):
        drawn[name] = 0.3 + place if isinstance(values[name], float) else 1 + place
    given = {k: as_numpy(v) if is_array(v) else v for k, v in drawn.items()}
    ints = {name: drawn[name] for name, value in values.items() if isinstance(value, int)}
    got = evaluate(graph, given, {"N": 64, **ints})["y"]
    np.testing.assert_allclose(got, subject.results(drawn)["y"], rtol=1e-4, atol=1e-5)


LOST = {
    "y[:] = x * int(a * 4)": 0.5,
    "y[:] = x\ny[: int(a * N)] = 0": 0.5,
    "y[:] = x if a == 0.5 else -x": 0.5,
    "y[:] = x * flag": 0.5,
    "assert a == b\ny[:] = x * a": 0.5,
    "assert a < 0.6 or a == b\ny[:] = x * a": 0.75,
}


@pytest.mark.parametrize("body", LOST)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_numbers_that_cant_be_told_from_their_values_are_noted(
    tmp_path: Path, library: str, body: str
) -> None:
    numbers = {"a": LOST[body], "b": LOST[body], "flag": True}
    assert _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body, numbers), library).notes


def test_a_number_of_numpy_is_one_for_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    one = SmallReference({"N": 64}, *VECTOR, "y[:] = torch.tanh(a * x) + b", {"a": 0.5, "b": 0.5})
    path = tmp_path / "reference.py"
    text = one.text("torch").replace("0.5", "np.float32(0.5)")
    path.write_text(f"import numpy as np\n{text}")
    graph = ReferenceReader(RunReference(path, None, (), None), [one.dims]).read()
    assert graph.notes == ()
    assert {node.name for node in graph.inputs()} == {"x", "a", "b"}


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_whole_numbers_beside_dims_stay_free(tmp_path: Path, library: str) -> None:
    body = """
        y[:] = 0
        y[shift:] = x[: N - shift] * shift"""
    graph = _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body, {"shift": 3}), library)
    assert graph.notes == ()
    x = np.arange(64, dtype=np.float32)
    got = evaluate(graph, {"x": x}, {"N": 64, "shift": 10})["y"]
    np.testing.assert_array_equal(got[10:], x[:54] * 10)


REFUSED = {
    "numpy": {
        "while x[0] > 0:\n    x[0] -= 1": "condition",
        "for i in range(N):\n    if x[i] > 2:\n        break\n    y[i] = x[i]": "condition",
        "seen = [0]\nif x[0] > 0:\n    seen[0] = 1\ny[:] = seen[0]": "what isn't an array",
        "y[:] = np.random.default_rng(0).random(N)": "random",
        "y[:] = x[x > 0].max()": "mask",
        "for i in range(int(x[0] * 0) + 2):\n    y[:] = x": "decides",
    },
    "torch": {
        "y[:] = x if x.sum() > 0 else -x": "reference.py",
        "y[:] = torch.rand(N)": "random",
        "y[0] = x[x > 0].max()": "reference.py",
        "y[:] = F.dropout(x, 0.5)": "random",
    },
}


@pytest.mark.parametrize(
    ("library", "body", "why"),
    [(library, *case) for library, cases in REFUSED.items() for case in cases.items()],
)
def test_what_is_no_graph_is_refused_with_its_line(
    tmp_path: Path, library: str, body: str, why: str
) -> None:
    with pytest.raises(Unreadable, match=why) as refusal:
        _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body), library)
    assert "reference.py:" in str(refusal.value)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_unknown_operation_is_opaque_and_noted(tmp_path: Path, library: str) -> None:
    body = "y[:] = np.unwrap(x)" if library == "numpy" else "y[:] = torch.special.bessel_j0(x)"
    graph = _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body), library)
    assert any("isn't read" in note and "reference.py:" in note for note in graph.notes)


def test_a_size_that_is_one_in_every_workload_stays_free(tmp_path: Path) -> None:
    one = SmallReference(
        {"B": 1, "N": 64}, {"x": "made.f(B, N)"}, {"y": "out(B)"}, "y[:] = x.sum(axis=1)"
    )
    graph = _read(tmp_path, one)
    assert graph.notes == ()
    assert [str(size) for size in next(graph.inputs()).shape] == ["B", "N"]


def test_a_loop_over_a_size_is_refused_with_its_line(tmp_path: Path) -> None:
    body = """
        for i in range(N):
            y[i] = x[i] * 2 - y[:i].sum()"""
    with pytest.raises(
        Unreadable, match=r"size N decides what is computed \(reference.py:\d+: y\["
    ):
        _read(tmp_path, SmallReference({"N": 4096}, *VECTOR, body))


def test_a_given_number_takes_the_arrays_type(tmp_path: Path) -> None:
    body = "y[:] = np.where(x > a, a, np.maximum(np.abs(x) - a, 0))"
    graph = _read(tmp_path, SmallReference({"N": 64}, *VECTOR, body, {"a": 0.5}))
    assert {node.dtype for node in graph.nodes if node.shape} == {"float32", "bool"}
    assert counted(graph).read_bytes == Size.of("N") * 4


ROWS = {"x": "made.f(N, D)"}, {"y": "out(N)"}
THRESHOLD = """
    if D > 100:
        y[:] = (x * x).sum(1)
    else:
        y[:] = x.sum(1)"""


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("body", [THRESHOLD, "y[:] = x[:, :40].sum(1)"])
def test_what_changes_at_the_targets_own_sizes_is_noted(
    tmp_path: Path, library: str, body: str
) -> None:
    for dims in ({"N": 500, "D": 2000}, {"N": 50_000, "D": 200_000}):
        graph = _read(tmp_path, SmallReference(dims, *ROWS, body), library)
        assert any("reference.py:" in note for note in graph.notes)
    below = SmallReference({"N": 9, "D": 12}, *ROWS, THRESHOLD)
    assert _read(tmp_path, below, library).notes == ()


def test_slices_of_all_there_is_change_nothing(tmp_path: Path) -> None:
    body = "y[:] = x[:, : D // 2 * 2].reshape(N, D // 2, 2).max(2).mean(1) / np.sqrt(D)"
    assert _read(tmp_path, SmallReference({"N": 500, "D": 2000}, *ROWS, body)).notes == ()


def test_a_workload_too_large_to_be_tried_is_noted(tmp_path: Path) -> None:
    body = "y[:] = x.sum(1) if x.size < 10 << 30 else -x.sum(1)"
    graph = _read(tmp_path, SmallReference({"N": 200_000, "D": 200_000}, *ROWS, body))
    assert any("isn't known" in note for note in graph.notes)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_an_output_is_read_only_where_it_is_not_overwritten(tmp_path: Path, library: str) -> None:
    body = """
        y[:] = y + x if {} else 0
        for part in range(4):
            y[part * (N // 4) : (part + 1) * (N // 4)] += x[: N // 4] * part"""
    for is_read, names in ((False, ["x"]), (True, ["x", "y"])):
        one = SmallReference({"N": 64}, *VECTOR, body.format(is_read))
        graph = _read(tmp_path, one, library)
        assert sorted(node.name for node in graph.inputs()) == names
    heads = """
        for part in range(4):
            y[part * (N // 4) : (part + 1) * (N // 4)] = x[: N // 4] * part"""
    graph = _read(tmp_path, SmallReference({"N": 64}, *VECTOR, heads), library)
    assert [node.name for node in graph.inputs()] == ["x"]


def test_what_pytorch_cannot_trace_is_refused_with_its_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "reference.py"
    text = SmallReference({"N": 64}, *VECTOR, "y.copy_(cell(x[None, None])[0][0, 0, 0])")
    made = "cell = torch.nn.GRU(64, 64, batch_first=True)"
    path.write_text(text.text("torch").replace("\n\nclass Made", f"\n\n{made}\n\nclass Made", 1))
    with pytest.raises(Unreadable, match=r"reference\.py:\d+"):
        ReferenceReader(RunReference(path, None, (), None), [{"N": 64}]).read()
