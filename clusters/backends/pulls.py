"""The time that a machine took to pull an image, from its kubelet's event. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime

from clusters.backends.kubernetes_events import KubernetesEvent

# kubernetes/kubernetes, pkg/kubelet/images/image_manager.go
_PULLED = re.compile(
    r'Successfully pulled image "(?P<image>[^"]+)" in (?P<took>[0-9a-zµ.]+)'
    r"(?: \((?P<waited>[0-9a-zµ.]+) including waiting\))?(?:\. Image size: (?P<size>\d{1,18}) bytes)?"
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|µs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class ObservedPull:
    machine: str
    pod_uid: str
    reference: str
    """As the pod names the image."""
    seconds: float
    waited_seconds: float
    """From the wish on: a kubelet pulls one image after the other unless it is told otherwise."""
    size_bytes: int
    """0: it does not say."""
    at: datetime


def pull_of(told: KubernetesEvent) -> ObservedPull | None:
    """Read a pull from an event; None: it is another event, or the image was there."""
    if told.kind != "Pod" or told.reason != "Pulled" or told.last_at is None or not told.host:
        return None
    if (read := _PULLED.match(told.message)) is None:
        return None
    seconds = seconds_of(read["took"])
    return ObservedPull(
        machine=told.host,
        pod_uid=told.uid,
        reference=read["image"],
        seconds=seconds,
        waited_seconds=seconds_of(read["waited"] or "") or seconds,
        size_bytes=int(read["size"] or 0),
        at=told.last_at,
    )


def seconds_of(text: str) -> float:
    """`1m12.3s`, as Go writes durations; 0.0 where it is none."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))
