"""Compiles the kernels that modules launch, for a GPU that needn't be here."""

COMPILES_LAUNCHES = '''
import importlib.util, json, sys

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.tools.tensor_descriptor import TensorDescriptor

NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.int8: "i8",
         torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "i1"}


MADE = {}


def compiled(kernel, *args, grid, warmup, num_warps=4, num_stages=3, **given):
    """In place of a launch: what the kernel is for the arguments."""
    names = kernel.arg_names
    values = {**dict(zip(names, args)), **given}
    types, constants, marks = {}, {}, {}
    for at, name in enumerate(names):
        value = values[name]
        if isinstance(value, TensorDescriptor):
            types[name] = f"tensordesc<{NAMES[value.base.dtype]}{list(value.block_shape)}>"
        elif torch.is_tensor(value):
            types[name] = f"*{NAMES[value.dtype]}"
            marks[(at,)] = [["tt.divisibility", 16]]
        elif name in given or value is None or value == 1:
            types[name], constants[name] = "constexpr", value
        else:
            types[name] = "fp32" if isinstance(value, float) else "i32"
            if isinstance(value, int) and value % 16 == 0:
                marks[(at,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, types, constants, marks)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    target = GPUTarget("cuda", 90, 32)
    MADE[kernel.fn.__name__] = triton.compile(source, target=target, options=options)


triton.runtime.jit.JITFunction.run = compiled
for name, (arrays, scalars) in json.load(open(sys.argv[1])).items() if sys.argv[1:] else ():
    spec = importlib.util.spec_from_file_location(name, f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = {n: torch.empty(shape, dtype=getattr(torch, d)) for n, (d, shape) in arrays.items()}
    MADE.clear()
    module.run_kernel(**given, **scalars)
    ptx = "".join(one.asm["ptx"] for one in MADE.values())
    print(json.dumps([name, sorted(MADE), "wgmma" in ptx, "cp.async.bulk.tensor" in ptx]))
'''
