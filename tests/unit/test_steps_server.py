"""What the reference's side says of outputs of steps, on arrays of several blocks."""

from __future__ import annotations

import os
from types import ModuleType
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.kernel import Parameter, Signature
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.array_messages import as_json
from roofsmith.judge.host.reference import Reference
from roofsmith.judge.steps.server import AT_ONCE, StepsServer

ROWS, COLUMNS = 300, 1000
TEXT = """
import numpy as np

def setup(N, D, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D), dtype=np.float32)
    inputs = {"x": x, "out": np.empty((N, D), np.float32), "N": N, "D": D}
    return {"inputs": inputs, "outputs": ["out"]}

def reference(x, out, N, D):
    out[...] = 2 * x
"""


class Steps:
    """A server, and the memory that a kernel's outputs lie in."""

    def __init__(self) -> None:
        module = ModuleType("reference")
        exec(TEXT, module.__dict__)
        named = (("x", "float32"), ("out", "float32"), ("N", "int32"), ("D", "int32"))
        signature = Signature(
            parameters=tuple(
                Parameter(name=n, role=r, dtype=d)
                for (n, d), r in zip(named, ("input", "output", "size", "size"), strict=True)
            )
        )
        shape = (ROWS, COLUMNS)
        specs = tuple(
            ArraySpec(n, r, "float32", shape) for n, r in (("x", "input"), ("out", "output"))
        )
        self.arena = Arena(specs, 1)
        self.server = StepsServer(Reference(module, signature, 8))
        self.server.answer({"op": "map", "arrays": as_json(specs)}, [os.dup(self.arena.fd)])

    def drawn(self, seed: int) -> NDArray[np.float32]:
        """What is right for new inputs."""
        self.server.answer(
            {
                "op": "draw",
                "dims": {"N": ROWS, "D": COLUMNS},
                "seed": seed,
                "keep": (),
                "skew": False,
            },
            [],
        )
        return 2 * cast("NDArray[np.float32]", self.arena.view(0, "x"))

    def wrong(self, out: NDArray[np.float32]) -> dict[str, object] | None:
        """What is wrong with an output."""
        self.arena.view(0, "out")[...] = out
        return self.server.answer({"op": "check"}, [])["wrong"]


@pytest.fixture
def steps():
    made = Steps()
    yield made
    made.server.done({})
    made.arena.close()


def test_a_single_wrong_row_anywhere_is_seen(steps):
    assert ROWS * COLUMNS > 2 * AT_ONCE
    for row in (0, ROWS // 2, ROWS - 1):
        out = steps.drawn(row)
        assert steps.wrong(out) is None
        out[row] = 0
        assert steps.wrong(out) == {
            "output": "out",
            "error": pytest.approx(1, rel=0.1),
            "earlier": False,
        }


def test_infinity_where_there_is_none_is_wrong(steps):
    out = steps.drawn(0)
    out[-1, -1] = np.inf
    assert steps.wrong(out) is not None


def test_an_earlier_result_is_told_from_a_wrong_one(steps):
    first = steps.drawn(1)
    assert steps.wrong(first) is None
    steps.drawn(2)
    assert steps.wrong(first) == {
        "output": "out",
        "error": pytest.approx(1.5, rel=0.2),
        "earlier": True,
    }
