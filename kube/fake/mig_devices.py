"""Slices and classes as NVIDIA's DRA driver publishes them for H100 80GB cards with DynamicMIG.

After its sources of August 2026 (https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu): a slice of
counters, then one for each card. Figures of profiles are those of NVIDIA's MIG user guide.
"""

import re
from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"
PRODUCT = "NVIDIA H100 80GB HBM3"
_ENGINES = ("multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines", "memory")
_PROFILES: tuple[tuple[str, int, tuple[int, ...], int, tuple[int, ...]], ...] = (
    ("1g.10gb", 19, (16, 1, 1, 0, 1, 0, 9_856), 1, (0, 1, 2, 3, 4, 5, 6)),
    ("1g.20gb", 15, (26, 1, 1, 0, 1, 0, 20_096), 2, (0, 2, 4, 6)),
    ("2g.20gb", 14, (32, 2, 2, 0, 2, 0, 20_096), 2, (0, 2, 4)),
    ("3g.40gb", 9, (60, 3, 3, 0, 3, 0, 40_448), 4, (0, 4)),
    ("4g.40gb", 5, (64, 4, 4, 0, 4, 0, 40_448), 4, (0,)),
    ("7g.80gb", 0, (132, 8, 7, 0, 7, 1, 81_152), 8, (0,)),
)
"""Name, id, engines and MiB, memory slices, where it may begin."""
_WHOLE = _PROFILES[-1][2]


def mig_classes() -> list[Object]:
    """Return the device classes of the driver's chart."""

    def of_type(kind: str) -> str:
        return f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"

    def device_class(name: str, kind: str, **more: str) -> Object:
        return {
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": of_type(kind)}}], **more},
        }

    return [
        device_class(DRIVER, "gpu", extendedResourceName="nvidia.com/gpu"),
        device_class("mig.nvidia.com", "mig"),
    ]


def mig_slices(node: str, *, cards: int) -> list[Object]:
    """Return the slices of a machine."""
    counters = [
        {
            "name": f"gpu-{card}-counter-set",
            "counters": {name: {"value": value} for name, value in _counters(_WHOLE, 0, 8).items()},
        }
        for card in range(cards)
    ]
    bodies: list[Object] = [{"sharedCounters": counters}]
    bodies += [{"devices": _devices(node, card)} for card in range(cards)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(bodies)}
    return [
        {
            "metadata": {"name": f"{node}-{DRIVER}-{number}"},
            "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **body},
        }
        for number, body in enumerate(bodies)
    ]


def _devices(node: str, card: int) -> list[Object]:
    uuid = f"GPU-{node}-{card}"
    common = {"productName": {"string": PRODUCT}, "architecture": {"string": "Hopper"}}
    found = [
        _device(f"gpu-{card}", card, {"type": {"string": "gpu"}, "uuid": {"string": uuid}, **common}, _WHOLE)
    ]
    for profile, number, sizes, slices, begins in _PROFILES:
        name = re.sub("[^a-z0-9-]", "-", profile.replace(".", ""))
        attributes = {
            "type": {"string": "mig"},
            "parentUUID": {"string": uuid},
            "profile": {"string": profile},
            **common,
        }
        found += [
            _device(f"gpu-{card}-mig-{name}-{number}-{begin}", card, attributes, sizes, begin, slices)
            for begin in begins
        ]
    return found


def _device(
    name: str,
    card: int,
    attributes: Mapping[str, Any],
    sizes: tuple[int, ...],
    begin: int = 0,
    slices: int = 8,
) -> Object:
    counters = {name: {"value": value} for name, value in _counters(sizes, begin, slices).items()}
    return {
        "name": name,
        "attributes": dict(attributes),
        "capacity": {
            name: {"value": f"{size}Mi" if name == "memory" else str(size)}
            for name, size in zip(_ENGINES, sizes, strict=True)
        },
        "consumesCounters": [{"counterSet": f"gpu-{card}-counter-set", "counters": counters}],
    }


def _counters(sizes: tuple[int, ...], begin: int, slices: int) -> dict[str, str]:
    named = {
        re.sub("([A-Z])", r"-\1", name).lower(): f"{size}Mi" if name == "memory" else str(size)
        for name, size in zip(_ENGINES, sizes, strict=True)
    }
    return named | {f"memory-slice-{place}": "1" for place in range(begin, begin + slices)}
