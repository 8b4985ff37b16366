"""What Kubernetes says of a node: conditions of both polarities, events, and GPUs that are not allocatable.

True is bad: node-problem-detector, AKS, GKE. False is bad: Amazon EKS. What was named neither here nor by an
Xid is left alone: a condition of somebody's own is no fault of a GPU.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from gpu_health.signals.levels import MACHINE, Levels, ReadingDevice
from gpu_health.signals.reading import GpuReading, ReadingSource

BAD_WHEN_TRUE: Mapping[str, str] = {
    "KernelDeadlock": "kernel.deadlock",
    "ReadonlyFilesystem": "disk.read_only",
    "ContainerRuntimeUnhealthy": "runtime.unhealthy",
    "ContainerRuntimeProblem": "runtime.unhealthy",
    "KubeletUnhealthy": "runtime.unhealthy",
    "KubeletProblem": "runtime.unhealthy",
    "FrequentKubeletRestart": "runtime.unhealthy",
    "GPUMissing": "gpu.count_mismatch",
    "NVLinkStatusInactive": "nvlink.down",
    "IBLinkFlapping": "ib.flap",
    "UnhealthyNvidiaDevicePlugin": "device_plugin.unhealthy",
}
BAD_WHEN_FALSE: Mapping[str, str] = {
    "KernelReady": "kernel.deadlock",
    "ContainerRuntimeReady": "runtime.unhealthy",
}
OF_XIDS_WHEN_TRUE = ("XIDErrors", "XidCriticalError")
OF_XIDS_WHEN_FALSE = ("AcceleratedHardwareReady",)
EKS_REASONS: Mapping[str, str] = {
    "NvidiaDoubleBitError": "ecc.double_bit",
    "NvidiaNVLinkError": "nvlink.down",
    "NvidiaDeviceCountMismatch": "gpu.count_mismatch",
}
PLUGIN = "device_plugin.unhealthy"
MAX_XIDS = 32

_GPUS = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)|(amd|aliyun)\.com/gpu|huawei\.com/Ascend910")
"""Resources that are GPUs, slices or shares of them."""
_XID = re.compile(r"(?<![A-Za-z])(?:Nvidia)?XID[ _:=]{0,2}(\d{1,4})", re.IGNORECASE)


class KubernetesReader:
    """`read_node` at each look; `read_event` for each event that is about the node.

    `conditions` and `plugin_is_bad`: what an earlier look, by another reader, has found.
    """

    def __init__(
        self, *, session: str, node: str, conditions: Iterable[str] = (), plugin_is_bad: bool = False
    ) -> None:
        self._known = set(conditions)
        self._conditions = Levels(
            ReadingSource.NODE_CONDITION, session, node, {(fault, MACHINE) for fault in self._known}
        )
        plugin = {(PLUGIN, MACHINE)} if plugin_is_bad else set()
        self._plugin = Levels(ReadingSource.DEVICE_PLUGIN, session, node, plugin)
        self._events = Levels(ReadingSource.KUBERNETES_EVENT, session, node)

    @property
    def bad_conditions(self) -> frozenset[str]:
        """Faults that conditions tell of at the moment."""
        return frozenset(fault for fault, _device in self._conditions.present)

    @property
    def plugin_is_bad(self) -> bool:
        return bool(self._plugin.present)

    def read_node(self, node: Mapping[str, Any], at: float) -> list[GpuReading]:
        """`node` as the API shows it. Parts that are missing or of another form say nothing."""
        status = node.get("status")
        status = status if isinstance(status, Mapping) else {}
        conditions = status.get("conditions")
        bad = self._bad(conditions if isinstance(conditions, list) else [])
        found: list[GpuReading] = []
        for fault in sorted(self._known | bad.keys()):
            found += self._conditions.level(fault, MACHINE, fault in bad, at, raw=bad.get(fault, ""))
        self._known |= bad.keys()
        return found + self._gpus(status, at)

    def read_event(self, event: Mapping[str, Any], at: float) -> list[GpuReading]:
        """An event's Xid; of others nothing."""
        said = f"{event.get('reason', '')}: {event.get('message', '')}"
        return [
            self._events.reading(
                f"xid.{number}", ReadingDevice(part=str(event.get("uid", ""))[:60]), at, raw=said
            )
            for number in _xids(said)
        ]

    def _gpus(self, status: Mapping[str, Any], at: float) -> list[GpuReading]:
        """Compare what the machine has with what pods may have: GPUs, slices and shares alike."""
        has, allocatable = (_counts(status.get(name)) for name in ("capacity", "allocatable"))
        both = has.keys() & allocatable.keys()
        if not both:
            return []
        fewer = sorted(name for name in both if allocatable[name] < has[name])
        raw = ", ".join(f"{allocatable[name]:g} of {has[name]:g} {name} are allocatable" for name in fewer)
        value = sum(allocatable[name] for name in both)
        return self._plugin.level(PLUGIN, MACHINE, bool(fewer), at, raw=raw, value=value)

    def _bad(self, conditions: Iterable[Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for condition in conditions:
            if isinstance(condition, Mapping):
                for fault in _faults(condition):
                    found[fault] = " ".join(
                        str(condition.get(key, "")) for key in ("type", "status", "reason", "message")
                    )
        return found


def _faults(condition: Mapping[str, Any]) -> Iterator[str]:
    kind, status = condition.get("type"), condition.get("status")
    reason = str(condition.get("reason", ""))
    said = f"{reason} {condition.get('message', '')}"
    if status == "True" and kind in BAD_WHEN_TRUE:
        yield BAD_WHEN_TRUE[str(kind)]
    elif status == "False" and kind in BAD_WHEN_FALSE:
        yield BAD_WHEN_FALSE[str(kind)]
    elif (status == "True" and kind in OF_XIDS_WHEN_TRUE) or (
        status == "False" and kind in OF_XIDS_WHEN_FALSE
    ):
        numbers = _listed(reason) or _xids(said)
        if numbers:
            yield from (f"xid.{number}" for number in numbers)
        elif reason in EKS_REASONS:
            yield EKS_REASONS[reason]


def _listed(reason: str) -> list[int]:
    """GKE: `{"79":true}`."""
    try:
        document = json.loads(reason)
    except ValueError:
        return []
    if not isinstance(document, dict):
        return []
    return [int(key) for key, so in document.items() if so is True and key.isdecimal() and len(key) < 5][
        :MAX_XIDS
    ]


def _xids(text: str) -> list[int]:
    return list(dict.fromkeys(map(int, _XID.findall(text))))[:MAX_XIDS]


def _counts(resources: Any) -> dict[str, float]:
    counts = {}
    for name, value in resources.items() if isinstance(resources, Mapping) else ():
        if _GPUS.fullmatch(str(name)):
            with suppress(ValueError):
                counts[name] = float(str(value))
    return counts
