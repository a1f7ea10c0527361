"""Names of PyTorch's operators, as methods of tensors have them in Python and in C++.

A method computes where the function of that name in `torch` does. Views, copies, casts, random
numbers and facts, such as `equal`, are none of it.
"""

from __future__ import annotations

_COMPUTING = frozenset((
    "_addmm_activation", "_to_dense", "_to_sparse", "abs", "absolute", "acos", "acosh", "addbmm",
    "addcdiv", "addcmul", "addmm", "addmv", "addr", "amax", "amin", "aminmax", "angle", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort",
    "argwhere", "as_strided_scatter", "asin", "asinh", "atan", "atan2", "atanh", "baddbmm",
    "bincount", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "bmm", "bucketize", "ceil", "cholesky",
    "cholesky_inverse", "cholesky_solve", "clamp", "clamp_max", "clamp_min", "clip", "coalesce",
    "conj_physical", "copysign", "corrcoef", "cos", "cosh", "count_nonzero", "cov", "cross",
    "cummax", "cummin", "cumprod", "cumsum", "deg2rad", "dequantize", "det", "diagonal_scatter",
    "diff", "digamma", "dist", "div", "divide", "dot", "einsum", "eq", "erf", "erfc", "erfinv",
    "exp", "exp2", "expm1", "fix", "flip", "fliplr", "flipud", "float_power", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "frac", "frexp", "gather", "gcd", "ge", "geqrf", "ger",
    "greater", "greater_equal", "gt", "hardshrink", "hash_tensor", "heaviside", "histc",
    "histogram", "hypot", "i0", "igamma", "igammac", "index_add", "index_copy", "index_fill",
    "index_put", "index_reduce", "index_select", "inner", "inverse", "istft", "kron", "kthvalue",
    "lcm", "ldexp", "le", "lerp", "less", "less_equal", "lgamma", "log10", "log1p", "log2",
    "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logdet", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logsumexp", "lt", "lu", "lu_solve",
    "masked_fill", "masked_scatter", "masked_select", "matmul", "matrix_exp", "matrix_power",
    "maximum", "mean", "median", "minimum", "mm", "mode", "msort", "mul", "multinomial",
    "multiply", "mv", "mvlgamma", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum",
    "ne", "neg", "negative", "nextafter", "nonzero", "nonzero_static", "norm", "not_equal",
    "orgqr", "ormqr", "outer", "pinverse", "polygamma", "pow", "prelu", "prod", "qr", "quantile",
    "rad2deg", "reciprocal", "relu", "remainder", "renorm", "repeat_interleave", "roll", "rot90",
    "round", "rsqrt", "scatter", "scatter_add", "scatter_reduce", "select_scatter", "sgn",
    "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "slice_scatter", "slogdet", "smm",
    "softmax", "sparse_mask", "sqrt", "square", "sspaddmm", "std", "stft", "sub", "subtract",
    "sum", "sum_to_size", "svd", "take", "take_along_dim", "tan", "tanh", "tensordot", "to_dense",
    "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc",
    "to_sparse_csr", "topk", "trace", "trapz", "triangular_solve", "tril", "triu", "true_divide",
    "trunc", "unique", "unique_consecutive", "var", "vdot", "where", "xlogy",
))  # fmt: skip
"""Those whose names hardly anything else has, without the underscore of their forms in place."""
_PRODUCTS = frozenset((
    "__imatmul__", "__matmul__", "__rmatmul__", "addbmm", "addbmm_", "addmm", "addmm_", "addmv",
    "addmv_", "baddbmm", "baddbmm_", "bmm", "einsum", "matmul", "mm", "mv", "smm", "sspaddmm",
    "tensordot",
))  # fmt: skip


def is_product(name: str) -> bool:
    """Whether it is no name of anybody's own: taken, and called elsewhere, it counts as well."""
    return name in _PRODUCTS


def is_computing(name: str) -> bool:
    """Whether a method of this name computes, whatever it is called with."""
    stem = name.removesuffix("_")
    in_place = name != stem and stem in {"add", "log", "put"}
    return name in _PRODUCTS or stem in _COMPUTING or in_place
