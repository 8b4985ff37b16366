"""NVIDIA's device plugin with GPU feature discovery: shares the GPUs of a machine as the configuration says
that its label names.

It knows `mps-N` for N shares, and nothing for the default; a name that it does not know changes nothing
(https://github.com/NVIDIA/k8s-device-plugin, "Updating Per-Node Configuration With a Node Label"). Assumed,
not recorded.
"""

from kube.fake.controllers.controller_tools import ControllerTools, Object

CONFIG, STRATEGY = "nvidia.com/device-plugin.config", "nvidia.com/gpu.sharing-strategy"
GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
MOST_SHARES = 48


def step(hands: ControllerTools) -> None:
    for node in hands.look("nodes"):
        labels = node["metadata"].get("labels") or {}
        name = labels.get(CONFIG, "")
        replicas = 1 if not name else _replicas(name)
        is_shared = labels.get(STRATEGY, "none") != "none"
        if replicas and (name or is_shared) and labels.get("nvidia.com/gpu.replicas", "1") != str(replicas):
            _apply(hands, node, replicas)


def _replicas(name: str) -> int:
    kind, _, number = name.partition("-")
    return int(number) if kind == "mps" and number.isdecimal() and 2 <= int(number) <= MOST_SHARES else 0


def _apply(hands: ControllerTools, node: Object, replicas: int) -> None:
    def change(now: Object) -> Object:
        labels = now["metadata"]["labels"]
        product = labels.get(PRODUCT, "GPU").removesuffix("-SHARED")
        labels |= {
            STRATEGY: "mps" if replicas > 1 else "none",
            "nvidia.com/mps.capable": str(replicas > 1).lower(),
            "nvidia.com/gpu.replicas": str(replicas),
            PRODUCT: product + ("-SHARED" if replicas > 1 else ""),
        }
        return now

    node = hands.edit("nodes", node, change)
    cards = int(node["metadata"]["labels"].get("nvidia.com/gpu.count", 0))
    status = dict(node["status"])
    for name in ("capacity", "allocatable"):
        status[name] = status[name] | {GPU: str(cards * replicas)}
    hands.set_status("nodes", node, status)
