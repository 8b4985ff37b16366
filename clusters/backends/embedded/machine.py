"""This machine: what it is and has, its GPUs, and which of its ports are free."""

import csv
import platform
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil

from clusters.backends.base import GpuSharingMode, NodeCondition, ObservedGpu, ObservedNode

MIB = 2**20
ASK_GPUS_WITHIN_SECONDS = 5
NO_DEVICES = 6
"""What nvidia-smi ends with when there is a driver and no card."""
_GPU_FIELDS = "index,uuid,name,memory.total,driver_version,serial,pci.bus_id,mig.mode.current"
_MPS = "nvidia-cuda-mps-control"


def machine_name() -> str:
    return socket.gethostname()


def machine_id() -> str:
    """Return the machine's id, which outlasts renames and restarts; its name where it has none."""
    for file in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        if found := _read(file):
            return found
    return machine_name()


def this_machine() -> ObservedNode:
    found, problem = _asked_gpus()
    return replace(bare_machine(), gpus=found, problem=problem)


def bare_machine() -> ObservedNode:
    """Return this machine without its GPUs, which take a while to ask for."""
    return ObservedNode(
        uid=machine_id(),
        name=machine_name(),
        address="127.0.0.1",
        boot_id=_read(Path("/proc/sys/kernel/random/boot_id")) or f"{psutil.boot_time():.0f}",
        cpu_count=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        labels={
            "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(
                platform.machine(), platform.machine()
            ),
            "kubernetes.io/hostname": machine_name(),
            "kubernetes.io/os": platform.system().lower(),
        },
        conditions=(NodeCondition("Ready", "True"),),
        gpus=None,
    )


def gpus() -> tuple[ObservedGpu, ...] | None:
    """The NVIDIA GPUs, as the driver's own tool lists them; none where it is missing, None when it fails."""
    return _asked_gpus()[0]


def _asked_gpus() -> tuple[tuple[ObservedGpu, ...] | None, str]:
    """The GPUs and why they could not be read."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return (), ""
    command = [tool, f"--query-gpu={_GPU_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=ASK_GPUS_WITHIN_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"Its GPUs cannot be read: {error}"
    if ran.returncode == NO_DEVICES:
        return (), ""
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip()[:300] or f"exit status {ran.returncode}"
        return None, f"Its GPUs cannot be read: nvidia-smi: {said}"
    found = parse_gpus(ran.stdout)
    return tuple(found if not found or not _runs_mps() else map(_shared_by_mps, found)), ""


def parse_gpus(listed: str) -> list[ObservedGpu]:
    """A line per GPU, in the order of `_GPU_FIELDS`; a field that the driver cannot tell reads `[N/A]`."""
    found = []
    for row in csv.reader(listed.splitlines(), skipinitialspace=True):
        if len(row) == len(_GPU_FIELDS.split(",")) and row[0].isdecimal():
            known = ["" if field.startswith("[") else field for field in row]
            index, uuid, name, memory_mib, driver, serial, bus_id, mig = known
            found.append(
                ObservedGpu(
                    uuid=uuid or f"{machine_id()}/{index}",
                    index=int(index),
                    name=name,
                    memory_bytes=int(memory_mib) * MIB if memory_mib.isdecimal() else 0,
                    driver=driver,
                    serial=serial,
                    pci_bus_id=bus_id,
                    sharing=GpuSharingMode.MIG if mig == "Enabled" else GpuSharingMode.NONE,
                )
            )
    return found


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _shared_by_mps(gpu: ObservedGpu) -> ObservedGpu:
    return gpu if gpu.sharing == GpuSharingMode.MIG else replace(gpu, sharing=GpuSharingMode.MPS)


def _runs_mps() -> bool:
    """Whether the daemon runs that lets processes share GPUs; the kernel cuts names after 15 letters."""
    return any((process.info["name"] or "")[:15] == _MPS[:15] for process in psutil.process_iter(["name"]))


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
