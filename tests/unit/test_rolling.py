"""Loops over a size are read as an axis; what isn't such a loop keeps its note or is refused."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from small_references import SmallReference
from test_schedules import built, called, signature_of

from kinds import another
from roofsmith.computation.documents import as_document, from_document
from roofsmith.computation.evaluate import evaluate
from roofsmith.computation.graph import Graph
from roofsmith.computation.kinds import kind
from roofsmith.computation.reading.reader import ROUNDING, ReferenceReader
from roofsmith.computation.reading.subject import RunReference, as_numpy, is_array
from roofsmith.computation.reading.tape import Unreadable
from roofsmith.proposers.schedules.c_file import c_kernel

ATTENTION = Path(__file__).parents[2] / "examples" / "attention" / "reference.py"
MATRIX = {"x": "made.f(M, N)"}, {"y": "out(M, N)"}
VECTOR = {"x": "made.f(N)"}, {"y": "out(N)"}
SMALL = {"M": 12, "N": 24}

LOOPS = {
    "rows' softmax": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            e = np.exp(x[i] - x[i].max())
            y[i] = e / e.sum()""", kind="softmax"),
    "in place": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            y[i] = np.exp(x[i] - x[i].max())
            y[i] /= y[i].sum()""", kind="softmax"),
    "batches' products": SmallReference(
        {"B": 3, "M": 10, "N": 20}, {"a": "made.f(B, M, N)", "b": "made.f(B, N, M)"},
        {"y": "out(B, M, M)"}, """
        for i in range(B):
            y[i] = a[i] @ b[i]"""),
    "groups' norms": SmallReference(
        {"G": 4, "M": 8, "C": 32}, {"x": "made.f(M, C)"}, {"y": "out(M, C)"}, """
        w = C // G
        for g in range(G):
            part = x[:, g * w : (g + 1) * w]
            mean = part.mean(axis=1, keepdims=True)
            part = part - mean
            y[:, g * w : (g + 1) * w] = part / np.sqrt(part.var(axis=1, keepdims=True))"""),
    "outer products": SmallReference(
        {"M": 8, "N": 12, "K": 24}, {"a": "made.f(M, K)", "b": "made.f(K, N)"},
        {"y": "out(M, N)"}, """
        y[:] = 0
        for k in range(K):
            y += np.outer(a[:, k], b[k])"""),
    "every element": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            for j in range(N):
                y[i, j] = x[i, j] * 2"""),
    "a product of three loops": SmallReference(
        {"M": 6, "N": 10, "K": 12}, {"a": "made.f(M, K)", "b": "made.f(K, N)"},
        {"y": "out(M, N)"}, """
        for i in range(M):
            for j in range(N):
                total = 0.0
                for k in range(K):
                    total += a[i, k] * b[k, j]
                y[i, j] = total""", kind="contraction"),
    "added in place": SmallReference(
        {"M": 6, "N": 10, "K": 12}, {"a": "made.f(M, K)", "b": "made.f(K, N)"},
        {"y": "out(M, N)"}, """
        y[:] = 0
        for k in range(K):
            for i in range(M):
                y[i] += a[i, k] * b[k]""", kind="contraction"),
    "steps of two": SmallReference(
        {"N": 24}, {"x": "made.f(N, 2)"}, {"y": "out(2 * N)"}, """
        for i in range(N):
            y[2 * i] = x[i, 0] + x[i, 1]
            y[2 * i + 1] = x[i, 0] - x[i, 1]"""),
    "the loop's number": SmallReference(
        {"N": 24}, *VECTOR, """
        for i in range(N):
            y[i] = x[i] * i + x[N - 1 - i]"""),
    "backwards": SmallReference(
        SMALL, *MATRIX, """
        for i in reversed(range(M)):
            y[i] = np.cumsum(x[i])"""),
    "stacked": SmallReference(
        SMALL, *MATRIX, "y[:] = np.stack([np.sort(x[i]) for i in range(M)])"),
    "the largest": SmallReference(
        SMALL, {"x": "made.f(M, N)"}, {"y": "out(N)"}, """
        most = x[0]
        for i in range(1, M):
            most = np.maximum(most, x[i])
        y[:] = most"""),
    "an array of each iteration": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            row = np.zeros(N, dtype=np.float32)
            for j in range(N):
                row[j] = x[i, N - 1 - j]
            y[i] = row - row.mean()"""),
    "picked rows": SmallReference(
        SMALL, {"x": "made.f(M, N)", "at": "made.i(N, M)"}, {"y": "out(M)"}, """
        for i in range(M):
            y[i] = x[i, at[i]]"""),
    "a table's rows": SmallReference(
        SMALL, {"x": "made.f(M, N)", "at": "made.i(M, N)"}, {"y": "out(N, N)"}, """
        for i in range(N):
            y[i] = x[at[i]]"""),
    "inner sums of neighbours": SmallReference(
        {"N": 24, "K": 3}, {"x": "made.f(N + K - 1)", "w": "made.f(K)"}, {"y": "out(N)"}, """
        for i in range(N):
            y[i] = (x[i : i + K] * w).sum()"""),
    "taps": SmallReference(
        {"N": 24, "K": 5}, {"x": "made.f(N + K - 1)", "w": "made.f(K)"}, {"y": "out(N)"}, """
        y[:] = 0
        for k in range(K):
            y += w[k] * x[k : k + N]"""),
    "prefixes": SmallReference(
        {"N": 24}, *VECTOR, """
        for i in range(N):
            y[i] = x[: i + 1].sum()"""),
    "largest of what is left": SmallReference(
        {"N": 24}, *VECTOR, """
        for i in range(N):
            y[i] = x[i:].max() - x[:i].sum()"""),
    "below a diagonal": SmallReference(
        SMALL, {"w": "made.f(M, M)", "x": "made.f(M, N)"}, {"y": "out(M, N)"}, """
        for i in range(M):
            y[i] = w[i, : i + 1] @ x[: i + 1]""", kind="contraction"),
    "above a diagonal, in place": SmallReference(
        {"M": 8, "N": 12}, {"w": "made.f(M, M)", "x": "made.f(M, N)"}, {"y": "out(M, N)"}, """
        y[:] = x
        for i in range(M):
            for j in range(N):
                y[i, j] = 2 * (y[i, j] + np.dot(w[i + 1 :, i], y[i + 1 :, j]))"""),
    "a triangle of products": SmallReference(
        SMALL, {"x": "made.f(N, M)", "z": "made.f(N, N)"}, {"y": "out(N, N)"}, """
        y[:] = z
        for i in range(N):
            y[i, : i + 1] = 0.5 * y[i, : i + 1] + 2 * (x[: i + 1] @ x[i])"""),
    "above a diagonal": SmallReference(
        {"N": 24}, {"x": "made.f(N, N)"}, {"y": "out(N, N)"}, """
        y[:] = 0
        for i in range(N):
            y[i, i:] = np.exp(x[i, i:])"""),
    "attention to what came before": SmallReference(
        {"N": 16, "D": 24}, {"q": "made.f(N, D)", "k": "made.f(N, D)", "v": "made.f(N, D)"},
        {"y": "out(N, D)"}, """
        for i in range(N):
            s = k[: i + 1] @ q[i] * 0.25
            w = np.exp(s - s.max())
            y[i] = (w / w.sum()) @ v[: i + 1]"""),
}  # fmt: skip
ELEMENTS = {
    "largest": SmallReference(
        SMALL, {"x": "made.f(M, N)"}, {"y": "out(M)"}, """
        for i in range(M):
            m = x[i, 0]
            for j in range(1, N):
                m = max(m, x[i, j])
            y[i] = m"""),
    "where the least is": SmallReference(
        SMALL, {"x": "made.f(M, N)"}, {"y": "out(M, dtype='int64')", "z": "out(M)"}, """
        for i in range(M):
            best, at = float("inf"), -1
            for j in range(N):
                if best > abs(x[i, j]):
                    best = abs(x[i, j])
                    at = j
            y[i] = at
            z[i] = best"""),
    "counted": SmallReference(
        SMALL, {"x": "made.f(M, N)"}, {"y": "out(M, dtype='int64')"}, """
        for i in range(M):
            count = 0
            for j in range(N):
                if -1 < x[i, j] < 1 and not x[i, j] == 0:
                    count += 1
            y[i] = count"""),
    "softmax": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            m = -float("inf")
            for j in range(N):
                if x[i, j] > m:
                    m = x[i, j]
            total = 0.0
            for j in range(N):
                y[i, j] = math.exp(x[i, j] - m)
                total += y[i, j]
            for j in range(N):
                y[i, j] /= total""", kind="softmax"),
    "sides": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            for j in range(N):
                if x[i, j] > 0.5:
                    y[i, j] = 1
                elif x[i, j] < -0.5 or x[i, j] == 0:
                    y[i, j] = -x[i, j]
                else:
                    y[i, j] = x[i, j] if x[i, j] > 0 else 0.1 * x[i, j]"""),
    "running sums": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            total = 0.0
            for j in range(N):
                total += x[i, j]
                y[i, j] = total"""),
    "numbers that change places": SmallReference(
        SMALL, {"x": "made.f(N, 2)"}, {"y": "out(N, 2)"}, """
        for i in range(N):
            low = x[i, 0]
            high = x[i, 1]
            if low > high:
                low, high = high, low
            before = low
            low += high
            y[i, 0] = low - before
            y[i, 1] = before"""),
}  # fmt: skip
TORCH_LOOPS = {
    "heads": SmallReference(
        {"N": 16, "d": 32, "h": 4}, {"q": "made.f(N, d)", "k": "made.f(N, d)", "v": "made.f(N, d)"},
        {"y": "out(N, d)"}, """
        w = d // h
        for i in range(h):
            at = slice(i * w, (i + 1) * w)
            p = torch.softmax(q[:, at] @ k[:, at].T / w ** 0.5, dim=1)
            y[:, at] = p @ v[:, at]""", kind="attention"),
    "rows": SmallReference(
        SMALL, *MATRIX, """
        for i in range(M):
            y[i] = torch.softmax(x[i], dim=0)""", kind="softmax"),
    "sums": SmallReference(
        SMALL, {"x": "made.f(M, N)"}, {"y": "out(N)"}, """
        total = torch.zeros_like(y)
        for i in range(M):
            total = total + x[i] * x[i]
        y.copy_(total)"""),
    "stacked": SmallReference(
        SMALL, *MATRIX, "y.copy_(torch.stack([x[i] / x[i].norm() for i in range(M)]))"),
    "batches and heads": SmallReference(
        {"B": 3, "H": 4, "N": 12}, {"a": "made.f(B, H, N, N)"}, {"y": "out(B, H, N, N)"}, """
        for b in range(B):
            for i in range(H):
                y[b, i] = a[b, i] @ a[b, i]"""),
}  # fmt: skip
RECURRENCES = {
    "a recurrence": SmallReference(
        {"N": 24}, *VECTOR, """
        y[0] = x[0]
        for i in range(1, N):
            y[i] = 0.5 * y[i - 1] + x[i]"""),
    "of a number": SmallReference(
        {"N": 24}, *VECTOR, """
        last = 0.0
        for i in range(N):
            last = 0.5 * last + x[i]
            y[i] = last"""),
    "another first iteration": SmallReference(
        {"N": 24}, *VECTOR, """
        for i in range(N):
            if i == 0:
                y[i] = x[i] * 2
            else:
                y[i] = np.exp(x[i])"""),
    "another of sums": SmallReference(
        {"N": 24}, *VECTOR, """
        total = 0.0
        for i in range(N):
            if i == 3:
                total = total + np.exp(x[i])
            else:
                total = total + x[i]
        y[:] = total"""),
    "sweeps in place": SmallReference(
        {"N": 24}, *VECTOR, """
        y[:] = x
        for i in range(1, N - 1):
            y[i] = (y[i - 1] + y[i] + y[i + 1]) / 3"""),
    "a recurrent network": SmallReference(
        {"N": 12, "H": 8, "I": 20},
        {"w": "made.f(H, H) * 0.1", "u": "made.f(H, I)", "x": "made.f(N, I)"},
        {"y": "out(N, H)"}, """
        h = np.zeros(H, dtype=np.float32)
        for t in range(N):
            h = np.tanh(w @ h + u @ x[t])
            y[t] = h"""),
    "shortest paths": SmallReference(
        {"N": 16}, {"x": "made.p(N, N)"}, {"y": "out(N, N)"}, """
        y[:] = x
        for k in range(N):
            y[:] = np.minimum(y, y[:, k : k + 1] + y[k : k + 1])"""),
}  # fmt: skip
OTHERS = {
    "bounds that values decide": """
        for i in range(int(x.sum() * 0) + N):
            y[i] = x[i]""",
    "writes one over the other": """
        for i in range(N - 1):
            y[i : i + 2] = x[i : i + 2] * (i + 1)""",
    "numbers that are no progression": """
        for i in range(N):
            y[i] = x[i] * (i * i)""",
    "a triangular system": """
        for i in range(N):
            y[i] = x[i] - y[:i].sum()""",
    "prefixes that end twice": """
        for i in range(N):
            y[i] = x[: i + 1].sum() if i < 3 else x[: i + 2].sum()""",
}


REPEATED = ("in place", "every element", "added in place", "heads")
"""Longer ones of the same kind stand for them."""


def _read(folder: Path, one: SmallReference, library: str) -> tuple[RunReference, Graph]:
    path = folder / "reference.py"
    path.write_text(one.text(library))
    subject = RunReference(path, None, (), None)
    return subject, ReferenceReader(subject, [one.dims]).read()


def _compare(folder: Path, one: SmallReference, library: str, *, writes: bool = False) -> None:
    subject, graph = _read(folder, one, library)
    assert graph.notes == ()
    signature = signature_of(graph)
    if writes:
        kernel = c_kernel(graph, signature, language="c", threads=2)
        written = built(kernel.text, "c", kernel.flags, folder)
    assert from_document(as_document(graph)) == graph
    for dims in (one.dims, {name: size + size for name, size in one.dims.items()}):
        drawn = subject.draw(dims, seed=3)
        wanted = subject.results(drawn.values)
        given = {k: as_numpy(v) if is_array(v) else v for k, v in drawn.values.items()}
        for name, array in evaluate(graph, given, dims).items():
            rtol = ROUNDING.get(graph[graph.outputs[name]].dtype, 0)
            np.testing.assert_allclose(array, wanted[name], rtol=rtol, atol=10 * rtol)
        if writes:
            read = {one.name: given[one.name] for one in graph.inputs()}
            for name, array in called(written, signature, graph, read, dims).items():
                found = array.reshape(wanted[name].shape)
                np.testing.assert_allclose(found, wanted[name], rtol=1e-4, atol=1e-3)
    if one.kind is not None:
        assert kind(graph) == one.kind


@pytest.mark.parametrize("name", [another(n) if n in REPEATED else n for n in LOOPS])
def test_loops_are_axes(tmp_path: Path, name: str) -> None:
    _compare(tmp_path, LOOPS[name], "numpy")


@pytest.mark.parametrize("name", ELEMENTS)
def test_loops_over_elements_are_axes(tmp_path: Path, name: str) -> None:
    _compare(tmp_path, ELEMENTS[name], "numpy", writes=True)


@pytest.mark.parametrize("name", [another(n) if n in REPEATED else n for n in TORCH_LOOPS])
def test_loops_of_pytorch_are_axes(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    _compare(tmp_path, TORCH_LOOPS[name], "torch")


@pytest.mark.parametrize("name", RECURRENCES)
def test_recurrences_are_repeated_and_written(tmp_path: Path, name: str) -> None:
    _compare(tmp_path, RECURRENCES[name], "numpy", writes=True)


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_keep_their_note(tmp_path: Path, name: str) -> None:
    assert "decides" in _said(tmp_path, {"N": 24}, OTHERS[name])


def test_time_counts_from_where_a_reading_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = time.process_time
    monkeypatch.setattr(time, "process_time", lambda: own() + 1e6)
    _compare(tmp_path, LOOPS["groups' norms"], "numpy")


def test_a_largest_that_passes_over_nan_keeps_its_note(tmp_path: Path) -> None:
    given = {"x": "np.where(made.b(N), np.nan, made.f(N))"}
    body = """
        m = np.float32(-9)
        for i in range(N):
            if x[i] > m:
                m = x[i]
        y[0] = m"""
    _, graph = _read(tmp_path, SmallReference({"N": 24}, given, {"y": "out(1)"}, body), "numpy")
    assert "differs" in "; ".join(graph.notes)


def test_large_whole_numbers_are_compared_as_they_are(tmp_path: Path) -> None:
    given, results = {"x": "2**60 + made.i(9, N)"}, {"y": "out(N, dtype='int64')"}
    one = SmallReference({"N": 24}, given, results, "y[:] = x + (N > 80)")
    subject, _ = _read(tmp_path, one, "numpy")
    reader = ReferenceReader(subject, [one.dims])
    assert reader.limits(reader.read()) == ("N <= 80",)


@pytest.mark.parametrize("size", [48, 4096])
def test_an_iteration_that_differs_is_seen_behind_the_first_ones(tmp_path: Path, size: int) -> None:
    body = """
        for i in range(N):
            y[i] = np.exp(x[i]) if i == 45 else x[i] * 2"""
    assert "decides" in _said(tmp_path, {"N": size}, body)


def test_a_long_system_is_refused(tmp_path: Path) -> None:
    said = _said(tmp_path, {"N": 4096}, OTHERS["a triangular system"])
    assert "size N decides what is computed (reference.py:" in said


def _said(folder: Path, dims: dict[str, int], body: str) -> str:
    """Notes, or the refusal."""
    try:
        _, graph = _read(folder, SmallReference(dims, *VECTOR, body), "numpy")
    except Unreadable as refusal:
        return str(refusal)
    return "; ".join(graph.notes)


def test_a_kernel_is_written_of_attention_by_heads(tmp_path: Path) -> None:
    subject = RunReference(ATTENTION, None, (), None)
    graph = ReferenceReader(subject, [{"N": 512, "d": 1024, "h": 16}]).read()
    assert graph.notes == ()
    assert kind(graph) == "attention"
    assert len(graph.nodes) < 30
    signature = signature_of(graph)
    kernel = c_kernel(graph, signature, language="c", threads=2)
    library = built(kernel.text, "c", kernel.flags, tmp_path)
    for dims in ({"N": 48, "d": 96, "h": 6}, {"N": 33, "d": 35, "h": 5}, {"N": 7, "d": 8, "h": 1}):
        drawn = subject.draw(dims, seed=5)
        wanted = subject.results(drawn.values)["output"]
        given = {k: v for k, v in drawn.values.items() if k in {n.name for n in graph.inputs()}}
        found = called(library, signature, graph, given, dims)["output"]
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)
