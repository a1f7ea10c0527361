"""C code of vector types and helpers, in GCC's vector extensions (gcc.gnu.org/onlinedocs/gcc,
"Using Vector Instructions through Built-in Functions"), which clang understands as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofsmith.proposers.source import Element


@dataclass(frozen=True, slots=True)
class VectorType:
    """Names and widths of one element type."""

    element: Element
    lanes: int

    @property
    def suffix(self) -> str:
        """`f` or `d`: ends every name that belongs to this element type."""
        return "f" if self.element == "float" else "d"

    @property
    def size_bytes(self) -> int:
        """Of one vector."""
        return self.lanes * (4 if self.element == "float" else 8)

    @property
    def name(self) -> str:
        """The C type."""
        return f"roofsmith_v{self.suffix}"

    def function(self, operation: str) -> str:
        """The name of a helper, such as `roofsmith_vmaxf`."""
        return f"roofsmith_v{operation}{self.suffix}"

    @property
    def code(self) -> str:
        """Type, loads, stores, selects and folds."""
        names = {
            "ELEMENT": self.element,
            "INTEGER": "int" if self.element == "float" else "long long",
            "SIZE": str(self.size_bytes),
            "ALIGN": "4" if self.element == "float" else "8",
            "LANES": str(self.lanes),
            "SFX": self.suffix,
            "SUMFOLD": self._fold("v = v + {other}"),
            "MAXFOLD": self._fold("v = roofsmith_vmaxSFX({other}, v)"),
            "MINFOLD": self._fold("v = roofsmith_vminSFX({other}, v)"),
            "PRODFOLD": self._fold("v = v * {other}"),
            "MAXLINE": self._native("max"),
            "MINLINE": self._native("min"),
        }
        text = _TYPES
        for key, value in names.items():
            if key != "SFX":
                text = text.replace(key, value)
        return text.replace("SFX", self.suffix)

    def _native(self, operation: Literal["max", "min"]) -> str:
        """One instruction where x86 has it; it takes the second operand for NaN, as the select."""
        packed = "ps" if self.element == "float" else "pd"
        sign = ">" if operation == "max" else "<"
        general = f"    return roofsmith_vselectSFX(a {sign} b, a, b);"
        known = {16: ("__SSE2__", ""), 32: ("__AVX__", "256")}.get(self.size_bytes)
        if known is None:
            return general
        macro, width = known
        native = f"    return __builtin_ia32_{operation}{packed}{width}(a, b);"
        return f"#ifdef {macro}\n{native}\n#else\n{general}\n#endif"

    def _fold(self, step: str) -> str:
        """Halve until one lane is left."""
        lines = []
        half = self.lanes // 2
        while half:
            order = ", ".join(str((lane + half) % self.lanes) for lane in range(self.lanes))
            other = f"__builtin_shufflevector(v, v, {order})"
            lines.append(f"    {step.format(other=other)};")
            half //= 2
        return "\n".join(lines)

    @property
    def exp_code(self) -> str:
        """The vector exponential, for the element type."""
        return (_EXPF if self.element == "float" else _EXPD).strip()


_TYPES = """
/* LANES lanes of ELEMENT; the compiler splits what the machine's registers can't hold. */
typedef ELEMENT roofsmith_vSFX __attribute__((vector_size(SIZE)));
typedef INTEGER roofsmith_mSFX __attribute__((vector_size(SIZE)));
typedef ELEMENT roofsmith_uSFX __attribute__((vector_size(SIZE), aligned(ALIGN), may_alias));
static inline __attribute__((always_inline)) roofsmith_vSFX roofsmith_vloadSFX(const ELEMENT* p) {
    return *(const roofsmith_uSFX*)p;
}
static inline __attribute__((always_inline)) void roofsmith_vstoreSFX(
    ELEMENT* p, roofsmith_vSFX v) {
    *(roofsmith_uSFX*)p = v;
}
static inline __attribute__((always_inline)) roofsmith_vSFX roofsmith_vsplatSFX(ELEMENT x) {
    return x - (roofsmith_vSFX){0};
}
static inline __attribute__((always_inline)) roofsmith_vSFX roofsmith_vselectSFX(
    roofsmith_mSFX mask, roofsmith_vSFX yes, roofsmith_vSFX no) {
    return (roofsmith_vSFX)((mask & (roofsmith_mSFX)yes) | (~mask & (roofsmith_mSFX)no));
}
static inline __attribute__((always_inline)) roofsmith_vSFX roofsmith_vmaxSFX(
    roofsmith_vSFX a, roofsmith_vSFX b) {
MAXLINE
}
static inline __attribute__((always_inline)) roofsmith_vSFX roofsmith_vminSFX(
    roofsmith_vSFX a, roofsmith_vSFX b) {
MINLINE
}
static inline __attribute__((always_inline)) ELEMENT roofsmith_vfoldsumSFX(roofsmith_vSFX v) {
SUMFOLD
    return v[0];
}
static inline __attribute__((always_inline)) ELEMENT roofsmith_vfoldprodSFX(roofsmith_vSFX v) {
PRODFOLD
    return v[0];
}
static inline __attribute__((always_inline)) ELEMENT roofsmith_vfoldmaxSFX(roofsmith_vSFX v) {
MAXFOLD
    return v[0];
}
static inline __attribute__((always_inline)) ELEMENT roofsmith_vfoldminSFX(roofsmith_vSFX v) {
MINFOLD
    return v[0];
}
"""

_EXPF = """
/* roofsmith_expf in every lane. */
static inline __attribute__((always_inline)) roofsmith_vf roofsmith_vexpf(roofsmith_vf x) {
    roofsmith_vf c = roofsmith_vminf(roofsmith_vsplatf(89.0f), x);
    c = roofsmith_vmaxf(roofsmith_vsplatf(-87.4f), c);
    roofsmith_vf shifted = c * 1.44269504088896341f + 12582912.0f;
    roofsmith_vf n = shifted - 12582912.0f;
    roofsmith_vf r = c - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    roofsmith_vf p = roofsmith_vsplatf(2.0f * 1.9875691500e-4f);
    p = p * r + 2.0f * 1.3981999507e-3f;
    p = p * r + 2.0f * 8.3334519073e-3f;
    p = p * r + 2.0f * 4.1665795894e-2f;
    p = p * r + 2.0f * 1.6666665459e-1f;
    p = p * r + 2.0f * 5.0000001201e-1f;
    p = p * (r * r) + (2.0f * r + 2.0f);
    roofsmith_mf scale = ((roofsmith_mf)shifted << 23) + (126 << 23);
    return p * (roofsmith_vf)scale;
}
"""

_EXPD = """
/* roofsmith_exp in every lane. */
static inline __attribute__((always_inline)) roofsmith_vd roofsmith_vexpd(roofsmith_vd x) {
    roofsmith_vd c = roofsmith_vmind(roofsmith_vsplatd(710.0), x);
    c = roofsmith_vmaxd(roofsmith_vsplatd(-708.7), c);
    roofsmith_vd shifted = c * 1.4426950408889634074 + 6755399441055744.0;
    roofsmith_vd n = shifted - 6755399441055744.0;
    roofsmith_vd r = c - n * 6.93145751953125e-1;
    r = r - n * 1.42860682030941723212e-6;
    roofsmith_vd p = roofsmith_vsplatd(2.0 / 6227020800.0);
    p = p * r + 2.0 / 479001600.0;
    p = p * r + 2.0 / 39916800.0;
    p = p * r + 2.0 / 3628800.0;
    p = p * r + 2.0 / 362880.0;
    p = p * r + 2.0 / 40320.0;
    p = p * r + 2.0 / 5040.0;
    p = p * r + 2.0 / 720.0;
    p = p * r + 2.0 / 120.0;
    p = p * r + 2.0 / 24.0;
    p = p * r + 2.0 / 6.0;
    p = p * r + 1.0;
    p = p * (r * r) + (2.0 * r + 2.0);
    roofsmith_md scale = ((roofsmith_md)shifted << 52) + (1022ll << 52);
    return p * (roofsmith_vd)scale;
}
"""
