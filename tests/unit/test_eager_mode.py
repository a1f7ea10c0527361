"""References that are compiled, seen and changed operator by operator: the compiler keeps out."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from roofsmith.judge.gpu.counting import counted  # noqa: E402
from roofsmith.judge.gpu.low_precision import narrowed  # noqa: E402

pytestmark = pytest.mark.slow


def test_what_is_done_under_a_compiled_reference_is_not_compiled() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def plain(x: Any) -> Any:
        return torch.softmax(x @ x, -1).cos() + 1

    compiled, x = torch.compile(plain, backend=backend), torch.randn(8, 8)
    compiled(x)
    assert len(graphs) == 1
    seen: list[Any] = []
    for call in (plain, compiled):
        narrowed(lambda call=call: seen.append(call(x)), torch.bfloat16)
    assert torch.equal(*seen)
    assert not torch.equal(seen[0], plain(x))
    assert counted(lambda: compiled(x), {"x": x}) == counted(lambda: plain(x), {"x": x})
    assert len(graphs) == 1


def test_the_compiler_is_not_imported_for_a_reference_without_it() -> None:
    code = (
        "import sys, torch\n"
        "from roofsmith.judge.gpu.counting import counted\n"
        "from roofsmith.judge.gpu.low_precision import narrowed\n"
        "x = torch.ones(8, 8)\n"
        "narrowed(lambda: x @ x, torch.bfloat16)\n"
        "assert counted(lambda: x @ x, {'x': x}).flops == 1024\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
