"""References of every kind are read as graphs that compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_references import NUMPY, TORCH, SmallReference

from roofsmith.computation.documents import as_document, from_document
from roofsmith.computation.evaluate import evaluate
from roofsmith.computation.kinds import kind
from roofsmith.computation.reading.reader import ROUNDING, Reader
from roofsmith.computation.reading.subject import Subject, as_numpy, is_array


def _read_and_compare(folder: Path, one: SmallReference, library: str) -> None:
    path = folder / "reference.py"
    path.write_text(one.text(library))
    subject = Subject(path, None, (), None)
    graph = Reader(subject, [one.dims]).read()
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
