"""C code of elementary functions without calls or branches, which loops can be vectorised over.

Range reduction and polynomials after Moshier's Cephes library (expf.c, exp.c, logf.c, tanhf.c,
netlib.org/cephes) and Cody & Waite, "Software Manual for the Elementary Functions" (1980). Errors
measured against the float64 library: under 2 ulp for the exponentials and the logarithm, under
3 ulp for tanh, over their whole range. NaN stays NaN; exp gives infinity past the overflow point,
and 0 for results under twice the smallest normal number, -infinity included.
"""

from __future__ import annotations

EXPF = """
/* exp(x) without calls or branches: x = n ln 2 + r, a polynomial in r, times 2^n.
   The polynomial is doubled and 2^(n-1) multiplied in, so that n = 128 doesn't overflow early. */
static inline float roofsmith_expf(float x) {
    float c = x > 89.0f ? 89.0f : x;
    c = c < -87.4f ? -87.4f : c;
    float shifted = c * 1.44269504088896341f + 12582912.0f; /* 1.5 * 2^23: n in the low bits */
    float n = shifted - 12582912.0f;
    float r = c - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 2.0f * 1.9875691500e-4f;
    p = p * r + 2.0f * 1.3981999507e-3f;
    p = p * r + 2.0f * 8.3334519073e-3f;
    p = p * r + 2.0f * 4.1665795894e-2f;
    p = p * r + 2.0f * 1.6666665459e-1f;
    p = p * r + 2.0f * 5.0000001201e-1f;
    p = p * (r * r) + (2.0f * r + 2.0f);
    union { float value; unsigned bits; } scale = { shifted };
    scale.bits = (scale.bits << 23) + (126u << 23);
    return p * scale.value;
}
"""

EXP = """
/* exp(x) without calls or branches: x = n ln 2 + r, a Taylor polynomial in r, times 2^n. */
static inline double roofsmith_exp(double x) {
    double c = x > 710.0 ? 710.0 : x;
    c = c < -708.7 ? -708.7 : c;
    double shifted = c * 1.4426950408889634074 + 6755399441055744.0; /* 1.5 * 2^52 */
    double n = shifted - 6755399441055744.0;
    double r = c - n * 6.93145751953125e-1;
    r = r - n * 1.42860682030941723212e-6;
    double p = 2.0 / 6227020800.0;
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
    union { double value; unsigned long long bits; } scale = { shifted };
    scale.bits = (scale.bits << 52) + (1022ull << 52);
    return p * scale.value;
}
"""

TANHF = """
/* tanh(x) without calls or branches: a polynomial near 0, 1 - 2 / (exp(2 |x|) + 1) further out. */
static inline float roofsmith_tanhf(float x) {
    float size = x < 0.0f ? -x : x;
    float square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    float near = p * square * x + x;
    float far = 1.0f - 2.0f / (roofsmith_expf(2.0f * size) + 1.0f);
    far = x < 0.0f ? -far : far;
    return size < 0.625f ? near : far;
}
"""

LOGF = """
/* log(x) without calls or branches: x = 2^n m with m near 1, a polynomial in m - 1. */
static inline float roofsmith_logf(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x; /* lift subnormal numbers */
    union { float value; int bits; } whole = { scaled };
    int n = (whole.bits - 0x3f3504f3) >> 23; /* m in [sqrt(1/2), sqrt(2)) */
    union { int bits; float value; } part = { whole.bits - (n << 23) };
    float exponent = (float)n - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    float r = part.value - 1.0f, z = r * r;
    float p = 7.0376836292e-2f;
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    float y = p * r * z - 2.12194440e-4f * exponent - 0.5f * z;
    y = r + y + 0.693359375f * exponent;
    y = x > 3.40282347e+38f ? x : y;
    y = x == 0.0f ? -1.0f / 0.0f : y;
    return x < 0.0f || x != x ? 0.0f / 0.0f : y;
}
"""

HELPERS: dict[str, tuple[str, ...]] = {
    "expf": (EXPF,),
    "exp": (EXP,),
    "tanhf": (EXPF, TANHF),
    "logf": (LOGF,),
}
"""Library function to the code of its replacement `roofsmith_<name>`, in order of definition."""
