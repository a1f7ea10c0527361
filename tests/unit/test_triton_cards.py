"""Cards for Triton: what they write computes the same, in Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_cuda_cards import context_for
from triton_kernels import needs_triton
from triton_modules import KERNELS

from roofsmith.domain.description import WorkloadDescription
from roofsmith.profilers.vocabulary import vocabulary
from roofsmith.proposers.cards import Card, CardContext, all_cards

CARDS = {card.id: card for card in all_cards() if "triton" in card.languages and not card.families}
COMPARE = """
import importlib.util, json, sys, torch
for group in json.load(open(sys.argv[1])):
    expected = None
    for path in group:
        spec = importlib.util.spec_from_file_location("kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        torch.manual_seed(0)
        tensors = module.setup()
        module.run_kernel(**tensors)
        found = [v for v in tensors.values() if isinstance(v, torch.Tensor)]
        expected = expected or found
        for one, other in zip(expected, found):
            torch.testing.assert_close(one, other, msg=path)
"""


def triton_context(text: str) -> CardContext:
    return context_for(text, "triton", ("x", "y"), ())


def changed(card: str, kernel: str) -> str | None:
    change = CARDS[card].apply(triton_context(KERNELS[kernel]))
    return change.candidate.kernel.text if change is not None else None


@needs_triton
@pytest.mark.slow
def test_what_cards_write_computes_the_same(tmp_path: Path) -> None:
    groups = []
    for name, text in KERNELS.items():
        texts, together = [text], text
        for card in CARDS.values():
            change = card.apply(triton_context(text))
            if change is not None:
                texts.append(change.candidate.kernel.text)
            change = card.apply(triton_context(together))
            if change is not None:
                together = change.candidate.kernel.text
                assert card.apply(triton_context(together)) is None, f"{card.id} is never done"
        paths = [tmp_path / f"{name}_{n}.py" for n in range(len(texts) + 1)]
        for path, written in zip(paths, [*texts, together], strict=True):
            path.write_text(written)
        groups.append([str(path) for path in paths])
    assert any(len(group) > 2 for group in groups)
    listed = tmp_path / "groups.json"
    listed.write_text(json.dumps(groups))
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(listed)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.id)
def test_a_card_names_a_counter_and_a_modest_gain(card: Card) -> None:
    assert card.expected_counter in vocabulary().names
    for text in (*KERNELS.values(), "not Python: ("):
        assert 1.0 <= card.predict(triton_context(text)) <= 2.0
    assert card.apply(triton_context("not Python: (")) is None


@pytest.mark.parametrize(
    ("card", "kernel", "expected"),
    [
        ("several-rows-a-program", "softmax", ["roofsmith_softmax_rows[(min(N, 1056),)]"]),
        ("several-rows-a-program", "matmul", None),
        ("dot-precision", "matmul", None),
    ],
)
def test_a_card_changes_what_it_should(card: str, kernel: str, expected: list[str] | None) -> None:
    text = changed(card, kernel)
    if expected is None:
        assert text is None
    else:
        assert text is not None
        assert [part for part in expected if part not in text] == [], text


@pytest.mark.parametrize(("columns", "changes"), [(64, True), (8192, False)])
def test_a_kernel_that_no_workload_launches_is_left_alone(columns: int, changes: bool) -> None:
    launch = "    softmax_rows[(N,)]"
    text = KERNELS["softmax"].replace(launch, f"    if D > 4096:\n        return\n{launch}")
    described = WorkloadDescription((), {"N": 5, "D": columns}, None, None, None, None)
    context = replace(triton_context(text), descriptions={"one": described})
    change = CARDS["several-rows-a-program"].apply(context)
    assert (change is not None) is changes


def test_a_helper_that_asks_for_the_program_keeps_it_the_programs() -> None:
    helper = "@triton.jit\ndef place(n):\n    return tl.program_id(0) * n\n\n"
    card, first = CARDS["several-rows-a-program"], "    columns = "
    text = KERNELS["softmax"].replace(first, f"    at = place(1)\n{first}", 1)
    text = text.replace("@triton.", f"{helper}@triton.", 1)
    assert card.apply(triton_context(KERNELS["softmax"])) is not None
    assert card.apply(triton_context(text)) is None


def test_a_comment_at_a_launch_leaves_no_argument_out() -> None:
    text = KERNELS["softmax"].replace("x, y, D, BLOCK=", "x, y, D,  # columns\n        BLOCK=")
    change = CARDS["several-rows-a-program"].apply(triton_context(text))
    assert change is not None
    assert "BLOCK=triton.next_power_of_2(D), rs_all=N)" in change.candidate.kernel.text


def test_products_are_in_tf32_only_where_the_target_allows_it() -> None:
    change = CARDS["dot-precision"].apply(replace(triton_context(KERNELS["matmul"]), tf32=True))
    assert change is not None
    assert 'input_precision="tf32"' in change.candidate.kernel.text
    older = KERNELS["matmul"].replace('input_precision="ieee"', "allow_tf32=False")
    change = CARDS["dot-precision"].apply(replace(triton_context(older), tf32=True))
    assert change is not None
    assert "allow_tf32=True" in change.candidate.kernel.text
