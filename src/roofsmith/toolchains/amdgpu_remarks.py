"""What clang says of AMD kernels under `-Rpass-analysis=kernel-resource-usage`.

kernel.hip:15:1: remark: Function Name: _Z5scalePKfPfi [-Rpass-analysis=kernel-resource-usage]
kernel.hip:15:1: remark:     VGPRs: 27 [-Rpass-analysis=kernel-resource-usage]

Older releases put `remark:` in front of the place. The lines come in the order of LLVM's
`AMDGPUAsmPrinter::emitResourceUsageRemarks`; the last one, of the LDS, is printed for kernels only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from roofsmith.domain.kernel import KernelResources
from roofsmith.toolchains.ptxas import Demangle

_REMARK = re.compile(
    r"remark:\s+(?:[^\s:][^:\n]*:\d+:\d+:\s+)?(?P<name>[A-Z]\w+(?: \w+)?)(?: \[[^\]]+\])?: "
    r"(?P<value>.*?)\s*\[-Rpass-analysis=kernel-resource-usage\]\s*$"
)
_START, _END = "Function Name", "LDS Size"


def read_resources(output: str, arch: str, demangle: Demangle) -> tuple[KernelResources, ...]:
    """The resources of every kernel that the remarks describe, in their order.

    What isn't printed, or is printed as an expression for the linker, is None.
    """
    described = [found for found in _described(output) if _END in found]
    names = demangle(found[_START] for found in described)
    return tuple(_resources(found, arch, names[found[_START]]) for found in described)


def _described(output: str) -> list[dict[str, str]]:
    functions: list[dict[str, str]] = []
    for line in output.splitlines():
        match = _REMARK.search(line)
        if match is None:
            continue
        if match["name"] == _START:
            functions.append({})
        if functions:
            functions[-1][match["name"]] = match["value"]
    return functions


def _resources(found: Mapping[str, str], arch: str, name: str) -> KernelResources:
    return KernelResources(
        name=name,
        arch=arch,
        registers=_number(found.get("VGPRs")),
        accumulation_registers=_number(found.get("AGPRs")),
        scalar_registers=_number(found.get("SGPRs", found.get("TotalSGPRs"))),
        shared_bytes=_number(found.get(_END)),
        stack_bytes=_number(found.get("ScratchSize")),
        spilled_registers=_number(found.get("VGPRs Spill")),
        occupancy_warps=_number(found.get("Occupancy")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
