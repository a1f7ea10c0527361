"""What a kernel of one's own may ask of PyTorch and NumPy: a list of what is allowed.

Nobody can list all operators. What isn't here counts as a call that leaves work to the library.
"""

from __future__ import annotations

import re

from roofsmith.analysis.scan.rules import matches

_COUNTING = frozenset((
    "arange", "array", "asarray", "bool_", "ceil", "dtype", "e", "empty", "finfo", "float16",
    "float32", "float64", "floor", "full", "generic", "iinfo", "inf", "int16", "int32", "int64",
    "int8", "integer", "log2", "nan", "ndarray", "ones", "pi", "prod", "random", "sqrt", "typing",
    "uint16", "uint32", "uint64", "uint8", "zeros",
))  # fmt: skip
"""Of NumPy: memory, types, constants, random numbers, and what sizes are worked out with."""
_MEMORY = (
    "torch.arange", "torch.as_tensor", "torch.asarray", "torch.clone", "torch.empty",
    "torch.empty_like", "torch.empty_permuted", "torch.empty_strided", "torch.eye",
    "torch.from_dlpack", "torch.from_numpy", "torch.frombuffer", "torch.full", "torch.full_like",
    "torch.linspace", "torch.ones", "torch.ones_like", "torch.scalar_tensor", "torch.Storage",
    "torch.tensor", "torch.tril_indices", "torch.triu_indices", "torch.UntypedStorage",
    "torch.utils.dlpack", "torch.zeros", "torch.zeros_like",
)  # fmt: skip
_VIEWS = (
    "torch.as_strided", "torch.atleast_1d", "torch.atleast_2d", "torch.atleast_3d",
    "torch.broadcast_tensors", "torch.broadcast_to", "torch.chunk", "torch.detach",
    "torch.diagonal", "torch.flatten", "torch.meshgrid", "torch.moveaxis", "torch.movedim",
    "torch.narrow", "torch.permute", "torch.ravel", "torch.reshape", "torch.select", "torch.split",
    "torch.squeeze", "torch.swapaxes", "torch.swapdims", "torch.t", "torch.tensor_split",
    "torch.transpose", "torch.unbind", "torch.unflatten", "torch.unsqueeze",
    "torch.view_as_complex", "torch.view_as_real",
)  # fmt: skip
_QUESTIONS = (
    "torch.__version__", "torch.are_deterministic_algorithms_enabled", "torch.broadcast_shapes",
    "torch.can_cast", "torch.device", "torch.distributed.get_rank",
    "torch.distributed.get_world_size", "torch.distributed.is_available",
    "torch.distributed.is_initialized", "torch.distributed.tensor.DTensor", "torch.finfo",
    "torch.get_autocast_dtype", "torch.get_autocast_gpu_dtype", "torch.get_default_dtype",
    "torch.get_device_module", "torch.get_float32_matmul_precision",
    "torch.get_num_interop_threads", "torch.get_num_threads", "torch.iinfo",
    "torch.is_autocast_enabled", "torch.is_complex", "torch.is_floating_point",
    "torch.is_grad_enabled", "torch.is_inference", "torch.is_inference_mode_enabled",
    "torch.is_nonzero", "torch.is_tensor", "torch.jit.is_scripting", "torch.jit.is_tracing",
    "torch.numel", "torch.promote_types", "torch.result_type", "torch.Size", "torch.Tag",
    "torch.torch_version", "torch.typename", "torch.version",
)  # fmt: skip
_SETTINGS = (
    "torch._assert", "torch.accelerator", "torch.amp.autocast", "torch.amp.custom_bwd",
    "torch.amp.custom_fwd", "torch.autocast", "torch.backends", "torch.cuda", "torch.enable_grad",
    "torch.inference_mode", "torch.no_grad", "torch.set_default_device", "torch.set_default_dtype",
    "torch.set_float32_matmul_precision", "torch.set_grad_enabled",
    "torch.set_num_interop_threads", "torch.set_num_threads", "torch.set_printoptions",
    "torch.set_warn_always", "torch.types", "torch.use_deterministic_algorithms",
)  # fmt: skip
_RANDOM = (
    "torch.default_generator", "torch.Generator", "torch.get_rng_state", "torch.initial_seed",
    "torch.manual_seed", "torch.rand", "torch.rand_like", "torch.randint", "torch.randint_like",
    "torch.randn", "torch.randn_like", "torch.randperm", "torch.set_rng_state",
)  # fmt: skip
_COMPILING = (
    "torch._dynamo", "torch._inductor.runtime.hints", "torch._inductor.runtime.triton_compat",
    "torch._inductor.runtime.triton_helpers", "torch._inductor.runtime.triton_heuristics",
    "torch.autograd.profiler", "torch.compile", "torch.compiler", "torch.library",
    "torch.nn.Identity", "torch.nn.Module", "torch.nn.ModuleDict", "torch.nn.ModuleList",
    "torch.nn.Parameter", "torch.nn.parameter", "torch.nn.ParameterDict", "torch.nn.ParameterList",
    "torch.nn.UninitializedParameter", "torch.profiler", "torch.utils.cpp_extension",
)  # fmt: skip
"""What torch.compile is given and C++ in strings are read themselves."""
_ASKED = (*_MEMORY, *_VIEWS, *_QUESTIONS, *_SETTINGS, *_RANDOM, *_COMPILING)
_FACTS = re.compile(
    r"torch\.(Tensor|nn\.Buffer|dtype|layout|memory_format|Stream|Event|strided|\w+_format"
    r"|channels_last(_3d)?|bool|half|c?float|bfloat16|float\d+(_\w+)?|double|short|int|long"
    r"|[cq]?u?int\d+|cdouble|chalf|complex\d+|inf|nan|pi|e|_check\w*|autograd\.Function"
    r"|autograd\.function\.(Function|FunctionCtx|once_differentiable)"
    r"|(cuda\.)?(BFloat16|Bool|Byte|Char|Double|Float|Half|Int|Long|Short)Tensor"
    r"|nn\.init\.(calculate_gain|_calculate_\w+|((kaiming|xavier)_|trunc_)?(uniform|normal)_"
    r"|(constant|ones|zeros)_)"
    r"|_C\._cuda_getCurrentRawStream|_C\._dynamo\.guards\.(assert_size_stride|_empty_strided_\w+"
    r"|_reinterpret_tensor)|_C\.Tag(\.\w+)?|(xpu|hpu|mps|npu|mtia)\.(is_available|device_count)"
    r"|ops\.inductor\._reinterpret_tensor)"
)
"""Types, constants, and what Inductor's wrappers ask for, but nothing below them."""


def is_of_torch(name: str) -> bool:
    """Whether a full name is an operator of PyTorch, or a module that holds some."""
    if not matches(name, "torch") or _FACTS.fullmatch(name):
        return False
    is_method = "Tensor" in name.split(".")[:-1]  # whichever module the class was taken from
    return is_method or not any(matches(name, allowed) for allowed in _ASKED)


def is_of_numpy(name: str) -> bool:
    """Whether a full name is one of NumPy's that sizes aren't worked out with."""
    head, _, rest = name.partition(".")
    return head == "numpy" and bool(rest) and rest.partition(".")[0] not in _COUNTING
