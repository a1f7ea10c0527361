"""The bundled kernels that `pace.py` has judged, and what becomes of them by an edit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

ROOT = Path(__file__).resolve().parents[1]
Kind = Literal["wrong", "slower", "kept"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Edit = tuple[str, str]

_EXP = """\
#include <stdint.h>
#include <string.h>

static inline float exp_(float x) {  // 2^n times a polynomial (Cephes, expf)
    int32_t whole = (int32_t)(x * 1.44269504f - 0.5f);
    float n = (float)whole;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t power = whole + 127;
    int32_t bits = (power < 0 ? 0 : power) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

void solve("""
_LARGEST = """\
        for (int j = 1; j < D; j++) {
            if (row[j] > largest) {
                largest = row[j];
            }
        }
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with its reference, on one size or the target's own."""

    name: str
    kernel: Path
    reference: Path
    workloads: tuple[str, ...]
    edits: dict[Kind, tuple[Edit, ...]]

    def text(self, kind: Kind, number: int) -> str:
        """The kernel as an edit leaves it, with a comment of its own: no build is in a cache."""
        text = self.kernel.read_text(encoding="utf-8")
        for old, new in self.edits[kind]:
            assert text.count(old) == 1, f"{self.kernel} has changed: {old!r}"
            text = text.replace(old, new)
        comment = "#" if self.kernel.suffix == ".py" else "//"
        return f"{text}{comment} {kind} {number}\n"

    @property
    def subject(self) -> list[str]:
        """As the command line takes it."""
        sizes = [word for size in self.workloads for word in ("--workload", size)]
        return [str(self.kernel), "--ref", str(self.reference), *sizes]


_C = ROOT / "examples" / "softmax"
_TRITON = ROOT / "examples" / "triton" / "softmax"
CPU = Case(
    name="softmax in C",
    kernel=_C / "kernel.c",
    reference=_C / "reference.py",
    workloads=("N=4096,D=2048", "N=8192,D=1000"),
    edits={
        "wrong": (("result[j] / sum", "result[j] / (sum - result[D - 1])"),),
        "slower": ((_LARGEST, _LARGEST * 3),),
        "kept": (
            ("void solve(", _EXP),
            (_LARGEST, "#pragma omp simd reduction(max : largest)\n" + _LARGEST),
            ("expf(row[j] - largest)", "exp_(row[j] - largest)"),
            (
                "        for (int j = 0; j < D; j++) {\n            result[j] = exp",
                "#pragma omp simd reduction(+ : sum)\n"
                "        for (int j = 0; j < D; j++) {\n            result[j] = exp",
            ),
        ),
    },
)
GPU = Case(
    name="softmax in Triton",
    kernel=_TRITON / "naive.py",
    reference=_TRITON / "reference.py",
    workloads=("N=4096,D=1024",),
    edits={
        "wrong": (("/ total, mask=columns < D)", "/ total, mask=columns < D - 1)"),),
        "slower": (("BLOCK = 64", "BLOCK = 16"),),
        "kept": (("BLOCK = 64", "BLOCK = 1024"),),
    },
)
