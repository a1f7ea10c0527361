"""The operator family of a PyTorch file is that which was read, or none."""

from __future__ import annotations

import pytest
import schedule_graphs as graphs

from roofsmith.analysis.flops import FAMILIES
from roofsmith.computation.building import Builder
from roofsmith.targets.pytorch.backends import family_read


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("softmax", "softmax"), ("layer_norm", "norm"), ("product", "gemm"),
        ("attention", "attention"), ("convolution", "conv2d"), ("gelu_chain", "elementwise"),
        ("running_sums", None), ("histogram", None),
    ],
)  # fmt: skip
def test_one_operator_has_its_family(name: str, family: str | None) -> None:
    assert family_read(graphs.CASES[name]().graph) == family
    assert family in (None, *FAMILIES)


def test_two_layers_have_none() -> None:
    b = Builder()
    x, up, down = (b.input(n, "float32", "N", "N") for n in ("x", "up", "down"))
    hidden = b.apply("tanh", b.contract("ik,kj->ij", x, up))
    assert family_read(b.graph(y=b.contract("ik,kj->ij", hidden, down))) is None
