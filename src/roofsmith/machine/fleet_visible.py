"""Which of a machine's GPUs this process may use: the variables by which somebody has said so.

CUDA_VISIBLE_DEVICES (CUDA C++ programming guide, "CUDA environment variables"), CUDA_DEVICE_ORDER,
NVIDIA_VISIBLE_DEVICES (NVIDIA container toolkit), ROCR_, HIP_ and CUDA_VISIBLE_DEVICES and
GPU_DEVICE_ORDINAL (ROCm, "GPU isolation techniques").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.domain.fleet import GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine.plugged import Vendor

_LISTS: Mapping[Vendor, Sequence[Sequence[str]]] = {
    "nvidia": (("CUDA_VISIBLE_DEVICES",),),
    "amd": (
        ("ROCR_VISIBLE_DEVICES",),
        ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        ("GPU_DEVICE_ORDINAL",),
    ),
}
"""Variables, one after the other; of several in one place the first that is set."""
_HINTS: Mapping[Vendor, str] = {
    "nvidia": "name them by UUID (nvidia-smi -L), or export CUDA_DEVICE_ORDER=PCI_BUS_ID",
    "amd": "export ROCR_VISIBLE_DEVICES with UUIDs (amd-smi list -e, hip_uuid) instead",
}


@dataclass(frozen=True, slots=True)
class _Card:
    uuid: str
    name: str
    parts: tuple[GpuStatus, ...]


def visible(gpus: Sequence[GpuStatus], environment: Mapping[str, str]) -> tuple[GpuStatus, ...]:
    """Those of `gpus` that this process may use, in their order.

    Raises:
        MachineError: numbers are given to GPUs of different models, which no driver counts as it
            lists them.
    """
    nvidia = _by_container(_cards(gpus, "nvidia"), environment)
    chosen = {
        status.uuid
        for status in (
            *_by_lists(nvidia, "nvidia", environment),
            *_by_lists(_cards(gpus, "amd"), "amd", environment),
        )
    }
    return tuple(status for status in gpus if status.uuid in chosen)


def pinned_environment(status: GpuStatus) -> dict[str, str]:
    """Variables under which a process sees this GPU, or MIG instance, and no other.

    NVIDIA's are named by UUID, so CUDA_DEVICE_ORDER doesn't matter. HIP takes numbers only: the
    runtime below it, ROCR, takes the UUID, and of what that leaves HIP is given the first. A card
    without a UUID is given by HIP's number.
    """
    if status.kind == "nvidia":
        return {"CUDA_VISIBLE_DEVICES": status.uuid}
    if status.uuid.startswith("GPU-"):
        first = {"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}
        return {"ROCR_VISIBLE_DEVICES": status.uuid, **first}
    # PyTorch refuses to start where the two differ.
    return {"HIP_VISIBLE_DEVICES": str(status.index), "CUDA_VISIBLE_DEVICES": str(status.index)}


def _cards(gpus: Sequence[GpuStatus], kind: str) -> list[_Card]:
    parts: dict[str, list[GpuStatus]] = {}
    for status in sorted(gpus, key=lambda status: status.index):
        if status.kind == kind:
            parts.setdefault(status.parent_uuid or status.uuid, []).append(status)
    return [
        _Card(uuid, some[0].name.partition(" MIG ")[0], tuple(some)) for uuid, some in parts.items()
    ]


def _by_container(cards: list[_Card], environment: Mapping[str, str]) -> list[_Card]:
    """What the container toolkit was told; its numbers are the host's, where it has acted on them.

    So numbers say nothing where no more GPUs are shown than they name, and count from here where
    they had no effect, as in a privileged container. `void`, empty and unset leave it to others.
    """
    listed = environment.get("NVIDIA_VISIBLE_DEVICES", "").strip()
    if listed in ("", "all", "void"):
        return cards
    if listed == "none":
        return []
    tokens = [token.strip() for token in listed.split(",")]
    numbers = {token for token in tokens if token.replace(":", "").isdecimal()}
    if len(cards) <= len({number.partition(":")[0] for number in numbers}):
        return cards
    left = []
    for place, card in enumerate(cards):
        parts = tuple(
            part
            for number, part in enumerate(card.parts)
            if {str(place), f"{place}:{number}"} & numbers
            or any(_named(token, card.uuid) or _named(token, part.uuid) for token in tokens)
        )
        if parts:
            left.append(_Card(card.uuid, card.name, parts))
    return left


def _by_lists(cards: list[_Card], kind: Vendor, environment: Mapping[str, str]) -> list[GpuStatus]:
    """One list after the other; its numbers count what the one before it leaves."""
    for names in _LISTS[kind]:
        name = next((name for name in names if name in environment), None)
        if name is None:
            continue
        tokens = [token.strip() for token in environment[name].split(",")]
        in_order = kind == "nvidia" and environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        are_numbers = any(token.isdecimal() for token in tokens)
        if are_numbers and not in_order and len({card.name for card in cards}) > 1:
            raise MachineError(
                f"{name} gives numbers, and the GPUs are of different models, which their driver"
                " sorts by rules of its own",
                hint=_HINTS[kind],
            )
        chosen = _chosen(tokens, cards)
        cards = [_Card(part.uuid, part.name, (part,)) for part in chosen]
    return [part for card in cards for part in card.parts]


def _chosen(tokens: Sequence[str], cards: Sequence[_Card]) -> list[GpuStatus]:
    """In the order of the list, up to the first entry that names nothing, as CUDA and HIP do."""
    found: list[GpuStatus] = []
    for token in tokens:
        part = _one(token, cards)
        if part is None:
            break
        found.append(part)
    return found


def _one(token: str, cards: Sequence[_Card]) -> GpuStatus | None:
    """What one entry names; of a GPU in MIG mode that is its first instance."""
    if token.isdecimal():
        return cards[int(token)].parts[0] if int(token) < len(cards) else None
    found = [card.parts[0] for card in cards if _named(token, card.uuid)]
    found += [part for card in cards for part in card.parts if _named(token, part.uuid)]
    return found[0] if len({part.uuid for part in found}) == 1 else None


def _named(token: str, uuid: str) -> bool:
    """Whether an entry is a UUID, or the beginning of one."""
    return (
        len(token) > 4 and token[:4] in ("GPU-", "MIG-") and uuid.lower().startswith(token.lower())
    )
