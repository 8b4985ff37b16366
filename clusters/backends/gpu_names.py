"""Names under which clusters count GPUs and slices of them: extended resources of Kubernetes. Pure."""

import re

NVIDIA = "nvidia.com/gpu"
WHOLE = (NVIDIA, "amd.com/gpu", "huawei.com/Ascend910", "aliyun.com/gpu")
"""Under which device plugins offer whole GPUs."""
SHARED = f"{NVIDIA}.shared"
"""Shares of GPUs, where the device plugin renames them: `renameByDefault` of its sharing."""
MIG = "nvidia.com/mig-"
"""Prefix of the names of slices: https://docs.nvidia.com/datacenter/cloud-native/kubernetes/latest/"""
MIG_CLASS = "mig.nvidia.com/"
"""Prefix of the names of slices that pods claim: the device class of NVIDIA's DRA driver."""
_HOLDING = ("nvidia.com/", "amd.com/", "huawei.com/Ascend", "aliyun.com/gpu", "volcano.sh/vgpu")
_PROFILE = re.compile(r"[0-9]{1,2}(c\.[0-9]{1,2})?g\.[0-9]{1,4}gb([.-][a-z0-9.]{1,20})?")


def is_gpu(resource: str) -> bool:
    return resource in (*WHOLE, SHARED) or resource.startswith(MIG)


def may_hold_gpu(resource: str) -> bool:
    """Whether a pod that asks for it can have a GPU open, counted or not: vGPUs of KubeVirt
    (`nvidia.com/GRID_T4-1Q`), memory and cores of GPUs (HAMi, Volcano, Alibaba)."""
    return is_gpu(resource) or resource.startswith(_HOLDING)


def is_slice(resource: str) -> bool:
    return resource.startswith((MIG, MIG_CLASS))


def is_claimed(resource: str) -> bool:
    """Whether pods get it by a claim (DRA), and not by its name among a machine's resources."""
    return resource.startswith(MIG_CLASS)


def profile_of(slice_name: str) -> str:
    """Return the profile of a slice: `1g.10gb`."""
    return slice_name.removeprefix(MIG).removeprefix(MIG_CLASS)


def slice_part(resource: str) -> float:
    """Return the part of a GPU's compute that it has: 2/7 of a slice `2g.20gb`, 1 of a whole GPU."""
    slices = re.match(r"[0-9]+", profile_of(resource)) if is_slice(resource) else None
    return int(slices[0]) / 7 if slices else 1.0


def name_fault(resource: str) -> str:
    """Why a worker cannot ask for it; empty: it can."""
    if resource in WHOLE or (is_slice(resource) and _PROFILE.fullmatch(profile_of(resource))):
        return ""
    return (
        f"{resource!r} is no name of GPUs. There are {', '.join(WHOLE)}, and slices such as {MIG}1g.10gb, or "
        f"{MIG_CLASS}1g.10gb by a claim."
    )
