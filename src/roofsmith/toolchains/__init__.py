"""From sources to something that a worker can load."""

from roofsmith.toolchains.c import CToolchain
from roofsmith.toolchains.compilers import compiler_versions
from roofsmith.toolchains.cuda import CudaReadingToolchain, CudaToolchain
from roofsmith.toolchains.disassembly import listing
from roofsmith.toolchains.dispatch import Toolchains
from roofsmith.toolchains.hip import HipToolchain
from roofsmith.toolchains.module import ModuleToolchain
from roofsmith.toolchains.signature import read_signature
from roofsmith.toolchains.triton_cache import triton_resources

__all__ = [
    "CToolchain",
    "CudaReadingToolchain",
    "CudaToolchain",
    "HipToolchain",
    "ModuleToolchain",
    "Toolchains",
    "compiler_versions",
    "listing",
    "read_signature",
    "triton_resources",
]
