"""A machine whose disk is a directory of this computer, as its Node says."""

from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

BOOT = Path("/proc/sys/kernel/random/boot_id")


def node(name: str, *, uid: str, cpus: int, gib: int, gpus: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
        labels |= {"nvidia.com/gpu.product": "Fake-GPU", "nvidia.com/gpu.memory": "16384"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "metadata": {"name": name, "uid": uid, "labels": labels},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {"bootID": boot_id(), "kubeletVersion": "v1.36.2"},
        },
    }


def boot_id() -> str:
    """Return the boot id of this computer, whose processes the containers are: a kubelet and an agent read
    the same one.
    """
    try:
        return BOOT.read_text().strip()
    except OSError:
        return str(uuid4())


def uid_of(disk: Path) -> str:
    """A machine with the same disk is the same one, whenever it starts."""
    return str(uuid5(NAMESPACE_URL, disk.absolute().as_uri()))
