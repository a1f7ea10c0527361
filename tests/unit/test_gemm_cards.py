"""The matrix-product cards in other people's styles: what they say and what comes out."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofsmith.domain.device import Device
from roofsmith.domain.kernel import Candidate, Language, Signature, SourceFile
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.proposers.cards import Card, CardChange, CardContext, all_cards
from roofsmith.proposers.recipes import gemm_packed, gemm_strips, simd_reductions
from roofsmith.proposers.recipes._gemm import blocking_for

EXAMPLES = Path(__file__).parents[2] / "examples"

LIKE_THE_EXAMPLE = (EXAMPLES / "attention" / "kernel.c").read_text()

UPDATES_IN_PLACE = """
#include <math.h>
#include <stdlib.h>
static float row_peak(const float *v, size_t n) {
    float m = v[0];
    for (size_t i = 1; i < n; ++i) m = fmaxf(m, v[i]);
    return m;
}
void solve(const float *q, const float *keys, const float *vals, float *res,
           int tokens, int dim, int heads) {
    const int dh = dim / heads;
    float *w = malloc(sizeof(float) * tokens);
    for (int hd = 0; hd < heads; ++hd) {
        for (int t = 0; t < tokens; ++t) {
            const float *qt = q + (size_t)t * dim + hd * dh;
            float *rt = res + (size_t)t * dim + hd * dh;
            for (int u = 0; u < tokens; ++u) {
                const float *ku = keys + (size_t)u * dim + hd * dh;
                float acc = 0.f;
                for (int e = 0; e < dh; ++e) acc += qt[e] * ku[e];
                w[u] = acc / sqrtf((float)dh);
            }
            const float peak = row_peak(w, tokens);
            float total = 0.f;
            for (int u = 0; u < tokens; ++u) { w[u] = expf(w[u] - peak); total += w[u]; }
            const float inverse = 1.f / total;
            for (int e = 0; e < dh; ++e) rt[e] = 0.f;
            for (int u = 0; u < tokens; ++u) {
                const float p = w[u];
                for (int e = 0; e < dh; ++e) rt[e] += p * vals[(size_t)u * dim + hd * dh + e];
            }
            for (int e = 0; e < dh; ++e) rt[e] *= inverse;
        }
    }
    free(w);
}
"""


def context(text: str, language: Language = "c", fraction: float | None = 0.01) -> CardContext:
    return CardContext(
        candidate=Candidate(language=language, sources=(SourceFile(path="kernel.c", text=text),)),
        signature=Signature(parameters=()),
        device=Device(kind="cpu", name="some", cores=2, vector_bytes=32),
        threads=2,
        family=None,
        dims=({"M": 512, "N": 512, "K": 512},),
        bounds=(),
        descriptions={},
        profile=Profile(tool="none", workload="any"),
        bottleneck=Bottleneck(
            kind="compute", confidence=0.5, evidence=("none",), roofline_fraction=fraction
        ),
        times_s={},
    )


def changed(card: Card, text: str) -> CardChange:
    result = card.apply(context(text))
    assert isinstance(result, CardChange), result
    return result


def compiled(text: str, folder: Path) -> ctypes.CDLL:
    (folder / "kernel.c").write_text(text)
    library = folder / "kernel.so"
    command = ["gcc", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-Werror"]
    subprocess.run(
        [*command, folder / "kernel.c", "-o", library, "-lm"], check=True, capture_output=True
    )
    return ctypes.CDLL(str(library))


SGEMM = (EXAMPLES / "sgemm" / "kernel.c").read_text()


def test_the_cards_are_found_with_the_others() -> None:
    ids = [card.id for card in all_cards()]
    assert {"gemm-packed", "gemm-strips"} <= set(ids)


def test_a_packed_product_says_what_was_replaced_and_asks_for_threads() -> None:
    change = changed(gemm_packed.CARD, SGEMM)
    assert "`C` = `A` `B` (M x N x K) in `solve` (line 4)" in change.statement
    assert "-fopenmp" in change.candidate.build.flags
    assert "// tune: GEMM_KC = " in change.candidate.kernel.text


def test_a_packed_product_is_not_packed_again() -> None:
    once = changed(gemm_packed.CARD, SGEMM).candidate.kernel.text
    assert gemm_packed.apply(context(once)) is None
    assert context(once).products == ()


@pytest.mark.parametrize("card", [gemm_packed.CARD, gemm_strips.CARD])
def test_a_kernel_of_another_kind_is_left_alone(card: Card) -> None:
    softmax = (EXAMPLES / "softmax" / "kernel.c").read_text()
    assert card.apply(context(softmax)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("score[j] = dot * scale;", "score[0] = dot * scale;"),
        ("j < N; j++) {\n                float dot", "j <= i; j++) {\n float dot"),
    ],
)
def test_rows_of_another_form_are_left_alone(old: str, new: str) -> None:
    assert old in LIKE_THE_EXAMPLE
    assert gemm_strips.apply(context(LIKE_THE_EXAMPLE.replace(old, new))) is None


@pytest.mark.parametrize("card", [gemm_packed.CARD, gemm_strips.CARD])
def test_the_prediction_ends_at_the_bound(card: Card) -> None:
    assert card.predict(context(SGEMM, fraction=0.01)) > 3
    assert card.predict(context(SGEMM, fraction=0.95)) < 1.1
    assert card.predict(context(SGEMM, fraction=None)) > 1


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("real", ["float", "double"])
def test_the_register_tile_fits_the_registers(vector_bytes: int, real: str) -> None:
    device = Device(kind="cpu", name="any", cores=1, vector_bytes=vector_bytes)
    blocking = blocking_for(device, real)
    registers = 32 if vector_bytes == 64 else 16
    assert blocking.mr * blocking.nv + blocking.nv + 1 <= max(registers, 19)
    assert blocking.mc % blocking.mr == 0
    assert all(getattr(blocking, name) in values for name, values in blocking.choices.items())


def _with_pragmas() -> str:
    """The example with its sums vectorised, and a mark of the author's on the second product."""
    text = changed(simd_reductions.CARD, LIKE_THE_EXAMPLE).candidate.kernel.text
    assert "#pragma omp simd reduction(+:dot)" in text
    second = "\n            for (int c = 0;"
    assert text.count(second) == 1
    return text.replace(second, f"\n#pragma GCC ivdep{second}")


@pytest.fixture(scope="module", params=[LIKE_THE_EXAMPLE, UPDATES_IN_PLACE, _with_pragmas()])
def attention(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    text = changed(gemm_strips.CARD, request.param).candidate.kernel.text
    return compiled(text, tmp_path_factory.mktemp("attention"))


@given(tokens=st.integers(1, 300), width=st.integers(1, 40), heads=st.integers(1, 3))
@example(tokens=1, width=1, heads=1)
@example(tokens=257, width=64, heads=2)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_attention_in_strips_agrees_with_numpy(
    attention: ctypes.CDLL, tokens: int, width: int, heads: int
) -> None:
    rng = np.random.default_rng(tokens * 1000 + width)
    d = width * heads
    q, k, v = (rng.standard_normal((tokens, d), dtype=np.float32) for _ in range(3))
    out = np.full((tokens, d), np.nan, np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (q, k, v, out)]
    attention.solve(*pointers, tokens, d, heads)
    np.testing.assert_allclose(out, _attention(q, k, v, width), rtol=2e-4, atol=2e-5)


def _attention(
    q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32], width: int
) -> NDArray[np.float64]:
    tokens = q.shape[0]
    q3, k3, v3 = (x.astype(np.float64).reshape(tokens, -1, width) for x in (q, k, v))
    scores = np.einsum("ihc,jhc->hij", q3, k3) / np.sqrt(width)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    return np.einsum("hij,jhc->ihc", weights, v3).reshape(tokens, -1)


@pytest.mark.parametrize(("size", "packs"), [(8, False), (64, True)])
def test_panels_are_packed_for_large_products_alone(size: int, packs: bool) -> None:
    text = f"""
#define N {size}
void solve(const float A[][N][N], const float B[][N][N], float C[][N][N], int batch) {{
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {{
                C[b][i][j] = 0;
                for (int k = 0; k < N; k++) C[b][i][j] += A[b][i][k] * B[b][k][j];
            }}
}}
"""
    change = gemm_packed.CARD.apply(replace(context(text), dims=({"batch": 100_000},)))
    assert (change is not None) == packs
